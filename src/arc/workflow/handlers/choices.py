"""The choices of a human gate: made from its outgoing edges, found by what a person answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arc.base.json import JsonValue
from arc.workflow.engine.doors import Choice
from arc.workflow.language.conditions import Facts
from arc.workflow.model import Edge, Node, Workflow

_ACCELERATOR = re.compile(r"\s*(?:\[(?P<bracket>\w)\]\s*|(?P<paren>\w)\)\s+|(?P<dash>\w)\s+-\s+)(?=\S)")


@dataclass(frozen=True)
class Gate:
    """What a human gate offers. `freeform` is the edge that any other text takes."""

    choices: tuple[Choice, ...]
    freeform: Edge | None

    def find(self, text: str) -> Choice | None:
        """The choice that an answer means: by its key, its label (with or without accelerator) or its target, whatever the case."""
        wanted = _folded(text)
        for choice in self.choices:
            if wanted and wanted in (
                _folded(choice.key),
                _folded(choice.label),
                _folded(choice.target),
                _folded(f"[{choice.key}] {choice.label}"),
            ):
                return choice
        stripped = _folded(split_label(text)[1])
        return next((choice for choice in self.choices if stripped and stripped == _folded(choice.label)), None)

    def labels(self) -> str:
        """For messages: `[A] Approve, [R] Reject`."""
        return ", ".join(f"[{choice.key}] {choice.label}" for choice in self.choices)


def gate_of(workflow: Workflow, node: Node, context: Mapping[str, JsonValue]) -> Gate:
    """The choices of a gate, in the order of the file.

    An edge with a condition is a choice only if the condition would be true after choosing it; one without a label is named after its
    target. Edges marked `freeform` are no choices.
    """
    edges = workflow.outgoing(node.id)
    offered: list[tuple[str | None, str, str]] = []
    for edge in edges:
        if edge.freeform:
            continue
        key, label = split_label(edge.label) if edge.label.strip() else (None, _target_label(workflow, edge))
        if edge.condition is not None:
            facts = Facts("success", label, {**context, "human.gate.label": label, "human.gate.selected": key or ""})
            if not edge.label.strip() or not edge.condition.evaluate(facts):
                continue
        offered.append((key, label, edge.target))
    keys = _keys(offered)
    choices = tuple(Choice(key, label, target) for key, (_, label, target) in zip(keys, offered, strict=True))
    return Gate(choices, next((edge for edge in edges if edge.freeform), None))


def split_label(label: str) -> tuple[str | None, str]:
    """Accelerator (upper case) and the rest of `[K] x`, `K) x` or `K - x`; no accelerator in any other label."""
    match = _ACCELERATOR.match(label)
    if match is None:
        return None, label.strip()
    return (match["bracket"] or match["paren"] or match["dash"]).upper(), label[match.end() :].strip()


def _target_label(workflow: Workflow, edge: Edge) -> str:
    target = workflow.nodes.get(edge.target)
    return target.label if target is not None and target.label else edge.target


def _keys(offered: Sequence[tuple[str | None, str, str]]) -> list[str]:
    """One key per choice, all different: explicit ones first, else the first free letter of the label, else a free number."""
    taken: set[str] = set()
    keys: list[str | None] = []
    for explicit, _, _ in offered:
        keys.append(explicit if explicit is not None and explicit not in taken else None)
        taken.update(key for key in keys[-1:] if key is not None)
    for index, (_, label, _) in enumerate(offered):
        if keys[index] is None:
            letters = (letter for letter in label.upper() if letter.isalnum() and len(letter) == 1)
            numbers = (str(number) for number in range(1, len(offered) + len(taken) + 2))
            key = next(letter for letter in (*letters, *numbers) if letter not in taken)
            keys[index] = key
            taken.add(key)
    return [key for key in keys if key is not None]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
