"""No secret that arc can know is in any file it writes or in any Git object, except in files that a node itself wrote."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from arc.base.errors import ArcError
from arc.runs.errors import MissingVariableError
from arc.runs.store import find_run
from tests.conftest import Arc, MakeRepo, Repo
from tests.runs.helpers import folder_of, resume, start, world_in

ENVIRONMENT = "env-secret-0123456789"
CONFIGURED = "conf-secret-0123456789"
INPUT = "input-secret-0123456789"
SHAPE = "ghp_" + "a1B2" * 9
ANSWER = "gho_" + "c3D4" * 9
SECRETS = (ENVIRONMENT, CONFIGURED, INPUT, SHAPE, ANSWER)

WORKFLOW = f"""
digraph s {{
  goal = "goal with {SHAPE}"
  start [shape=Mdiamond]; exit [shape=Msquare]
  print [shape=parallelogram, script="echo $MY_TOKEN $CONF_PASSWORD $ARC_INPUT_API_KEY {SHAPE}; echo $MY_TOKEN >&2"]
  big [shape=parallelogram, script="for i in $(seq 8000); do echo $MY_TOKEN; done"]
  ask [prompt="use ${{api_key}} and {SHAPE}"]
  gate [shape=hexagon, label="is {SHAPE} good?"]
  fail [shape=parallelogram, script="echo $MY_TOKEN >&2; test -e $GO"]
  start -> print -> big -> ask -> gate
  gate -> fail [freeform=true]
  gate -> fail [label="yes"]
  fail -> exit [condition="outcome=success"]
}}
"""

CONFIG = f"""
[inputs]
api_key = "{INPUT}"
[environment]
CONF_PASSWORD = "{CONFIGURED}"
[model]
command = ["/bin/sh", "-c", "cat; echo reply $MY_TOKEN $ARC_INPUT_API_KEY"]
[setup]
commands = ["echo setup $MY_TOKEN $CONF_PASSWORD"]
[[hooks]]
event = "before_node"
command = "echo hook $MY_TOKEN >&2; exit 1"
"""


def everything_written(home: Path, repo: Repo) -> dict[str, bytes]:
    """All files of the home and all objects of the repository."""
    found = {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    names = repo.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").splitlines()
    for name, kind in (line.split() for line in names):
        found[f"object {name}"] = subprocess.run(["git", "-C", str(repo.path), "cat-file", kind, name], capture_output=True).stdout
    return found


def test_secrets_are_in_no_file_and_no_object(repo: MakeRepo, arc: Arc, tmp_path: Path) -> None:
    project = repo({"README.md": "x\n"})
    room = tmp_path / "outside"
    room.mkdir()
    (room / "w.dot").write_text(WORKFLOW)
    (room / "run.toml").write_text('graph = "w.dot"\n' + CONFIG)
    home = tmp_path / "secret-home"
    environ = {"MY_TOKEN": ENVIRONMENT, "ARC_HOME": str(home), "GO": str(tmp_path / "go")}
    process = arc.start("run", "start", str(room / "run.toml"), "--label", f"who={SHAPE}", cwd=project.path, env=environ)
    deadline = time.monotonic() + 60
    while not list(home.glob("runs/*/questions/*.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (run_id,) = [path.name for path in (home / "runs").iterdir()]
    arc("run", "answer", run_id, f"token {ANSWER}", cwd=project.path, env=environ).ok()
    process.communicate(timeout=60)
    assert process.returncode == 1, "the last node fails"
    (tmp_path / "go").touch()
    refused = arc("run", "resume", run_id, cwd=project.path, env=environ)
    assert "`CONF_PASSWORD`" in refused.stderr
    environ |= {"CONF_PASSWORD": CONFIGURED, "ARC_INPUT_API_KEY": INPUT}
    arc("run", "resume", run_id, cwd=project.path, env=environ).ok()
    written = everything_written(home, project)
    assert len(written) > 40
    leaks = {f"{place}: {secret}" for place, data in written.items() for secret in SECRETS if secret.encode() in data}
    assert leaks == set()
    assert "«redacted:MY_TOKEN»" in next(iter((home / "runs" / run_id / "nodes").glob("*-print/stdout.log"))).read_text()


LEAK = """
from arc.workflow.outcome import Failure, Outcome

SECRET = "env-secret" + "-0123456789"  # the file itself is the person's and committed as it is

def fails(call):
    return Outcome("fail", notes="it said " + SECRET, failure=Failure("refused: " + SECRET))

def raises(call):
    raise RuntimeError("raised with " + SECRET)
"""


@pytest.mark.parametrize("kind", ["fails", "raises"])
def test_a_secret_in_the_message_of_a_failure_is_in_no_file_and_no_object(repo: MakeRepo, tmp_path: Path, kind: str) -> None:
    flow = "digraph w { start [shape=Mdiamond]; exit [shape=Msquare]; a [type=leaky]; start -> a -> exit }"
    project = repo({"w.dot": flow, "leaky_handler.py": LEAK, "arc.toml": f'[handlers]\nleaky = "leaky_handler:{kind}"\n'})
    result = start(project.path / "w.dot", world_in(tmp_path, {"MY_TOKEN": ENVIRONMENT}))
    assert result.status == "fail"
    written = everything_written(tmp_path / "arc-home", project)
    assert {place for place, data in written.items() if ENVIRONMENT.encode() in data} == set()
    assert "«redacted:MY_TOKEN»" in (folder_of(result).read_record().failure or "")


def test_a_secret_in_a_setup_command_is_not_in_the_message_of_its_failure(repo: MakeRepo, tmp_path: Path) -> None:
    flow = "digraph w { start [shape=Mdiamond]; exit [shape=Msquare]; start -> exit }"
    project = repo({"w.dot": flow, "arc.toml": f'[setup]\ncommands = ["false {SHAPE}"]\n'})
    with pytest.raises(ArcError) as caught:
        start(project.path / "w.dot", world_in(tmp_path))
    assert "«redacted:" in caught.value.message
    assert SHAPE not in caught.value.message


def test_a_secret_input_comes_from_the_environment_on_a_resume(repo: MakeRepo, tmp_path: Path) -> None:
    graph = """digraph s { start [shape=Mdiamond]; exit [shape=Msquare]
      a [shape=parallelogram, script="test -e $GO && echo $ARC_INPUT_API_KEY | wc -c"]
      start -> a -> exit [condition="outcome=success"] }"""
    project = repo({"w.dot": graph})
    world = world_in(tmp_path, {"GO": str(tmp_path / "go")})
    first = start(project.path / "w.dot", world, inputs={"api_key": INPUT, "key": "B"})
    assert folder_of(first).read_record().config.inputs == {"api_key": "«redacted:api_key»", "key": "B"}
    (tmp_path / "go").touch()
    with pytest.raises(MissingVariableError) as caught:
        resume(world, first.run_id)
    assert caught.value.hints == ("export ARC_INPUT_API_KEY=...",)
    world = world_in(tmp_path, {"GO": str(tmp_path / "go"), "ARC_INPUT_API_KEY": INPUT})
    assert resume(world, first.run_id).status == "success"
    checkpoint = find_run(world, first.run_id).read_checkpoint()
    assert checkpoint is not None
    assert checkpoint.context_values["command.output"] == f"{len(INPUT) + 1}\n"


def test_the_lease_names_the_command_without_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from arc.base.locks import this_process

    monkeypatch.setattr("sys.argv", ["arc", "run", "start", "-i", f"token={INPUT}", "w.dot"])
    assert this_process().command == "arc run start"
