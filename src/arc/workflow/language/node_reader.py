"""Reads the nodes of a graph: type, prompt (from a file too), model choice by stylesheet, and all typed attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from arc.agent.protocol import ModelChoice
from arc.base.errors import NotFoundError
from arc.workflow.language.attributes import SHAPES, TYPE_WORDS, WELL_KNOWN_IDS, did_you_mean
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.reader import Reader, ShiftedLocator, Values
from arc.workflow.language.sources import SourceReader, join_path
from arc.workflow.language.stylesheet import Stylesheet
from arc.workflow.language.syntax import GraphSyntax, NodeSyntax
from arc.workflow.language.text import SourceText
from arc.workflow.model import ErrorPolicy, Node, RetryPolicyName, Workflow
from arc.workflow.values import Position


@dataclass(frozen=True)
class NodeReader:
    """Everything that the nodes of one graph are read with. `base` is the graph's directory, `child` loads what a node runs."""

    reader: Reader
    stylesheet: Stylesheet
    choice: ModelChoice
    default_model: str | None
    default_provider: str | None
    sources: SourceReader
    base: str
    child: Callable[[Values], Workflow | None]
    handler_types: frozenset[str] | None

    def read(self, syntax: GraphSyntax) -> dict[str, Node]:
        """All nodes, in the order of the file."""
        values = {node.id: self.reader.values("node", node.attributes) for node in syntax.nodes.values()}
        types = {node.id: self._type(node, values[node.id]) for node in syntax.nodes.values()}
        for kind in ("start", "exit"):
            self._name_by_id(syntax, types, kind)
        return {node.id: self._node(node, values[node.id], types[node.id]) for node in syntax.nodes.values()}

    def _type(self, node: NodeSyntax, values: Values) -> str:
        """`type`, else what the shape stands for, else what a well-known id stands for, else agent."""
        if attribute := values.attribute("type"):
            word = values.text("type")
            if word in TYPE_WORDS:
                return TYPE_WORDS[word]
            known = (*TYPE_WORDS, *(self.handler_types or ()))
            if self.handler_types is None or word not in self.handler_types:
                severity: Literal["error", "warning"] = "warning" if self.handler_types is None else "error"
                hint = did_you_mean(word, known) or "register a handler of that name"
                self.reader.report("type_known", severity, f"node type `{word}` is not built in", attribute.value_position, hint=hint)
            return word
        if attribute := values.attribute("shape"):
            shape = values.text("shape")
            if shape in SHAPES:
                return SHAPES[shape]
            if node.id not in WELL_KNOWN_IDS:
                hint = did_you_mean(shape, SHAPES) or "the node is an agent; give it a `type` if it should be something else"
                message = f"shape `{shape}` stands for no node type"
                self.reader.report("type_known", "warning", message, attribute.value_position, hint=hint)
        return WELL_KNOWN_IDS.get(node.id, "agent")

    def _name_by_id(self, syntax: GraphSyntax, types: dict[str, str], kind: str) -> None:
        """`node [shape=box]` also reaches a node called `start`: without another start node, the id decides."""
        if kind not in types.values():
            for node in syntax.nodes.values():
                shape = node.attributes.get("shape")
                if WELL_KNOWN_IDS.get(node.id) == kind and "type" not in node.attributes and shape is not None and shape.value == "box":
                    types[node.id] = kind

    def _node(self, node: NodeSyntax, values: Values, node_type: str) -> Node:
        return Node(
            id=node.id,
            type=node_type,
            label=values.text("label", node.id),
            position=node.position,
            classes=node.classes,
            prompt=self._prompt(values),
            timeout_ms=values.milliseconds("timeout", None),
            max_retries=values.integer("max_retries", None),
            retry_policy=cast("RetryPolicyName | None", values.choice("retry_policy", None)),
            retry_target=values.optional_text("retry_target"),
            fallback_retry_target=values.optional_text("fallback_retry_target"),
            goal_gate=values.boolean("goal_gate", False),
            allow_partial=values.boolean("allow_partial", False),
            auto_status=values.boolean("auto_status", False),
            max_visits=values.integer("max_visits", None) or None,
            selection=cast("Literal['deterministic', 'random']", values.choice("selection", "deterministic")),
            fidelity=values.fidelity("fidelity"),
            thread_id=values.optional_text("thread_id"),
            choice=self._choice(node, values, node_type),
            project_memory=values.boolean("project_memory", True),
            script=values.text("script"),
            language=cast("Literal['shell', 'python']", values.choice("language", "shell")),
            working_directory=values.text("working_directory", ".") or ".",
            environment=values.environment("environment"),
            join_policy=values.join_policy("join_policy"),
            error_policy=cast("ErrorPolicy", values.choice("error_policy", "continue")),
            max_parallel=values.integer("max_parallel", 4),
            duration_ms=values.milliseconds("duration", None),
            human_default_choice=values.optional_text("human.default_choice"),
            child=self.child(values),
            poll_interval_ms=values.milliseconds("manager.poll_interval", 45_000),
            max_cycles=values.integer("manager.max_cycles", 1000),
            stop_condition=values.condition("manager.stop_condition"),
            attributes=values.as_written(),
        )

    def _prompt(self, values: Values) -> str:
        """The prompt's text. `@path` (one line) names a file, `@@` at the start is an `@`."""
        attribute = values.attribute("prompt")
        if attribute is None:
            return ""
        raw = str(attribute.value)
        if raw.startswith("@@"):
            return values.text("prompt")[1:]
        if not raw.startswith("@") or "\n" in raw or len(raw) == 1:
            return values.text("prompt")
        # an `@` that comes out of a variable's value does not name a file: `raw` is what the workflow's author wrote
        locator = ShiftedLocator(self.reader.locator(attribute), 1)
        path = join_path(self.base, self.reader.variables.expand(raw[1:], locator))
        text = read_text(self.reader, self.sources, path, attribute.value_position)
        if text is None:
            return ""
        source = SourceText(text, path)
        return self.reader.variables.expand(source.text, source)

    def _choice(self, node: NodeSyntax, values: Values, node_type: str) -> ModelChoice:
        """Each part by itself: the node's own attribute, the stylesheet, the run's configuration, the graph's default."""
        style = self.stylesheet.properties(node.id, node_type, node.classes)
        given = self.choice
        effort: str | None = values.choice("reasoning_effort", None)
        tokens = int(style["max_tokens"]) if "max_tokens" in style else given.max_tokens
        return ModelChoice(
            model=values.optional_text("llm_model") or style.get("model") or given.model or self.default_model,
            provider=values.optional_text("llm_provider") or style.get("provider") or given.provider or self.default_provider,
            reasoning_effort=effort or style.get("reasoning_effort") or given.reasoning_effort,
            max_tokens=values.integer("max_tokens", tokens),
            backend=values.optional_text("backend") or style.get("backend") or given.backend,
        )


def read_text(reader: Reader, sources: SourceReader, path: str, position: Position) -> str | None:
    """The text of a file that the workflow names at `position`; None if it cannot be had (reported as `source_missing`)."""
    try:
        return sources.read(path)
    except WorkflowError as error:
        reader.findings.extend(error)
    except NotFoundError as error:
        hint = "paths are relative to the file they stand in; a prompt that begins with `@` names a file, write `@@` for the character"
        reader.report("source_missing", "error", error.message, position, hint=hint)
    return None
