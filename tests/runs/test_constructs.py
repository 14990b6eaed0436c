"""Every construct of the workflow language is executed: real runs that together use every attribute in every spelling, every type,
shape, operator, policy and fidelity. The last tests look that nothing is missing; the corners of each are tested in its room."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arc.runs.config import ModelConfig
from arc.workflow.language.attributes import ATTRIBUTES, FIDELITIES, SHAPES, TYPE_WORDS
from arc.workflow.language.parser import parse_dot
from tests.runs.helpers import Told, folder_of, start, world_in

AGENTS = r"""
digraph agents {
  goal="ship it"; label="Agents"; rankdir=LR
  default_model="g-model"; default_provider="g-prov"; default_fidelity=truncate; default_thread=main
  model_stylesheet="* { reasoning_effort: low } prompt { llm_model: of-type }
                    .quick { model: of-class } .group-one { llm_provider: of-group }
                    #last { llm_model: of-id; reasoning_effort: high }"
  start [type=start, shape=Mdiamond]; exit [type=exit, shape=Msquare]
  a [prompt="do $goal"]
  b [shape=tab, prompt="b"]
  c [type=codergen, class="quick, other", prompt="c"]
  subgraph cluster_1 { label="Group One"; d [label="The D", backend=cli, max_tokens=100, project_memory=false] }
  e [type=prompt, llm_model=m1, llm_provider=p1, reasoning_effort=medium, prompt="e", fidelity="summary:low"]
  f [type=agent, shape=box, model=m2, provider=p2, prompt="f", fidelity=compact]
  g [prompt="first words", thread_id=talk, fidelity=full]
  h [prompt="second words", thread_id=talk, fidelity=full]
  i [prompt="i", fidelity="summary:medium"]
  last [prompt="last"]
  start -> a -> b -> c -> d -> e -> f -> g -> h -> i
  i -> last [fidelity="summary:high", thread_id=other]
  last -> exit
}
"""

COMMANDS = r"""
digraph commands {
  max_node_visits=9; stall_timeout=120s; default_max_retry=1; retry_target=never; fallback_retry_target=never
  start [shape=Mdiamond]; exit [shape=Msquare]; never [type=tool, script="exit 9"]
  shell [shape=parallelogram, script="mkdir -p sub; echo $A$B$C", language=shell, environment="A=1, B=2", env.C=3]
  python [type=command, language=python, tool_command="import os; print(os.path.basename(os.getcwd()), 6 * 7)", working_directory=sub]
  again [type=tool, tool_command="echo x >> tries; test $(wc -l < tries) -ge 2", max_retries=1, cwd="."]
  once [type=command, script="echo y >> once; test $(wc -l < once) -ge 2 || kill -9 $$"]
  partial [type=command, script="exit 3", allow_partial=true, retry_policy=linear, max_retries=5]
  forgiven [type=command, script="exit 3", auto_status=true, max_retries=0]
  slow [type=command, script="sleep 60", timeout=100ms, retry_policy=none, retry_target=mended, fallback_retry_target=never]
  lost [type=command, script="exit 1", retry_policy=none, fallback_retry_target=found]
  mended [type=command, script="true", max_visits=1]; found [type=command, script="true"]
  pause [shape=insulator, duration=10ms]; pause2 [type=wait, duration=0.01]
  start -> shell -> python -> again -> once -> partial -> forgiven -> slow
  mended -> lost
  found -> pause -> pause2 -> exit
}
"""

OPERATORS = {
    "context.n = 3": "=",
    "context.n == 3": "==",
    "context.n != 4": "!=",
    "context.n < 4": "<",
    "context.n <= 3": "<=",
    "context.n > 2 && n > 2": ">",
    "context.n >= 3": ">=",
    'context.words contains "o w"': "contains",
    r'words matches "^two\s"': "matches",
    "!context.nothing && !(outcome=fail || nothing)": "!",
    "outcome=success || nothing": "||",
    "outcome=succeeded && context.n": "&&",
    "preferred_label = 'go on'": "preferred_label",
}


def _operators() -> str:
    """One command that sets the scene, then a diamond per condition: each has a true edge to the next and a false one to the trap."""
    told = '{\\"context_updates\\": {\\"n\\": 3, \\"words\\": \\"two words\\"}, \\"preferred_next_label\\": \\"go on\\"}'
    names = [f"q{number}" for number in range(len(OPERATORS))]
    lines = [
        f"""  set [type=command, script="echo '{told}' > $ARC_OUTCOME_FILE"]; trap [type=command, script="exit 1"]; start -> set -> q0"""
    ]
    for name, condition, following in zip(names, OPERATORS, [*names[1:], "exit"], strict=True):
        quoted = condition.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  {name} [type=conditional, shape=diamond]; {name} -> {following} [condition="{quoted}"]')
        lines.append(f'  {name} -> trap [condition="!({quoted})"]')
    return "digraph operators {\n  start [shape=Mdiamond]; exit [shape=Msquare]\n" + "\n".join(lines) + "\n}\n"


ROUTES = r"""
digraph routes {
  loop_restart_signature_limit=5; default_max_retries=0; retry_target=fix
  start [shape=Mdiamond]; exit [shape=Msquare]
  first [type=command, script="echo x >> rounds"]
  heavy [type=command, script="true", selection=deterministic]; light [type=command, script="exit 1"]
  draw [type=command, script="true", selection=random]; one [type=command, script="true"]; two [type=command, script="true"]
  ask [shape=hexagon, label="Go?", timeout=20ms, human.default_choice="No"]
  ask2 [type=human, timeout=20ms, human.default_choice=yes2]; ask3 [type="wait.human", timeout=20ms, human.default_choice=gate]
  yes [type=command, script="exit 1"]; no [type=command, script="true"]
  yes2 [type=command, script="true"]; other [type=command, script="exit 1"]
  gate [type=command, script="test -e fixed", goal_gate=true]; fix [type=command, script="touch fixed"]
  check [shape=diamond]
  start -> first
  first -> heavy [weight=2]; first -> light [weight=1]
  heavy -> check
  check -> draw [condition="context.internal.node_visit_count = 2 || context.human.gate.label = 'None'"]
  check -> first [loop_restart=true, label="again"]
  draw -> one [weight=3]; draw -> two
  one -> ask; two -> ask
  ask -> yes [label="[Y] Yes"]; ask -> no [label="[N] No"]
  no -> ask2 -> yes2 -> ask3
  ask3 -> gate [label="Gate"]; ask3 -> other [freeform=true]
  gate -> exit; fix -> gate
}
"""

CHILD = """
digraph child {
  start [shape=Mdiamond]; exit [shape=Msquare]
  step [type=command, script="echo x >> steps; cat steps"]
  start -> step -> exit
}
"""

CHILDREN = r"""
digraph children {
  start [shape=Mdiamond]; exit [shape=Msquare]
  one [shape=house, stack.child_workflow="child.dot"]
  two [type="stack.manager_loop", stack.child_dotfile="child.dot", manager.poll_interval=10ms, manager.max_cycles=5,
       manager.stop_condition="context.response.step matches 'x\\s+x\\s+x\\s+x'"]
  three [shape=house, stack.child_dot_source="digraph inline {
    start [shape=Mdiamond]; exit [shape=Msquare]; in [type=command, script=\"touch inline\"]; start -> in -> exit }"]
  start -> one -> two -> three -> exit
}
"""


def block(join: str, errors: str, shapes: bool = True) -> str:
    """Three branches one after the other: a success, a failure, a success."""
    fan, fan_in = ("shape=component", "shape=tripleoctagon") if shapes else ("type=parallel", 'type="parallel.fan_in"')
    return f"""
digraph block {{
  start [shape=Mdiamond]; exit [shape=Msquare]
  fan [{fan}, join_policy="{join}", error_policy={errors}, max_parallel=1]; join [{fan_in}]
  a [type=command, script="touch a"]; b [type=command, script="exit 1"]; c [type=command, script="touch c"]
  start -> fan; fan -> a -> join; fan -> b -> join; fan -> c -> join; join -> exit
}}
"""


BLOCKS = {
    ("wait_all", "continue"): ("partial_success", "abc"),
    ("wait_all", "ignore"): ("success", "abc"),
    ("wait_all", "fail_fast"): ("fail", "ab"),
    ("first_success", "continue"): ("success", "a"),
    ("first_success", "ignore"): ("success", "a"),
    ("first_success", "fail_fast"): ("success", "a"),
    ("k_of_n(2)", "continue"): ("success", "abc"),
    ("k_of_n(2)", "ignore"): ("success", "abc"),
    ("k_of_n(2)", "fail_fast"): ("fail", "ab"),
    ("quorum(0.5)", "continue"): ("success", "abc"),
    ("quorum(0.5)", "ignore"): ("success", "ab"),
    ("quorum(0.5)", "fail_fast"): ("fail", "ab"),
}
"""(join policy, error policy) → the block's status and the branches that ran."""

ECHO = ModelConfig(backend="cli", command=("sh", "-c", "echo '[{model}|{provider}|{reasoning_effort}]'; cat"))


class Ended:
    """A run that has ended, and what it left."""

    def __init__(self, tmp_path: Path, text: str, **changes: object) -> None:
        self.here = tmp_path / "project"
        self.here.mkdir()
        (self.here / "child.dot").write_text(CHILD)
        (self.here / "w.dot").write_text(text)
        told = Told()
        self.result = start(self.here / "w.dot", replace(world_in(tmp_path), observer=told), **changes)
        self.told = told.lines
        self.state: Any = json.loads(folder_of(self.result).checkpoint_file.read_text())
        self.context = self.state["context_values"]

    def of(self, event: str, name: str) -> dict[str, Any]:
        """A property of all events of a name, by node."""
        lines: list[Any] = [line for line in self.told if line["event"] == event]
        return {line["node"]: line["properties"][name] for line in lines}

    @property
    def ran(self) -> list[Any]:
        return [line["node"] for line in self.told if line["event"] == "node.started"]


def test_agents_models_fidelities_and_threads(tmp_path: Path) -> None:
    run = Ended(tmp_path, AGENTS, model=ECHO)
    assert run.result.status == "success"
    said = {node: str(run.context[f"response.{node}"]) for node in "abcdefghi"} | {"last": str(run.context["response.last"])}
    assert {node: text.splitlines()[0] for node, text in said.items()} == {
        "a": "[g-model|g-prov|low]",
        "b": "[of-type|g-prov|low]",
        "c": "[of-class|g-prov|low]",
        "d": "[g-model|of-group|low]",
        "e": "[m1|p1|medium]",
        "f": "[m2|p2|low]",
        **dict.fromkeys("ghi", "[g-model|g-prov|low]"),
        "last": "[of-id|g-prov|high]",
    }
    assert said["a"].endswith("do ship it")
    assert said["d"].endswith("The D")
    assert "first words" in said["h"], "the conversation of the thread goes on"
    assert "ship it" in said["f"]
    assert "## " not in said["a"]
    fidelity, thread = run.of("node.started", "fidelity"), run.of("node.started", "thread")
    agents = "abcdefghi"
    modes = ["truncate"] * 4 + ["summary:low", "compact", "full", "full", "summary:medium", "summary:high"]
    assert {node: fidelity[node] for node in (*agents, "last")} == dict(zip((*agents, "last"), modes, strict=True))
    assert (thread["a"], thread["g"], thread["last"]) == ("main", "talk", "other")


def test_commands_retries_and_waits(tmp_path: Path) -> None:
    run = Ended(tmp_path, COMMANDS)
    assert run.result.status == "partial_success", run.result.failure
    assert run.context["response.shell"] == "123\n"
    assert run.context["response.python"] == "sub 42\n"
    assert {node: run.state["node_retries"][node] for node in ("again", "once", "partial", "slow")} == {
        "again": 1,
        "once": 1,
        "partial": 2,
        "slow": 0,
    }
    outcomes = {node: outcome["status"] for node, outcome in run.state["node_outcomes"].items()}
    assert (outcomes["partial"], outcomes["forgiven"], outcomes["slow"], outcomes["lost"]) == ("partial_success", "success", "fail", "fail")
    assert run.state["node_outcomes"]["slow"]["failure"]["failure_class"] == "transient_infra"
    assert run.ran[-6:] == ["mended", "lost", "found", "pause", "pause2", "exit"]


def test_every_operator_decides_a_way(tmp_path: Path) -> None:
    run = Ended(tmp_path, _operators())
    assert run.result.status == "success", run.result.failure
    assert run.ran == ["start", "set", *(f"q{number}" for number in range(len(OPERATORS))), "exit"]


def test_ways_loops_choices_and_gates(tmp_path: Path) -> None:
    run = Ended(tmp_path, ROUTES)
    assert run.result.status == "success", run.result.failure
    drawn = run.ran[run.ran.index("draw") + 1]
    assert drawn in ("one", "two")
    again = ["first", "heavy", "check"]
    assert run.ran == ["start", *again, *again, "draw", drawn, "ask", "no", "ask2", "yes2", "ask3", "gate", "fix", "gate", "exit"]
    assert [line for line in run.told if line["event"] == "loop.restarted"]


def test_children_by_file_in_both_spellings_and_inline(tmp_path: Path) -> None:
    run = Ended(tmp_path, CHILDREN)
    assert run.result.status == "success", run.result.failure
    assert run.ran.count("two/step") == 3, "the file has one line from before: with three more the condition holds"
    assert (run.here / "inline").exists()


@pytest.mark.parametrize(("policies", "expected"), BLOCKS.items(), ids=lambda value: "-".join(value))
def test_every_join_policy_with_every_error_policy(tmp_path: Path, policies: tuple[str, str], expected: tuple[str, str]) -> None:
    run = Ended(tmp_path, block(*policies, shapes=policies[1] != "ignore"))
    assert (run.state["node_outcomes"]["fan"]["status"], run.result.status) == (expected[0], expected[0])
    assert "".join(str(node).removeprefix("fan:")[0] for node in run.ran if str(node).startswith("fan:")) == expected[1]


ALL = [AGENTS, COMMANDS, _operators(), ROUTES, CHILD, CHILDREN, *(block(*policies, shapes=policies[1] != "ignore") for policies in BLOCKS)]


def _used() -> set[tuple[str, str, str]]:
    """(level, attribute, value) of everything in the workflows above."""
    used: set[tuple[str, str, str]] = set()
    for text in ALL:
        graph = parse_dot(text, "w.dot")
        lists = [("graph", graph.attributes), *(("node", node.attributes) for node in graph.nodes.values())]
        for level, attributes in [*lists, *(("edge", edge.attributes) for edge in graph.edges)]:
            used |= {(level, name, str(attribute.value)) for name, attribute in attributes.items()}
    return used


def test_every_attribute_is_executed_in_every_spelling() -> None:
    names = {(level, name) for level, name, _ in _used()}
    assert {(spec.level, name) for spec in ATTRIBUTES for name in (spec.name, *spec.aliases)} <= names


def test_every_type_shape_fidelity_and_operator_is_executed() -> None:
    used = _used()
    assert {value for _, name, value in used if name == "shape"} == set(SHAPES)
    assert {value for _, name, value in used if name == "type"} == set(TYPE_WORDS)
    assert {value for _, name, value in used if name.endswith("fidelity")} == set(FIDELITIES)
    for condition, sign in OPERATORS.items():
        assert re.search(re.escape(sign), condition)
