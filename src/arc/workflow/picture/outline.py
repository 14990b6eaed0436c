"""A workflow as a compact outline for a terminal: nodes in the order a run meets them, each with where it leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arc.workflow.model import Edge, Workflow
from arc.workflow.picture.draw import NodeMark
from arc.workflow.picture.style import SHADES, columns, cut, duration, look_of


@dataclass(frozen=True)
class OutlineLine:
    """One line. `kind` says what it shows; `status` is the node's status in a run (None without a run)."""

    kind: str
    text: str
    status: str | None = None


def outline(workflow: Workflow, marks: Mapping[str, NodeMark] | None, *, width: int = 100) -> tuple[OutlineLine, ...]:
    """The lines of the outline, at most `width` columns wide. `marks` by paths of the graph (see `picture.fold_branches`)."""
    return tuple(_outline(workflow, marks, "", "", width, 0))


def walk_order(workflow: Workflow) -> tuple[str, ...]:
    """Node ids in the order a walk meets them: before what they lead to (loops aside), ways of the file one after the other.

    Nodes that no edge leads to come after that, the exit at the end.
    """
    finished: dict[str, None] = {}
    entered = {workflow.start}
    stack = [(workflow.start, iter(workflow.outgoing(workflow.start)[::-1]))]
    while stack:
        node_id, edges = stack[-1]
        target = next((edge.target for edge in edges if edge.target not in entered), None)
        if target is None:
            finished[node_id] = None
            stack.pop()
        else:
            entered.add(target)
            stack.append((target, iter(workflow.outgoing(target)[::-1])))
    order = dict.fromkeys(reversed(finished))
    order.update(dict.fromkeys(workflow.nodes))
    order.pop(workflow.exit, None)
    return (*order, workflow.exit)


def _outline(
    workflow: Workflow, marks: Mapping[str, NodeMark] | None, prefix: str, indent: str, width: int, depth: int
) -> Iterator[OutlineLine]:
    order = walk_order(workflow)
    place = {node_id: index for index, node_id in enumerate(order)}
    name_width = min(max(len(node_id) for node_id in order), 32)
    type_width = max(len(look_of(node.type).word) for node in workflow.nodes.values())
    for node_id in order:
        node = workflow.nodes[node_id]
        mark = None if marks is None else marks.get(prefix + node_id, NodeMark("pending", 0, 0))
        sign = "●" if mark is None else SHADES[mark.status].mark if mark.status in SHADES else "·"
        label = " ".join(node.label.split()) if node.label != node_id else ""
        parts = [f"{indent}{sign} {node_id.ljust(name_width)}  {look_of(node.type).word.ljust(type_width)}"]
        if mark is not None:
            parts.append(_fared(mark))
        if label:
            parts.append(label)
        yield OutlineLine("node", _fitted("  ".join(parts).rstrip(), width), None if mark is None else mark.status)
        for edge in workflow.outgoing(node_id):
            arrow = "↺" if place[edge.target] <= place[node_id] and node_id != workflow.exit else "→"
            yield OutlineLine("edge", _fitted(f"{indent}    {arrow} {edge.target}{_when(edge)}", width))
        if node.retry_target:
            yield OutlineLine("edge", _fitted(f"{indent}    ↺ {node.retry_target}  to retry", width))
        if node.child is not None and depth < 3:
            yield OutlineLine("child", _fitted(f"{indent}    runs {node.child.name} ({node.child.file})", width))
            yield from _outline(node.child, marks, f"{prefix}{node_id}/", indent + "      ", width, depth + 1)


def _fared(mark: NodeMark) -> str:
    shade = SHADES.get(mark.status)
    parts = [shade.word if shade else mark.status]
    if mark.visits > 1:
        parts.append(f"{mark.visits} visits")
    if mark.attempts > max(mark.visits, 1):
        parts.append(f"{mark.attempts} attempts")
    if mark.duration_ms is not None:
        parts.append(duration(mark.duration_ms))
    if mark.note:
        parts.append(mark.note)
    return ", ".join(parts)


def _when(edge: Edge) -> str:
    label = f'  "{" ".join(edge.label.split())}"' if edge.label else ""
    condition = f"  if {edge.condition.text.strip()}" if edge.condition is not None else ""
    free = "  any other text" if edge.freeform else ""
    return label + condition + free + ("  restarts the loop" if edge.loop_restart else "")


def _fitted(text: str, width: int) -> str:
    return text if columns(text) <= width else cut(text, width - 1) + "…"
