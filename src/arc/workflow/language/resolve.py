"""From the parsed graph to the workflow that runs: variables, files, types, stylesheet, conditions and child workflows applied.

Tolerant: everything that is wrong is collected, so that one reading shows it all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from arc.agent.protocol import ModelChoice
from arc.workflow.language.attributes import find_attribute
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.node_reader import NodeReader, read_text
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.reader import Findings, Reader, Values
from arc.workflow.language.sources import RecordingSources, SourceReader, join_path
from arc.workflow.language.stylesheet import Stylesheet, parse_stylesheet
from arc.workflow.language.syntax import EdgeSyntax, GraphSyntax
from arc.workflow.language.text import Locator, SourceText
from arc.workflow.language.variables import Variables, input_variable, shell_uses
from arc.workflow.model import Edge, Node, Workflow
from arc.workflow.values import Attribute, Diagnostic, Position

MAX_CHILD_DEPTH = 16
"""Child workflows may contain children this deep."""
DRY_RUN_VISITS = 10
"""`max_node_visits` of a dry run that gives none: simulated outcomes can make a loop endless."""


@dataclass(frozen=True)
class ResolveInputs:
    """What the run brings along. `goal` replaces the graph's; `choice` is the model of the command line or run configuration.

    `handler_types` are the node types that can run, where that is known: another one is then an error, else an unknown word is a warning.
    """

    goal: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    choice: ModelChoice = field(default_factory=ModelChoice)
    dry_run: bool = False
    handler_types: frozenset[str] | None = None


def resolve(syntax: GraphSyntax, sources: SourceReader, inputs: ResolveInputs) -> tuple[Workflow | None, tuple[Diagnostic, ...]]:
    """The workflow and everything found on the way; the workflow is None only if there are errors.

    `sources` reads files relative to the workflow file; what was read is kept in `Workflow.sources`.
    """
    findings = Findings()
    recorder = RecordingSources(sources)
    resolver = _Resolver(inputs, findings, recorder)
    workflow = resolver.graph(syntax, base="", chain=(), goal=inputs.goal)
    if workflow is not None:
        resolver.report_unused_inputs(syntax, workflow)
    if workflow is None or findings.failed:
        return None, findings.all
    return replace(workflow, sources=dict(recorder.texts), notices=findings.all), findings.all


class _Resolver:
    """One reading of a workflow with its children; they share inputs, findings and recorded sources."""

    def __init__(self, inputs: ResolveInputs, findings: Findings, recorder: RecordingSources) -> None:
        self.inputs = inputs
        self.findings = findings
        self.recorder = recorder
        self.used: set[str] = set()
        self._children: dict[tuple[str, str], Workflow | None] = {}

    def graph(self, syntax: GraphSyntax, *, base: str, chain: tuple[str, ...], goal: str | None, default_goal: str = "") -> Workflow | None:
        """One graph. `base` is its directory as seen from the outermost file, `chain` the child files around it, `goal` the run's."""
        variables = Variables({name: value for name, value in self.inputs.inputs.items() if name != "goal"}, self.findings.add)
        reader = Reader(SourceText(syntax.source, syntax.file), self.findings, variables)
        own_goal = syntax.attributes.get("goal")
        if goal is None and own_goal is not None:
            goal = str(reader.expanded("graph", own_goal))
        goal = goal if goal is not None else default_goal or self.inputs.inputs.get("goal", "")
        if goal:
            variables.values["goal"] = goal
        written = {name: attribute for name, attribute in syntax.attributes.items() if name != "goal"}
        values = reader.values("graph", written)
        self._report_subgraphs(reader, syntax)
        children = _Children(self, reader, base, chain, goal)
        nodes = NodeReader(
            reader=reader,
            stylesheet=_stylesheet(reader, values),
            choice=self.inputs.choice,
            default_model=values.optional_text("default_model"),
            default_provider=values.optional_text("default_provider"),
            sources=self.recorder,
            base=base,
            child=children.load,
            handler_types=self.inputs.handler_types,
        )
        read = nodes.read(syntax)
        start = _only(reader, syntax, read, "start", "start_node", 'give one node shape=Mdiamond or type="start", or call it `start`')
        end = _only(reader, syntax, read, "exit", "terminal_node", 'give one node shape=Msquare or type="exit", or call it `exit`')
        edges = tuple(_edge(reader, edge) for edge in syntax.edges)
        attributes = values.as_written() | ({"goal": goal} if goal else {})
        _report_script_variables(reader, syntax)
        self.used |= variables.used
        if start is None or end is None:
            return None
        return Workflow(
            name=syntax.name,
            file=syntax.file,
            source=syntax.source,
            nodes=read,
            edges=edges,
            start=start,
            exit=end,
            goal=goal,
            label=values.text("label"),
            default_max_retries=values.integer("default_max_retries", 0),
            retry_target=values.optional_text("retry_target"),
            fallback_retry_target=values.optional_text("fallback_retry_target"),
            default_fidelity=values.fidelity("default_fidelity") or "compact",
            default_thread=values.optional_text("default_thread"),
            max_node_visits=values.integer("max_node_visits", DRY_RUN_VISITS if self.inputs.dry_run else 0),
            stall_timeout_ms=values.milliseconds("stall_timeout", 600_000),
            loop_restart_signature_limit=values.integer("loop_restart_signature_limit", 3),
            attributes=attributes,
            inputs=dict(self.inputs.inputs),
        )

    def child(self, key: tuple[str, str], syntax: GraphSyntax, *, base: str, chain: tuple[str, ...], goal: str) -> Workflow | None:
        """A child workflow; one file that several nodes run is read once."""
        if key not in self._children:
            self._children[key] = self.graph(syntax, base=base, chain=chain, goal=None, default_goal=goal)
        return self._children[key]

    def _report_subgraphs(self, reader: Reader, syntax: GraphSyntax) -> None:
        """A workflow attribute inside a subgraph's braces has no effect: said once per place."""
        for subgraph in syntax.subgraphs:
            for name, attribute in subgraph.attributes.items():
                if name != "label" and find_attribute("graph", name):
                    message = f"`{name}` has no effect inside a subgraph"
                    reader.report("unknown_attribute", "notice", message, attribute.name_position, hint="write it outside of the subgraph")

    def report_unused_inputs(self, syntax: GraphSyntax, workflow: Workflow) -> None:
        scripts = "\n".join(_scripts(workflow))
        for name in self.inputs.inputs:
            if name not in self.used and input_variable(name) not in scripts and name != "goal":
                message = f"input `{name}` is not used by the workflow"
                self.findings.add(Diagnostic("unused_input", "notice", message, syntax.position))


class _Children:
    """Loads the child workflows of one graph."""

    def __init__(self, resolver: _Resolver, reader: Reader, base: str, chain: tuple[str, ...], goal: str) -> None:
        self._resolver = resolver
        self._reader = reader
        self._base = base
        self._chain = chain
        self._goal = goal

    def load(self, values: Values) -> Workflow | None:
        """The child that a node names, by file or in line; None if it names none or the child has errors."""
        path = values.attribute("stack.child_workflow")
        inline = values.attribute("stack.child_dot_source")
        if path is not None and inline is not None:
            message = f"both `{path.name}` and `{inline.name}` are given"
            self._reader.report("attribute_value", "error", message, inline.name_position, hint="keep one of them")
            return None
        if path is not None and (name := values.text("stack.child_workflow")):
            return self._from_file(path, name)
        if inline is not None and str(inline.value).strip():
            return self._in_line(inline)
        return None

    def _from_file(self, attribute: Attribute, written: str) -> Workflow | None:
        path = join_path(self._base, written)
        position = attribute.value_position
        if path in self._chain:
            circle = " → ".join(f"`{each}`" for each in (*self._chain[self._chain.index(path) :], path))
            self._reader.report("child_cycle", "error", f"the child workflow runs itself: {circle}", position)
            return None
        if self._too_deep(position):
            return None
        text = read_text(self._reader, self._resolver.recorder, path, position)
        if text is None:
            return None
        try:
            syntax = parse_dot(text, path)
        except WorkflowError as error:
            self._reader.findings.extend(error)
            return None
        directory = path.rpartition("/")[0] or ("/" if path.startswith("/") else "")
        return self._resolver.child((path, self._goal), syntax, base=directory, chain=(*self._chain, path), goal=self._goal)

    def _in_line(self, attribute: Attribute) -> Workflow | None:
        """A child written in the attribute itself: its findings are moved to their place in this file."""
        if self._too_deep(attribute.value_position):
            return None
        text = str(attribute.value)
        file = f"{self._reader.source.file}#{attribute.value_position.line}"
        inner = Findings()
        resolver = _Resolver(self._resolver.inputs, inner, self._resolver.recorder)
        workflow = None
        try:
            syntax = parse_dot(text, file)
            workflow = resolver.graph(syntax, base=self._base, chain=(*self._chain, file), goal=None, default_goal=self._goal)
        except WorkflowError as error:
            inner.extend(error)
        self._resolver.used |= resolver.used
        locator = self._reader.locator(attribute)
        for finding in inner.all:
            self._reader.findings.add(_moved(finding, SourceText(text, file), locator))
        return workflow

    def _too_deep(self, position: Position) -> bool:
        if len(self._chain) < MAX_CHILD_DEPTH:
            return False
        self._reader.report("child_cycle", "error", f"child workflows are nested more than {MAX_CHILD_DEPTH} deep", position)
        return True


def _moved(finding: Diagnostic, text: SourceText, locator: Locator) -> Diagnostic:
    if finding.position.file != text.file:
        return finding
    position = locator.at(text.offset(finding.position))
    return replace(finding, position=position, source_line=locator.line(position))


def _stylesheet(reader: Reader, values: Values) -> Stylesheet:
    attribute = values.attribute("model_stylesheet")
    if attribute is None:
        return Stylesheet()
    locator = reader.locator(attribute)
    try:
        return parse_stylesheet(str(attribute.value), attribute.value_position, locator, reader.expander(locator))
    except WorkflowError as error:
        reader.findings.extend(error)
        return Stylesheet()


def _only(reader: Reader, syntax: GraphSyntax, nodes: Mapping[str, Node], kind: str, rule: str, hint: str) -> str | None:
    """The one node of a type; reports none or several."""
    found = [node for node in nodes.values() if node.type == kind]
    if len(found) == 1:
        return found[0].id
    if not found:
        reader.report(rule, "error", f"the workflow has no {kind} node", syntax.position, hint=hint)
    for node in found[1:]:
        message = f"`{node.id}` is a second {kind} node; the first one is `{found[0].id}`"
        reader.report(rule, "error", message, node.position, hint=f"a workflow has exactly one {kind} node")
    return None


def _edge(reader: Reader, edge: EdgeSyntax) -> Edge:
    values = reader.values("edge", edge.attributes)
    return Edge(
        source=edge.source,
        target=edge.target,
        index=edge.index,
        position=edge.position,
        label=values.text("label"),
        condition=values.condition("condition"),
        weight=values.integer("weight", 0),
        fidelity=values.fidelity("fidelity"),
        thread_id=values.optional_text("thread_id"),
        loop_restart=values.boolean("loop_restart", False),
        freeform=values.boolean("freeform", False),
    )


def _scripts(workflow: Workflow) -> list[str]:
    return [text for node in workflow.nodes.values() for text in (node.script, *(_scripts(node.child) if node.child else ()))]


def _report_script_variables(reader: Reader, syntax: GraphSyntax) -> None:
    """`$name` of an input in a script is the shell's variable, most likely empty: a trap, so it is said."""
    seen: set[Position] = set()
    for node in syntax.nodes.values():
        for name in ("script", "tool_command"):
            attribute = node.attributes.get(name)
            if attribute is not None and attribute.value_position not in seen:
                seen.add(attribute.value_position)
                _check_script(reader, attribute)


def _check_script(reader: Reader, attribute: Attribute) -> None:
    for name, offset in shell_uses(str(attribute.value), reader.variables.values):
        reader.variables.used.add(name)  # said once: not as an unused input too
        position = reader.locator(attribute).at(offset)
        variable = "ARC_GOAL" if name == "goal" else input_variable(name)
        message = f"`${name}` in a script is a variable of the shell, not the run's {'goal' if name == 'goal' else 'input'}"
        reader.report("script_variable", "warning", message, position, hint=f"commands find it in `${variable}`")
