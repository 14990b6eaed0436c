"""The table of all attributes of the workflow language: both vocabularies, kinds, defaults and meanings.

`docs/workflow-language.md` holds the same table (a test compares); `resolve` reads values by it; attributes that are not in it are kept
for users' own handlers and reported once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Level = Literal["graph", "node", "edge"]

Kind = Literal[
    "string", "prompt", "script", "path", "dot", "stylesheet", "condition", "classes", "environment",
    "int", "bool", "duration", "choice", "fidelity", "join_policy",
]  # fmt: skip
"""How a value is read. In `script`, `dot`, `stylesheet` and `condition` variables are not expanded textually (see `variables`)."""

FIDELITIES = ("full", "compact", "summary:high", "summary:medium", "summary:low", "truncate")
RETRY_POLICIES = ("none", "standard", "aggressive", "linear", "patient")


@dataclass(frozen=True)
class AttributeSpec:
    """One attribute. `default` and `meaning` are for people; `minimum` is the least integer accepted."""

    level: Level
    name: str
    kind: Kind
    default: str
    meaning: str
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: int | None = None

    @property
    def accepts(self) -> str:
        """What a value must look like, in words."""
        if self.choices:
            return ", ".join(f"`{choice}`" for choice in self.choices)
        return _ACCEPTS[self.kind] + (f", at least {self.minimum}" if self.minimum is not None else "")


_ACCEPTS: dict[Kind, str] = {
    "string": "text",
    "prompt": "text, or `@file`",
    "script": "text",
    "path": "path",
    "dot": "a whole workflow as text",
    "stylesheet": "stylesheet",
    "condition": "condition",
    "classes": "names separated by commas or spaces",
    "environment": "`KEY=VALUE` lines, or separated by commas",
    "int": "integer",
    "bool": "`true` or `false`",
    "duration": "duration (`250ms`, `90s`, `15m`, `2h`, `1d`) or a number of seconds",
    "choice": "a word",
    "fidelity": "a fidelity",
    "join_policy": '`wait_all`, `first_success`, `"k_of_n(N)"` or `"quorum(F)"` with F above 0 and at most 1',
}

TYPE_WORDS: Mapping[str, str] = {
    "start": "start",
    "exit": "exit",
    "agent": "agent",
    "codergen": "agent",
    "prompt": "prompt",
    "command": "command",
    "tool": "command",
    "human": "human",
    "wait.human": "human",
    "conditional": "conditional",
    "parallel": "parallel",
    "parallel.fan_in": "parallel.fan_in",
    "wait": "wait",
    "stack.manager_loop": "stack.manager_loop",
}
"""Words for `type` → node type."""

SHAPES: Mapping[str, str] = {
    "Mdiamond": "start",
    "Msquare": "exit",
    "box": "agent",
    "tab": "prompt",
    "parallelogram": "command",
    "hexagon": "human",
    "diamond": "conditional",
    "component": "parallel",
    "tripleoctagon": "parallel.fan_in",
    "insulator": "wait",
    "house": "stack.manager_loop",
}
"""`shape` → node type, where no `type` is given."""

WELL_KNOWN_IDS: Mapping[str, str] = {"start": "start", "Start": "start", "exit": "exit", "Exit": "exit", "end": "exit", "End": "exit"}
"""Node id → node type, where neither a type nor a shape says otherwise."""


def _graph() -> Iterable[AttributeSpec]:
    spec = _at("graph")
    yield spec(
        "goal",
        "string",
        "",
        "What the run is for; `$goal` in other attributes, `graph.goal` in the context. The run configuration's goal wins.",
    )
    yield spec("label", "string", "", "Title of the workflow in pictures and listings.")
    yield spec("model_stylesheet", "stylesheet", "", "Chooses models for nodes by type, class and id.")
    yield spec("default_model", "string", "", "Model of nodes for which nothing else names one.")
    yield spec("default_provider", "string", "", "Provider of nodes for which nothing else names one.")
    yield spec(
        "default_max_retries", "int", "0", "Retries of nodes without `max_retries` or `retry_policy`.", ("default_max_retry",), minimum=0
    )
    yield spec("retry_target", "string", "", "Node to go to when a node without an own target fails or a goal gate is not met.")
    yield spec("fallback_retry_target", "string", "", "Used when `retry_target` does not apply.")
    yield spec("default_fidelity", "fidelity", "compact", "What later nodes are told of earlier ones.", choices=FIDELITIES)
    yield spec("default_thread", "string", "", "Conversation that nodes with fidelity `full` continue, where nothing else names one.")
    yield spec("max_node_visits", "int", "0", "How often any one node may be entered; 0 = no limit (10 in a dry run).", minimum=0)
    yield spec("stall_timeout", "duration", "600s", "The run fails when nothing at all happens for that long; 0 = never.")
    yield spec("loop_restart_signature_limit", "int", "3", "The run fails when the same failure was met that often.", minimum=1)


def _node() -> Iterable[AttributeSpec]:
    spec = _at("node")
    yield spec("label", "string", "the node's id", "Title; the question of a `human` node.")
    yield spec("type", "string", "by shape", "Node type; wins over `shape`.")
    yield spec("shape", "string", "box", "Graphviz shape; stands for a node type.")
    yield spec("class", "classes", "", "Classes for the stylesheet; those of the subgraphs around are added.")
    yield spec("timeout", "duration", "", "Longest time of one attempt; then its whole process group is ended.")
    yield spec("prompt", "prompt", "", "What an `agent` or `prompt` node is asked; `@file.md` takes it from a file next to the workflow.")
    yield spec("llm_model", "string", "", "Model.", ("model",))
    yield spec("llm_provider", "string", "", "Provider of the model.", ("provider",))
    yield spec("reasoning_effort", "choice", "high", "How hard the model thinks.", choices=("low", "medium", "high"))
    yield spec("max_tokens", "int", "", "Longest reply, in tokens.", minimum=1)
    yield spec("backend", "string", "", "Backend that answers, by name.")
    yield spec(
        "project_memory",
        "bool",
        "true",
        "Whether the agent is shown the project's instructions: waits for the built-in model loop (agent programs read them themselves).",
    )
    yield spec("fidelity", "fidelity", "", "What this node is told of earlier ones; an edge's `fidelity` wins.", choices=FIDELITIES)
    yield spec("thread_id", "string", "", "Conversation to continue with fidelity `full`.")
    yield spec("max_retries", "int", "", "Further attempts after the first one.", minimum=0)
    yield spec("retry_policy", "choice", "", "Named number and spacing of attempts; wins over `max_retries`.", choices=RETRY_POLICIES)
    yield spec("retry_target", "string", "", "Node to go to when this one fails or its goal gate is not met.")
    yield spec("fallback_retry_target", "string", "", "Used when `retry_target` does not apply.")
    yield spec("goal_gate", "bool", "false", "The run succeeds only if this node did.")
    yield spec("allow_partial", "bool", "false", "When retries are used up, count as partial success instead of failing.")
    yield spec("auto_status", "bool", "false", "Count as success even if it failed.")
    yield spec("max_visits", "int", "0", "How often routing may enter this node; 0 = no limit.", minimum=0)
    yield spec("selection", "choice", "deterministic", "How one of several equal edges is taken.", choices=("deterministic", "random"))
    yield spec("script", "script", "", "What a `command` node runs.", ("tool_command",))
    yield spec("language", "choice", "shell", "Language of `script`.", choices=("shell", "python"))
    yield spec("working_directory", "path", ".", "Where a command runs, relative to the workspace.", ("cwd",))
    yield spec("environment", "environment", "", 'Variables for the command; one of them is also written `env.KEY="value"`.')
    yield spec("join_policy", "join_policy", "wait_all", "When a `parallel` block is done.")
    yield spec(
        "error_policy", "choice", "continue", "What a failed branch means for the others.", choices=("continue", "fail_fast", "ignore")
    )
    yield spec("max_parallel", "int", "4", "Branches that run at the same time.", minimum=1)
    yield spec("duration", "duration", "", "How long a `wait` node waits.")
    yield spec("human.default_choice", "string", "", "Choice (label or target) that is taken when `timeout` has passed.")
    yield spec("stack.child_workflow", "path", "", "File of the child workflow, relative to this file.", ("stack.child_dotfile",))
    yield spec("stack.child_dot_source", "dot", "", "The child workflow itself.")
    yield spec("manager.poll_interval", "duration", "45s", "Time between two looks at the child.")
    yield spec("manager.max_cycles", "int", "1000", "Looks at the child before giving up.", minimum=1)
    yield spec("manager.stop_condition", "condition", "", "Ends the loop as soon as it holds.")


def _edge() -> Iterable[AttributeSpec]:
    spec = _at("edge")
    yield spec("label", "string", "", "Name of the way; a choice of a `human` node. `[Y] Yes`, `Y) Yes` and `Y - Yes` give it a key.")
    yield spec("condition", "condition", "", "The edge is taken only if it holds.")
    yield spec("weight", "int", "0", "Of several edges that may be taken, the one with the highest weight is.")
    yield spec("fidelity", "fidelity", "", "What the target is told of earlier nodes.", choices=FIDELITIES)
    yield spec("thread_id", "string", "", "Conversation that the target continues with fidelity `full`.")
    yield spec("loop_restart", "bool", "false", "Starts over at the target: context and list of completed nodes are cleared.")
    yield spec("freeform", "bool", "false", "Way for an answer that matches no choice; its text is kept in `human.gate.text`.")


class _at:  # reads as a word in the table
    """Makes the rows of one level."""

    def __init__(self, level: Level) -> None:
        self._level: Level = level

    def __call__(
        self,
        name: str,
        kind: Kind,
        default: str,
        meaning: str,
        aliases: tuple[str, ...] = (),
        *,
        choices: tuple[str, ...] = (),
        minimum: int | None = None,
    ) -> AttributeSpec:
        return AttributeSpec(self._level, name, kind, default, meaning, aliases, choices, minimum)


ATTRIBUTES: tuple[AttributeSpec, ...] = (*_graph(), *_node(), *_edge())

ENVIRONMENT_PREFIX = "env."
"""Node attributes `env.KEY` set one environment variable each."""

_BY_NAME: Mapping[tuple[str, str], AttributeSpec] = {(spec.level, name): spec for spec in ATTRIBUTES for name in (spec.name, *spec.aliases)}

_DRAWING_NAMES = """
rankdir color bgcolor fillcolor fontcolor fontname fontsize style penwidth pencolor width height fixedsize margin pad nodesep
ranksep rank ratio size splines overlap layout concentrate compound dpi resolution rotate landscape center clusterrank newrank
ordering outputorder page pagedir sep esep start root charset colorscheme comment gradientangle href URL target tooltip id image
imagepath imagepos imagescale group peripheries orientation sides pos pin samplepoints shapefile vertices xlabel xlp lp labelloc
labeljust labelfontcolor labelfontname labelfontsize labelangle labeldistance labelfloat labelURL labelhref labeltarget
labeltooltip nojustify arrowhead arrowtail arrowsize dir constraint decorate headlabel taillabel headport tailport headclip
tailclip headURL tailURL headhref tailhref headtarget tailtarget headtooltip tailtooltip edgeURL edgehref edgetarget edgetooltip
lhead ltail minlen samehead sametail len layer layers layersep layerselect layerlistsep showboxes normalize notranslate nslimit
nslimit1 oneblock truecolor viewport forcelabels
"""

DRAWING = frozenset(_DRAWING_NAMES.split())
"""Graphviz's drawing attributes: kept, used in pictures where they apply, never reported as unknown."""


def find_attribute(level: Level, name: str) -> AttributeSpec | None:
    """The attribute of that level with this canonical name or alias."""
    return _BY_NAME.get((level, name))


def names_at(level: Level) -> tuple[str, ...]:
    """All names of a level, aliases included."""
    return tuple(name for at, name in _BY_NAME if at == level)


def levels_of(name: str) -> tuple[str, ...]:
    """The levels at which the name is known."""
    return tuple(level for level, known in _BY_NAME if known == name)


def close_matches(word: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """At most three candidates that look like the word, best first."""
    from rapidfuzz import fuzz, process, utils  # only needed for a finding

    found = process.extract(
        word, list(dict.fromkeys(candidates)), scorer=fuzz.ratio, processor=utils.default_process, score_cutoff=72, limit=3
    )
    return tuple(name for name, _, _ in found)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A hint naming close matches, or nothing."""
    from arc.workflow.language.errors import join_words

    found = close_matches(word, candidates)
    return f"did you mean {join_words([f'`{name}`' for name in found])}?" if found else ""


def markdown_table(level: Level) -> str:
    """The attributes of a level as the documentation shows them."""
    rows = ["| attribute | value | default | meaning |", "|---|---|---|---|"]
    for spec in ATTRIBUTES:
        if spec.level == level:
            names = ", ".join(f"`{name}`" for name in (spec.name, *spec.aliases))
            default = f"`{spec.default}`" if spec.default and " " not in spec.default else spec.default
            value = spec.kind if spec.kind in ("duration", "fidelity") else spec.accepts
            rows.append(f"| {names} | {value} | {default} | {spec.meaning} |")
    return "\n".join(rows)
