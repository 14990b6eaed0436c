"""Rules about the choice of the next edge: conditions, human gates and their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from rapidfuzz import process

from arc.workflow.handlers.choices import split_label
from arc.workflow.language.conditions import AllOf, Comparison, Condition, Expression, Facts, Not, Truth
from arc.workflow.language.syntax import EdgeSyntax
from arc.workflow.lint.view import Finding, View, flag, text
from arc.workflow.outcome import STATUS_WORDS

_ENDINGS = ("success", "partial_success", "fail", "skipped")
"""The statuses with which a node can end (`retry` is used up before routing)."""


def all_conditional_edges(view: View) -> Iterator[Finding]:
    """After a node that did not fail some edge can always be taken; where every edge has a condition and none holds, the run fails.

    A failed node without a way of its own fails the run anyway; so failures count only after a `conditional` node, which routes on them.
    """
    for node in view.syntax.nodes.values():
        edges = view.outgoing(node.id)
        if not edges or view.types.get(node.id) in ("parallel", "exit", "human") or not all(view.has_condition(edge) for edge in edges):
            continue
        conditions = [view.conditions[edge.index] for edge in edges if edge.index in view.conditions]
        if len(conditions) < len(edges):
            continue  # a condition that cannot be read is an error of its own
        missing = tuple(word for word in possible_outcomes(view, node.id) if not _always_some(conditions, word))
        if missing:
            yield Finding(
                f"every edge of node `{node.id}` has a condition, and with outcome {' or '.join(f'`{word}`' for word in missing)} "
                f"{'none needs to hold' if any(condition.names() - _OUTCOME_KEYS for condition in conditions) else 'none holds'}",
                edges[0].position,
                hint=f"add an edge without a condition, for example `{node.id} -> {view.exit or 'exit'}`; without it the run fails there",
            )


def possible_outcomes(view: View, node_id: str) -> tuple[str, ...]:
    """The statuses with which routing has to do after this node."""
    kind = view.types.get(node_id)
    if kind == "conditional":  # it passes on the outcome of the node before it
        return ("success", "partial_success", "fail")
    if kind in ("command", "wait", "human", "start") and not flag(view.syntax.nodes[node_id].attributes, "allow_partial"):
        return ("success",)
    return ("success", "partial_success")


def _always_some(conditions: list[Condition], outcome: str) -> bool:
    """Whether one of the conditions holds whatever the context says. Every other clause counts as free to be true or false."""
    free = sorted({atom for condition in conditions for atom in _atoms(condition.expression)})
    if len(free) > _MOST_ATOMS:
        return True  # too many combinations to try: no finding rather than a wrong one
    for values in product((False, True), repeat=len(free)):
        known = dict(zip(free, values, strict=True))
        if not any(_holds(condition.expression, outcome, known) for condition in conditions):
            return False
    return True


_OUTCOME_KEYS = frozenset({"outcome", "context.outcome"})
_MOST_ATOMS = 10


def _atom(clause: Truth | Comparison) -> str:
    """A name for what a clause asks; `a=b` and `a!=b` ask the same."""
    if isinstance(clause, Truth):
        return clause.key
    return f"{clause.key} {'=' if clause.operator == '!=' else clause.operator} {clause.value}"


def _atoms(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Truth | Comparison):
        if expression.key not in _OUTCOME_KEYS:
            yield _atom(expression)
    elif isinstance(expression, Not):
        yield from _atoms(expression.part)
    else:
        for part in expression.parts:
            yield from _atoms(part)


def _holds(expression: Expression, outcome: str, known: Mapping[str, bool]) -> bool:
    if isinstance(expression, Truth | Comparison):
        if expression.key in _OUTCOME_KEYS:
            return Condition("", expression).evaluate(Facts(outcome, "", {"outcome": outcome}))
        answer = known[_atom(expression)]
        return not answer if isinstance(expression, Comparison) and expression.operator == "!=" else answer
    if isinstance(expression, Not):
        return not _holds(expression.part, outcome, known)
    if isinstance(expression, AllOf):
        return all(_holds(part, outcome, known) for part in expression.parts)
    return any(_holds(part, outcome, known) for part in expression.parts)


def edge_never_taken(view: View) -> Iterator[Finding]:
    """Of several edges without condition and label only one is ever taken after a node that cannot choose."""
    for node in view.of_type("start", "command", "wait", "parallel.fan_in", "stack.manager_loop", "conditional"):
        if text(node.attributes, "selection") == "random":
            continue
        plain = [edge for edge in view.outgoing(node.id) if not view.has_condition(edge) and not text(edge.attributes, "label")]
        if len(plain) < 2:
            continue
        first = min(plain, key=lambda edge: (-_weight(edge), edge.target, edge.index))
        for edge in plain:
            if edge is not first and edge.target != first.target:
                yield Finding(
                    f"edge `{edge.source} -> {edge.target}` is never taken: `{first.source} -> {first.target}` always comes first",
                    edge.position,
                    hint="give it a condition, or make the node `type=parallel` if both are meant",
                )


def _weight(edge: EdgeSyntax) -> int:
    attribute = edge.attributes.get("weight")
    return attribute.value if attribute is not None and isinstance(attribute.value, int) else 0


def orphan_custom_outcome(view: View) -> Iterator[Finding]:
    """Conditions compare `outcome` only with words that a node can end with."""
    words = list(STATUS_WORDS)
    for edge in view.syntax.edges:
        condition = view.conditions.get(edge.index)
        if condition is None:
            continue
        for word in sorted(condition.outcomes()):
            if word in STATUS_WORDS or not word:
                continue
            close = process.extract(word, words, limit=1, score_cutoff=70.0)
            attribute = edge.attributes["condition"]
            yield Finding(
                f"no node ever ends with the outcome `{word}`",
                view.inside(attribute, max(str(attribute.value).find(word), 0)),
                hint=f"did you mean `{close[0][0]}`?" if close else f"for a choice of words, route on `preferred_label={word}`",
                expected=_ENDINGS,
            )


def freeform_edge_count(view: View) -> Iterator[Finding]:
    """At most one edge of a human gate takes free text, and only a human gate has such an edge."""
    for node in view.syntax.nodes.values():
        free = [edge for edge in view.outgoing(node.id) if flag(edge.attributes, "freeform")]
        if view.types.get(node.id) == "human":
            for edge in free[1:]:
                yield Finding(
                    f"human gate `{node.id}` has more than one `freeform` edge (the first leads to `{free[0].target}`)",
                    edge.attributes["freeform"].name_position,
                    hint="keep one: all text that matches no choice goes there",
                )
        else:
            for edge in free:
                yield Finding(
                    f"`freeform` on `{edge.source} -> {edge.target}` means nothing: `{node.id}` is no human gate",
                    edge.attributes["freeform"].name_position,
                    hint="give the node `type=human` (or `shape=hexagon`), or remove the attribute",
                )


def human_without_choices(view: View) -> Iterator[Finding]:
    """A human gate has edges: their labels are what the person chooses from."""
    for node in view.of_type("human"):
        if not view.outgoing(node.id):
            yield Finding(
                f"human gate `{node.id}` has no outgoing edge: there is nothing to choose",
                node.position,
                hint=f'add one for each answer: `{node.id} -> next [label="[A] Approve"]`',
            )


def human_default_exists(view: View) -> Iterator[Finding]:
    """`human.default_choice` names a choice of its gate: by key, label or target."""
    for node in view.syntax.nodes.values():
        attribute = node.attributes.get("human.default_choice")
        if attribute is None or "$" in str(attribute.value):
            continue
        choices = [edge for edge in view.outgoing(node.id) if not flag(edge.attributes, "freeform")]
        known: set[str] = set()
        for edge in choices:
            key, label = split_label(text(edge.attributes, "label"))
            known |= {_folded(word) for word in (key or "", label, text(edge.attributes, "label"), edge.target, choice_label(view, edge))}
        if _folded(str(attribute.value)) not in known - {""}:
            yield Finding(
                f"`human.default_choice` of `{node.id}` is `{attribute.value}`, which is no choice of this gate",
                attribute.value_position,
                expected=tuple(dict.fromkeys(f"`{choice_label(view, edge)}`" for edge in choices)),
            )


def human_timeout_default(view: View) -> Iterator[Finding]:
    """A human gate with a timeout says what is chosen when nobody answers."""
    for node in view.of_type("human"):
        attribute = node.attributes.get("timeout")
        if attribute is not None and not text(node.attributes, "human.default_choice"):
            yield Finding(
                f"human gate `{node.id}` has a timeout but no default: if nobody answers in time, the node fails",
                attribute.name_position,
                hint="add `human.default_choice=` with the label or target of an edge, if that is not what you want",
            )


def accelerator_clash(view: View) -> Iterator[Finding]:
    """The keys written in the labels of a human gate's edges are different; of two equal ones only the first is used."""
    for node in view.of_type("human"):
        taken: dict[str, EdgeSyntax] = {}
        for edge in view.outgoing(node.id):
            key, label = split_label(text(edge.attributes, "label"))
            if key is None or flag(edge.attributes, "freeform"):
                continue
            if key in taken:
                yield Finding(
                    f"choices `{choice_label(view, taken[key])}` and `{label}` of `{node.id}` have the same key `{key}`",
                    edge.attributes["label"].value_position,
                    hint="give one of them another letter in brackets; otherwise arc chooses one",
                )
            else:
                taken[key] = edge


def choice_label(view: View, edge: EdgeSyntax) -> str:
    """What a person reads: the edge's label without its key, else the target's label, else its id."""
    label = split_label(text(edge.attributes, "label"))[1]
    return label or text(view.syntax.nodes[edge.target].attributes, "label") or edge.target


def _folded(word: str) -> str:
    return " ".join(word.casefold().split())
