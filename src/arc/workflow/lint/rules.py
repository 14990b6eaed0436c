"""The registry of all rules, and `lint`, which runs those that look at a whole graph.

Some findings need no look at the whole graph: the reader of a workflow (`arc.workflow.language`) reports them while it reads.
They are listed here too, with `check` None, so that one table (and docs/lint.md) names every id a person can meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.syntax import GraphSyntax
from arc.workflow.lint import nodes, parallel, routing, structure, style
from arc.workflow.lint.view import Finding, View
from arc.workflow.model import Workflow
from arc.workflow.values import Diagnostic, Severity

Check = Callable[[View], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """One rule. `summary` says what a correct workflow looks like; `check` is None if reading the file already reports it."""

    id: str
    severity: Severity
    summary: str
    check: Check | None = None


RULES: tuple[Rule, ...] = (
    # reported while reading the file
    Rule("syntax", "error", "The file is one `digraph` in the subset of DOT that arc reads."),
    Rule("start_node", "error", "There is exactly one start node."),
    Rule("terminal_node", "error", "There is exactly one exit node."),
    Rule("condition_syntax", "error", "Every condition can be read."),
    Rule("stylesheet_syntax", "error", "The model stylesheet can be read."),
    Rule("type_known", "warning", "Every node type is built in or has a handler (an error where all handlers are known)."),
    Rule("fidelity_valid", "error", "Every fidelity is one of the known modes."),
    Rule("attribute_value", "error", "Every value is of its attribute's kind."),
    Rule("unknown_attribute", "notice", "Attributes are known ones; others are kept for users' own handlers."),
    Rule("undefined_variable", "error", "Every `$name` is the goal or an input (a notice where nobody gave inputs)."),
    Rule("script_variable", "warning", "Scripts do not take the shell's `$name` for an input of the run."),
    Rule("unused_input", "notice", "Every input that is given is used."),
    Rule("source_missing", "error", "Prompt files and child workflows exist."),
    Rule("child_cycle", "error", "No workflow runs itself."),
    # the shape of the graph
    Rule("reachability", "error", "Every node can be reached from the start, over edges or retry targets.", structure.reachability),
    Rule("edge_target_exists", "warning", "Every node named in an edge is declared somewhere.", structure.edge_target_exists),
    Rule("attribute_twice", "warning", "No list gives an attribute twice, under one name or under two.", structure.attribute_twice),
    Rule("start_no_incoming", "error", "No edge leads into the start node.", structure.start_no_incoming),
    Rule("exit_no_outgoing", "error", "No edge leaves the exit node.", structure.exit_no_outgoing),
    Rule("dead_end", "warning", "Every node but the exit has an outgoing edge.", structure.dead_end),
    Rule("loop_without_exit", "error", "From every loop there is a way to the exit.", structure.loop_without_exit),
    Rule("duplicate_edge", "warning", "No edge is given twice with the same condition and label.", structure.duplicate_edge),
    Rule("reserved_keyword_node_id", "warning", "No node is called like a keyword of DOT.", structure.reserved_keyword_node_id),
    Rule("direction_valid", "warning", "`rankdir` is TB, LR, BT or RL.", structure.direction_valid),
    # the choice of the next edge
    Rule(
        "all_conditional_edges", "warning", "After every node some edge can be taken, whatever the outcome.", routing.all_conditional_edges
    ),
    Rule("edge_never_taken", "warning", "Every edge can be taken some day.", routing.edge_never_taken),
    Rule("orphan_custom_outcome", "warning", "Conditions compare `outcome` only with outcomes that exist.", routing.orphan_custom_outcome),
    Rule("freeform_edge_count", "error", "A human gate has at most one `freeform` edge, other nodes none.", routing.freeform_edge_count),
    Rule("human_without_choices", "error", "A human gate has edges to choose from.", routing.human_without_choices),
    Rule("human_default_exists", "error", "`human.default_choice` names a choice of its gate.", routing.human_default_exists),
    Rule("human_timeout_default", "notice", "A human gate with a timeout has a default choice.", routing.human_timeout_default),
    Rule("accelerator_clash", "warning", "The choices of a human gate have different keys.", routing.accelerator_clash),
    # parallel blocks
    Rule("parallel_needs_fan_in", "warning", "All branches of a parallel block meet in one fan-in node.", parallel.parallel_needs_fan_in),
    Rule("fan_in_without_parallel", "warning", "Every fan-in node ends a parallel block.", parallel.fan_in_without_parallel),
    Rule("parallel_single_branch", "warning", "A parallel block has at least two branches.", parallel.parallel_single_branch),
    Rule(
        "parallel_edge_conditions",
        "warning",
        "At least one branch of a block starts without a condition.",
        parallel.parallel_edge_conditions,
    ),
    Rule("join_count_possible", "error", "`k_of_n(N)` asks for no more branches than there are.", parallel.join_count_possible),
    # single nodes
    Rule("prompt_on_llm_nodes", "warning", "Every node that asks a model has a prompt or a label.", nodes.prompt_on_llm_nodes),
    Rule("command_without_script", "error", "Every command node has a script.", nodes.command_without_script),
    Rule("script_on_other_nodes", "warning", "Only command nodes have a script.", nodes.script_on_other_nodes),
    Rule("script_absolute_cd", "warning", "Scripts do not `cd` out of the run's worktree.", nodes.script_absolute_cd),
    Rule("wait_without_duration", "error", "Every wait node has a duration.", nodes.wait_without_duration),
    Rule("child_missing", "error", "Every node that runs a child workflow names it.", nodes.child_missing),
    Rule("retry_target_exists", "error", "Retry targets name nodes of the graph.", nodes.retry_target_exists),
    Rule("retry_target_returns", "warning", "The retry target of a goal gate leads back to the gate.", nodes.retry_target_returns),
    Rule("goal_gate_has_retry", "warning", "A goal gate, or the graph, has a retry target.", nodes.goal_gate_has_retry),
    Rule("max_visits_zero", "notice", "`max_visits` is a limit; 0 is none.", nodes.max_visits_zero),
    Rule("model_needed", "notice", "Says which nodes need a model (nothing is wrong).", nodes.model_needed),
    # models and style
    Rule("stylesheet_model_known", "warning", "Models and providers are spelt and paired as they are known.", style.stylesheet_model_known),
    Rule("stylesheet_selector_used", "warning", "Every selector of the model stylesheet matches a node.", style.stylesheet_selector_used),
)


def lint(syntax: GraphSyntax, workflow: Workflow | None) -> tuple[Diagnostic, ...]:
    """Run every rule over the graph and, where it could be resolved, over the child workflows inside it (each file once)."""
    found: list[Diagnostic] = []
    seen: set[str] = set()
    _lint_into(found, seen, syntax, workflow)
    return tuple(found)


def _lint_into(found: list[Diagnostic], seen: set[str], syntax: GraphSyntax, workflow: Workflow | None) -> None:
    if syntax.file in seen:
        return
    seen.add(syntax.file)
    view = View(syntax, workflow)
    lines = syntax.source.splitlines()
    for rule in RULES:
        if rule.check is not None:
            found.extend(_diagnostic(rule, finding, lines) for finding in rule.check(view))
    for node in workflow.nodes.values() if workflow is not None else ():
        if node.child is not None:
            try:
                child = parse_dot(node.child.source, node.child.file)
            except WorkflowError:
                continue  # resolve has read it before: it cannot fail here, and if it does, resolve reports it
            _lint_into(found, seen, child, node.child)


def _diagnostic(rule: Rule, finding: Finding, lines: list[str]) -> Diagnostic:
    line = finding.position.line
    return Diagnostic(
        rule=rule.id,
        severity=rule.severity,
        message=finding.message,
        position=finding.position,
        source_line=lines[line - 1] if 0 < line <= len(lines) else "",
        expected=finding.expected,
        hint=finding.hint,
    )
