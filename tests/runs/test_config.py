"""Run configuration and project defaults: every mistake has a place, layers merge in order, the documentation lists every key."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from arc.runs.config import (
    CheckpointConfig,
    EnvironmentConfig,
    HookConfig,
    ModelConfig,
    RunConfig,
    SandboxConfig,
    SetupConfig,
)
from arc.runs.config_files import KEYS, duration_ms, find_project_file, read_layer, read_sources
from arc.runs.errors import ConfigError, SourceError
from arc.runs.toml_places import locate
from arc.runs.world import StartRequest

WHOLE = """\
schema = 1
graph = "w.dot"
goal = '''
Two
lines'''

[inputs]
issue = 42
"with.dot" = "x"

[labels]
team = "core"

[model]
backend = "cli"
command = ["claude", "-p"]   # a comment
reasoning_effort = "low"

[setup]
commands = ["make deps"]
timeout = "2m"

[environment]
CI = true
pass = ["PATH"]

[checkpoint]
exclude_globs = ["data/**"]

[[hooks]]
event = "before_node"
command = "check"
nodes = ["plan"]

[[hooks]]
event = "after_node"
command = "tell"
timeout = "250ms"

[handlers]
deploy = "tools:deploy"
"""


def write(folder: Path, text: str, name: str = "run.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def request(source: Path, **changes: object) -> StartRequest:
    return dataclasses.replace(StartRequest(source=source, directory=source.parent), **changes)  # type: ignore[arg-type]


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.dot").touch()
    sources = read_sources(request(write(tmp_path, WHOLE)), None)
    assert sources.graph == tmp_path / "w.dot"
    assert sources.config == RunConfig(
        schema=1,
        graph=str(tmp_path / "w.dot"),
        goal="Two\nlines",
        inputs={"issue": "42", "with.dot": "x"},
        labels={"team": "core"},
        model=ModelConfig(backend="cli", command=("claude", "-p"), reasoning_effort="low"),
        setup=SetupConfig(("make deps",), 120_000),
        environment=EnvironmentConfig({"CI": "true"}, ("PATH",)),
        checkpoint=CheckpointConfig(("data/**",)),
        sandbox=SandboxConfig(),
        hooks=(HookConfig("before_node", "check", ("plan",)), HookConfig("after_node", "tell", (), 250)),
        handlers={"deploy": "tools:deploy"},
    )


def test_the_command_line_is_stronger_than_the_run_than_the_project(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.dot").touch()
    write(
        tmp_path,
        '[inputs]\na = "project"\nb = "project"\nc = "project"\n[checkpoint]\nexclude_globs = ["p", "q"]\n'
        '[model]\nmodel = "p"\ncommand = ["p"]\n'
        '[[hooks]]\nevent = "after_node"\ncommand = "project"\n',
        "arc.toml",
    )
    run = write(
        tmp_path / "sub",
        'graph = "w.dot"\ngoal = "run"\n[inputs]\nb = "run"\nc = "run"\n[checkpoint]\nexclude_globs = ["q", "r"]\n'
        '[[hooks]]\nevent = "after_node"\ncommand = "run"\n',
    )
    config = read_sources(request(run, inputs={"c": "cli"}, model=ModelConfig(model="cli"), goal="cli"), tmp_path).config
    assert config.inputs == {"a": "project", "b": "run", "c": "cli"}
    assert config.goal == "cli"
    assert sorted(config.checkpoint.exclude_globs) == ["p", "q", "r"], "exclusions add up"
    assert (config.model.model, config.model.command, config.model.backend) == ("cli", ("p",), "cli")
    assert [hook.command for hook in config.hooks] == ["project", "run"]


def test_paths_count_from_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "flows" / "w.dot").touch()
    run = write(tmp_path / "flows", 'graph = "w.dot"\ndirectory = "../work"\n[model]\nscript = "replies.toml"\n')
    sources = read_sources(StartRequest(source=run, directory=tmp_path), None)
    assert sources.directory == tmp_path / "work"
    assert sources.config.model == ModelConfig(backend="scripted", script=str(tmp_path / "flows" / "replies.toml"))


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("gaol = 1\n", "1:1", "unknown key `gaol`", "did you mean `goal`"),
        ('graph = "x"\n\n[setup]\n  comands = []\n', "4:3", "unknown key `comands` in `[setup]`", "`commands`"),
        ("goal = 7\n", "1:8", "`goal` must be a text, not an integer", ""),
        ('[setup]\ntimeout = "soon"\n', "2:11", "`setup.timeout` is not a duration", ""),
        ("[setup]\ntimeout = 5\n", "2:11", "must be a duration such as", ""),
        ('[setup]\ncommands = [\n  "a",\n  3,\n]\n', "4:3", "`setup.commands` must be a text, not an integer", ""),
        ('[model]\nbackend = "api"\n', "2:11", "must be `cli` or `scripted`, not `api`", ""),
        ('[[hooks]]\nevent = "after_node"\ncommand = "a"\n[[hooks]]\nevent = "after_node"\n', "4:1", "this hook has no `command`", ""),
        ('[[hooks]]\nevent = "sometimes"\ncommand = "a"\n', "2:9", "must be `before_node` or `after_node`", ""),
        ("inputs = { a = [1] }\n", "1:16", "`inputs.a` must be a text", ""),
        ("schema = 2\n", "1:10", "schema 2 is not known", ""),
        ('goal = """\nx = 1\n"""\nlables.a = "b"\n', "4:1", "unknown key `lables`", "`labels`"),
        ("sandbox.provider = 'docker'\n", "1:20", "must be `local`", ""),
        ("a = \n", "1:5", "Invalid value", ""),
    ],
)
def test_every_mistake_has_its_place(tmp_path: Path, text: str, place: str, message: str, hint: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_layer(file, project=False)
    assert caught.value.message.startswith(f"{file}:{place}: ")
    assert message in caught.value.message
    assert hint in " ".join(caught.value.hints)


def test_what_makes_no_sense_in_a_project_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'goal = "g"\ngraph = "w.dot"\n', "arc.toml")
    with pytest.raises(ConfigError, match=r":2:1: `graph` belongs into a run configuration"):
        read_layer(file, project=True)


def test_not_utf8_has_a_place(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(b'a = "x"\nb = "\xff"\n')
    with pytest.raises(ConfigError, match=r":2:6: the file is not UTF-8"):
        read_layer(file, project=False)


def test_a_run_without_a_graph_and_a_graph_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without `graph`"):
        read_sources(request(write(tmp_path, 'goal = "x"\n')), None)
    with pytest.raises(SourceError, match=r"names the workflow `w\.dot`"):
        read_sources(request(write(tmp_path, 'graph = "w.dot"\n')), None)
    with pytest.raises(SourceError, match="does not exist"):
        read_sources(request(tmp_path / "none.dot"), None)


def test_the_project_file_is_the_nearest_up_to_the_top(tmp_path: Path) -> None:
    inner = tmp_path / "top" / "a" / "b"
    inner.mkdir(parents=True)
    write(tmp_path, "", "arc.toml")
    assert find_project_file(inner, tmp_path / "top") is None, "above the repository nothing counts"
    write(tmp_path / "top", "", "arc.toml")
    assert find_project_file(inner, tmp_path / "top") == tmp_path / "top" / "arc.toml"
    assert find_project_file(inner, None) is None


@pytest.mark.parametrize(("text", "milliseconds"), [("250ms", 250), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), ("1d", 86_400_000)])
def test_durations(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds
    assert duration_ms(f"{text}x") is None


def test_places_of_everything_a_toml_text_can_hold() -> None:
    text = 'a.b = 1\n"q.k" = """x ]\n\\""" y"""\n[t]\n\'lit\' = [ {x = 1}, {y = 2} ]\n'
    text += "[[t.u]]\nk = '''\n[no]\n'''\n[[t.u]]\nk = 2 # [no]\n"
    places = locate(text)
    assert {path: (place.line, place.column) for path, place in places.items()} == {
        ("a",): (1, 1),
        ("a", "b"): (1, 1),
        ("q.k",): (2, 1),
        ("t",): (4, 1),
        ("t", "lit"): (5, 1),
        ("t", "lit", 0): (5, 11),
        ("t", "lit", 0, "x"): (5, 12),
        ("t", "lit", 1): (5, 20),
        ("t", "lit", 1, "y"): (5, 21),
        ("t", "u"): (6, 1),
        ("t", "u", 0): (6, 1),
        ("t", "u", 0, "k"): (7, 1),
        ("t", "u", 1): (10, 1),
        ("t", "u", 1, "k"): (11, 1),
    }


def test_the_documentation_lists_every_key_and_every_field_has_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_.]+)` \|", page, flags=re.MULTILINE))
    assert documented == set(KEYS)
    names = {"setup.timeout_ms": "setup.timeout", "hooks.timeout_ms": "hooks.timeout", "environment.pass_through": "environment.pass"}
    tables = {"model": ModelConfig, "setup": SetupConfig, "checkpoint": CheckpointConfig, "sandbox": SandboxConfig, "hooks": HookConfig}
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    fields |= {names.get(f"{table}.{f.name}", f"{table}.{f.name}") for table, kind in tables.items() for f in dataclasses.fields(kind)}
    fields |= {"environment.pass", "directory"}
    assert fields == set(KEYS)
