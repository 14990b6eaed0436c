"""What must hold of language and engine, seen from outside: the real command, real repositories, real processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Arc, MakeRepo, Ran, Repo


@dataclass
class Run:
    """A repository, the command in it, and the last run."""

    repo: Repo
    folder: Path = Path("/nowhere")

    def start(self, body: str, *args: str, attributes: str = "", **files: str) -> Ran:
        """Start a workflow given by the inside of a digraph. `files` lie beside it (`child_dot="..."` is `child.dot`)."""
        beside = self.repo.path.parent / "flows"
        beside.mkdir(exist_ok=True)
        for name, text in files.items():
            (beside / name.replace("_", ".")).write_text(text)
        flow = beside / "flow.dot"
        flow.write_text(f"digraph flow {{\n{attributes}\nstart [shape=Mdiamond]; exit [shape=Msquare]\n{body}\n}}\n")
        return self._done(Arc(self.repo.path).inside("run", "start", str(flow), "--json", *args))

    def resume(self) -> Ran:
        return self._done(Arc(self.repo.path).inside("run", "resume", self.folder.name, "--json"))

    def _done(self, ran: Ran) -> Ran:
        if ran.stdout:
            self.folder = Path(ran.json()["logs_dir"])
        return ran

    @property
    def branch(self) -> str:
        return f"arc/run/{self.folder.name}"

    @property
    def files(self) -> set[str]:
        """Names on the run branch."""
        return set(self.repo.git("ls-tree", "-r", "--name-only", self.branch).split())

    def show(self, name: str) -> str:
        return self.repo.git("show", f"{self.branch}:{name}")

    @property
    def state(self) -> Any:
        return json.loads((self.folder / "checkpoint.json").read_text())

    def told(self, event: str) -> list[Any]:
        lines = [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    @property
    def executed(self) -> list[str]:
        return [line["node"] for line in self.told("node.started")]


@pytest.fixture
def run(repo: MakeRepo) -> Run:
    return Run(repo({"readme.txt": "one\n", ".gitignore": "*.ignored\n"}))


def test_a_failing_setup_is_not_followed_by_solve(run: Run) -> None:
    ran = run.start('node [type=command]; setup [script="exit 1"]; solve [script="touch solved"]; start -> setup -> solve -> exit')
    assert ran.status == 1
    assert run.executed == ["start", "setup"]
    assert "`setup -> solve` has no condition and a failed node does not follow it" in ran.json()["failure"]


def test_an_edge_whose_condition_is_false_is_never_taken(run: Run) -> None:
    ran = run.start('a [type=command, script=true]; b [shape=diamond]; start -> a; a -> b [condition="outcome=fail"]; b -> exit')
    assert ran.status == 1
    assert run.executed == ["start", "a"]
    assert "`a -> b` needs `outcome=fail`" in ran.json()["failure"]


def test_a_gate_that_routing_went_around_fails_the_run(run: Run) -> None:
    ran = run.start(
        'a [type=command, script=true]; tests [type=command, script=true, goal_gate=true]\n'
        'start -> a -> exit; a -> tests [condition="context.never=1"]; tests -> exit'
    )  # fmt: skip
    assert ran.status == 1
    assert ran.json()["failure"].startswith("the exit was reached with unsatisfied goal gates: `tests` (never executed)")


def test_nobody_answers_and_the_default_choice_is_taken(run: Run) -> None:
    ran = run.start(
        'h [shape=hexagon, timeout=50ms, human.default_choice=b]; node [type=command]; a [script="touch A"]; b [script="touch B"]\n'
        'start -> h; h -> a [label="[A] a"]; h -> b [label="[B] b"]; a -> exit; b -> exit'
    )
    assert ran.ok().json()["status"] == "success"
    assert run.files >= {"B"}
    assert "A" not in run.files


def test_commands_of_branches_work_each_in_a_worktree_of_its_own(run: Run) -> None:
    body = "p [shape=component]; f [shape=tripleoctagon]; node [type=command]; start -> p; f -> exit\n"
    for name in ("a", "b"):
        body += f'{name} [script="ls > {name}.seen; pwd > {name}.ignored; pwd"]; p -> {name} -> f\n'
    run.start(body).ok()
    assert run.show("a.seen").split() == ["a.seen", "readme.txt"]
    assert run.show("b.seen").split() == ["b.seen", "readme.txt"]
    places = {result["outputs"]["command.output"].strip() for result in run.state["context_values"]["parallel.results"]}
    assert len(places) == 2
    assert all(place.startswith(str(run.folder)) for place in places)


CONFLICT = """
p [shape=component]; f [shape=tripleoctagon]
x [type=command, script="echo x > readme.txt; echo x > x.txt"]; y [type=command, script="echo y > readme.txt; echo y > y.txt"]
start -> p; p -> x -> f; p -> y -> f
f -> exit [condition="outcome=success"]
"""


def test_changes_of_one_line_in_two_branches_are_a_conflict_that_names_paths_and_ref(run: Run) -> None:
    ran = run.start(CONFLICT)
    assert ran.status == 1
    (conflict,) = run.state["context_values"]["parallel.conflicts"]
    assert (conflict["branch"], conflict["paths"]) == ("y", ["readme.txt"])
    assert run.repo.git("show", f"{conflict['ref']}:y.txt") == "y"
    assert run.show("readme.txt") == "x"


def test_a_conflict_is_routed_to_an_agent_who_finds_the_branch_in_its_prompt_and_resolves_it(run: Run) -> None:
    replies = """
schema = 1
[[reply]]
node = "mend"
text = "Both lines are kept."
command = '''
theirs=$(git for-each-ref --format="%(refname)" "refs/heads/arc/branch/$ARC_RUN_ID/*/y")
{ cat readme.txt; git show "$theirs:readme.txt"; } > both && mv both readme.txt && git show "$theirs:y.txt" > y.txt
'''
"""
    run.start(
        CONFLICT + 'mend [shape=box, prompt="Resolve it"]; f -> mend [condition="preferred_label=conflict"]; mend -> exit',
        "--script",
        str(run.repo.path.parent / "flows" / "replies.toml"),
        replies_toml=replies,
    ).ok()
    assert run.show("readme.txt") == "x\ny"
    assert run.files == {".gitignore", "readme.txt", "x.txt", "y.txt"}
    (prompt,) = run.folder.glob("nodes/*-mend/prompt*")
    assert f"refs/heads/arc/branch/{run.folder.name}/" in prompt.read_text()


def test_first_success_cancels_the_others_and_their_unfinished_work_is_kept_aside(run: Run) -> None:
    run.start(
        "p [shape=component, join_policy=first_success]; f [shape=tripleoctagon]; node [type=command]\n"
        'quick [script="until [ -e $FLAG ]; do sleep 0.02; done; echo done > quick.txt"]\n'
        'slow [script="echo half > slow.txt; touch $FLAG; sleep 600; echo late > late.txt"]\n'
        "start -> p; p -> quick -> f; p -> slow -> f; f -> exit".replace("$FLAG", str(run.repo.path.parent / "flag"))
    ).ok()
    assert run.files == {".gitignore", "quick.txt", "readme.txt"}
    aside = run.repo.git("for-each-ref", "--format=%(refname)", f"refs/arc-aside/{run.folder.name}").split()
    assert [run.repo.git("show", f"{ref}:slow.txt") for ref in aside] == ["half"]
    assert {result["id"]: result["status"] for result in run.state["context_values"]["parallel.results"]} == {
        "quick": "success",
        "slow": "canceled",
    }


def test_a_failed_branch_is_mended_by_a_resume_that_runs_nothing_twice(run: Run) -> None:
    ran = run.start(
        'p [shape=component, join_policy="k_of_n(2)"]; f [shape=tripleoctagon]; node [type=command]\n'
        'a [script="echo a >> a.txt"]; a2 [script="test -e $FLAG && echo 2 >> a.txt"]; b [script="echo b >> b.txt"]\n'
        "start -> p; p -> a -> a2 -> f; p -> b -> f; f -> exit".replace("$FLAG", str(run.repo.path.parent / "flag"))
    )
    assert ran.status == 1
    (run.repo.path.parent / "flag").touch()
    before = len(run.executed)
    run.resume().ok()
    assert run.executed[before:] == ["p", "p:a/a2", "f", "exit"]
    assert (run.show("a.txt"), run.show("b.txt")) == ("a\n2", "b")
    assert run.state["node_visits"] == {"start": 1, "p": 1, "a": 1, "a2": 1, "b": 1, "f": 1, "exit": 1}


def test_a_failed_child_is_mended_by_a_resume_that_runs_nothing_twice(run: Run) -> None:
    child = (
        "digraph child { start [shape=Mdiamond]; exit [shape=Msquare]; node [type=command]\n"
        'm [script="echo m >> m.txt"]; n [script="test -e $FLAG"]; start -> m -> n -> exit }'
    ).replace("$FLAG", str(run.repo.path.parent / "flag"))
    ran = run.start('c [shape=house, stack.child_workflow="child.dot"]; start -> c -> exit', child_dot=child)
    assert ran.status == 1
    (run.repo.path.parent / "flag").touch()
    before = len(run.executed)
    run.resume().ok()
    assert run.executed[before:] == ["c", "c/n", "c/exit", "exit"]
    assert run.show("m.txt") == "m"


def test_a_node_that_a_hook_skips_has_a_checkpoint(run: Run) -> None:
    run.repo.write("arc.toml", '[[hooks]]\nevent = "before_node"\nnodes = ["a"]\ncommand = "exit 3"\n')
    run.repo.commit()
    run.start('a [type=command, script="touch never"]; start -> a -> exit').ok()
    assert f"arc({run.folder.name}): a (skipped)" in run.repo.git("log", "--format=%s", run.branch).splitlines()
    assert "never" not in run.files


def test_the_class_of_a_failure_is_never_read_from_its_output(run: Run) -> None:
    run.start('a [type=command, script="echo 500 timeout try again; echo canceled >&2; exit 1"]; start -> a -> exit')
    assert run.state["context_values"]["failure_class"] == "deterministic"


def test_a_command_that_ignores_the_polite_signal_is_ended_with_all_it_started(run: Run) -> None:
    run.start(
        "a [type=command, timeout=200ms, max_retries=0, script=\"trap '' TERM; (trap '' TERM; sleep 600) & echo begun; wait\"]\n"
        "start -> a -> exit"
    )
    assert run.state["context_values"]["failure_class"] == "transient_infra"
    assert run.state["context_values"]["command.output"] == "begun\n"


def test_a_thousand_nodes_are_read_and_drawn(run: Run) -> None:
    names = [f"n{number}" for number in range(1_000)]
    text = f"digraph big {{ start; exit; node [shape=diamond]; {'; '.join(names)}; start -> {' -> '.join(names)} -> exit }}"
    run.repo.write("big.dot", text)
    report = Arc(run.repo.path).inside("validate", "--json", "big.dot").json()
    assert (report["errors"], report["files"][0]["nodes"]) == (0, 1_002)
    assert Arc(run.repo.path).inside("graph", "big.dot", "-o", "big.svg").status == 0
    picture = run.repo.read("big.svg")
    assert [name for name in names if f"<title>{name}" not in picture] == []


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ('a [prompt="x"]', "needs a model and no backend is configured; nothing was started"),
        ('a [type=prompt, prompt="x"]', "needs a model and no backend is configured; nothing was started"),
        ('a [shape=tripleoctagon, prompt="pick one"]', "needs a model and no backend is configured; nothing was started"),
        ("a [type=banana]", "no handler is registered for the node type `banana`"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(run: Run, node: str, message: str) -> None:
    ran = run.start(f"{node}; start -> a -> exit")
    assert ran.status != 0
    assert message in ran.stderr
    assert run.repo.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
