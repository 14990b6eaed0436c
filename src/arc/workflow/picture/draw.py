"""A workflow as a picture: styled DOT, and its rendering by Graphviz's `dot` program.

`to_dot` needs no program. Colours never stand alone: each node says its type, and in a picture of a run its status, in words too.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from arc.base.errors import ArcError
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.syntax import SubgraphSyntax
from arc.workflow.model import Edge, Node, Workflow
from arc.workflow.picture.style import SHADES, Look, Shade, columns, cut, duration, escape, look_of, quoted, wrapped

_FONT = "Helvetica,Arial,sans-serif"
_CODE_FONT = "Courier,monospace"
_DEEPEST_CHILD = 3
_RENDER_SECONDS = 120.0

_WORST_FIRST = ("fail", "interrupted", "running", "waiting", "canceled", "retry", "partial_success", "success", "skipped", "pending")


class PictureError(ArcError):
    """The picture could not be rendered."""

    code = "picture.failed"


@dataclass(frozen=True)
class NodeMark:
    """How a node fared in a run: its last status (a key of `SHADES`), visits, attempts over all visits, total time, a remark."""

    status: str
    visits: int = 1
    attempts: int = 1
    duration_ms: int | None = None
    note: str = ""


def fold_branches(marks: Mapping[str, NodeMark]) -> dict[str, NodeMark]:
    """Marks by node paths of the run (`fan:left/test`, `review/plan`) as marks by paths of the graph (`test`, `review/plan`).

    Branches of a parallel block walk the nodes of the block's own graph. Where several branches came through one node, it gets the
    worst of their statuses, the sum of their numbers, and a note that tells them apart.
    """
    groups: dict[str, list[tuple[str, NodeMark]]] = {}
    for path, mark in marks.items():
        branch = next((segment.partition(":")[2] for segment in reversed(path.split("/")[:-1]) if ":" in segment), "")
        groups.setdefault(graph_path(path), []).append((branch, mark))
    return {path: _merged(group) for path, group in groups.items()}


def _merged(group: Sequence[tuple[str, NodeMark]]) -> NodeMark:
    if len(group) == 1:
        return group[0][1]
    times = [mark.duration_ms for _, mark in group if mark.duration_ms is not None]
    worst = min((mark.status for _, mark in group), key=lambda status: _WORST_FIRST.index(status) if status in _WORST_FIRST else 0)
    return NodeMark(
        status=worst,
        visits=sum(mark.visits for _, mark in group),
        attempts=sum(mark.attempts for _, mark in group),
        duration_ms=sum(times) if times else None,
        note=" · ".join(f"{branch} {_shade(mark.status).mark}" for branch, mark in group if branch),
    )


def graph_path(path: str) -> str:
    """A node path of a run as a path of the graph: the segments that say in which branch (`fan:left/`) are left out."""
    *frames, node_id = path.split("/")
    return "/".join([*(frame for frame in frames if ":" not in frame), node_id])


def to_dot(
    workflow: Workflow,
    marks: Mapping[str, NodeMark] | None = None,
    *,
    caption: str = "",
    taken: Collection[tuple[str, int]] | None = None,
) -> str:
    """The workflow as styled DOT for Graphviz.

    `marks` (by node path, see `fold_branches`) makes it the picture of a run: nodes take the colour and the word of their status,
    nodes without a mark count as not run, and a legend explains the colours. `caption` is a line under the title (the run's id and status).
    `taken` holds the edges that the run took, as (path of the graph with a final slash, "" for the outermost; index of the edge); None if
    that is not known. They are drawn strong, the others faint.
    """
    folded = None if marks is None else fold_branches(marks)
    direction = str(workflow.attributes.get("rankdir", "TB"))
    lines = [
        f"digraph {quoted(workflow.name or 'workflow')} {{",
        f'  graph [rankdir={direction if direction in ("TB", "LR", "BT", "RL") else "TB"}, fontname="{_FONT}", fontsize=12, pad=0.3, '
        f'nodesep=0.45, ranksep=0.5, bgcolor="#ffffff", labelloc=t, labeljust=l, tooltip={quoted(workflow.name)}];',
        f'  node [fontname="{_FONT}", fontsize=11, penwidth=1.3];',
        f'  edge [fontname="{_FONT}", fontsize=9, color="#5b6572", fontcolor="#39424d", arrowsize=0.75, penwidth=1.1];',
        f"  label=<{_heading(workflow, folded, caption)}>;",
    ]
    lines.extend(_graph(workflow, _Run(folded, taken), prefix="", depth=0))
    lines.append("}")
    return "\n".join(lines) + "\n"


def render(dot: str, format: Literal["svg", "png"]) -> bytes:
    """The picture of `dot` as SVG or PNG (192 dpi), drawn by the `dot` program.

    Raises:
        PictureError: Graphviz is not installed, or could not draw it.
    """
    program = shutil.which("dot")
    if program is None:
        raise PictureError(
            "the program `dot` of Graphviz is not installed",
            hints=("apt install graphviz   (or: brew install graphviz)", "`-o FILE.dot` writes the picture's source and needs no program"),
        )
    command = [program, f"-T{format}", *(["-Gdpi=192"] if format == "png" else [])]
    try:
        done = subprocess.run(command, input=dot.encode(), capture_output=True, timeout=_RENDER_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise PictureError(
            f"`dot` did not finish the picture within {_RENDER_SECONDS:.0f} seconds",
            hints=("`-o FILE.dot` writes the picture's source",),
        ) from error
    if done.returncode != 0 or not done.stdout:
        raise PictureError(
            f"`dot` could not draw the picture (status {done.returncode})",
            details=tuple(done.stderr.decode(errors="replace").splitlines()[:5]),
        )
    return done.stdout


def _heading(workflow: Workflow, marks: Mapping[str, NodeMark] | None, caption: str) -> str:
    title = workflow.label or workflow.name or "workflow"
    rows = [f'<TR><TD ALIGN="LEFT"><FONT POINT-SIZE="17" COLOR="#1c2430"><B>{_left(title, 60, 2)}</B></FONT></TD></TR>']
    if workflow.goal:
        rows.append(f'<TR><TD ALIGN="LEFT"><FONT POINT-SIZE="11" COLOR="#5b6572">{_left(workflow.goal, 80, 4)}</FONT></TD></TR>')
    if caption:
        rows.append(f'<TR><TD ALIGN="LEFT"><FONT POINT-SIZE="11" COLOR="#1c2430">{escape(caption)}</FONT></TD></TR>')
    if marks is not None:
        width = max(9.5 * _widest(title, 60), 5.7 * _widest(workflow.goal, 80), 6.2 * columns(caption))
        rows.append(f'<TR><TD ALIGN="LEFT">{_legend(workflow, marks, round(width))}</TD></TR>')
    rows.append('<TR><TD HEIGHT="10"></TD></TR>')
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2" CELLPADDING="1">{"".join(rows)}</TABLE>'


def _widest(text: str, width: int) -> int:
    return max((columns(line) for line in wrapped(text, width, 4)), default=0)


def _legend(workflow: Workflow, marks: Mapping[str, NodeMark], width: int) -> str:
    """One chip per status that occurs. A table is stretched to its cell's width (about `width`): an empty cell takes that up."""
    used = {mark.status for mark in marks.values()}
    if any(node_id not in marks for node_id in workflow.nodes):
        used.add("pending")
    shades = [shade for status, shade in SHADES.items() if status in used]
    chips = "".join(_chip(shade) for shade in shades)
    rest = max(width - sum(_chip_width(shade) + 5 for shade in shades), 1)
    return (
        f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="5" CELLPADDING="2"><TR>{chips}'
        f'<TD FIXEDSIZE="TRUE" WIDTH="{rest}" HEIGHT="1"></TD></TR></TABLE>'
    )


def _chip(shade: Shade) -> str:
    return (
        f'<TD BGCOLOR="{shade.fill}" COLOR="{shade.line}" BORDER="1" FIXEDSIZE="TRUE" WIDTH="{_chip_width(shade)}" HEIGHT="20">'
        f'<FONT POINT-SIZE="10" COLOR="{_ink(shade)}"><B>{escape(shade.mark)}</B> {escape(shade.word)}</FONT></TD>'
    )


def _chip_width(shade: Shade) -> int:
    return 26 + round(5.6 * columns(shade.word))


@dataclass(frozen=True)
class _Run:
    """What is known of the run that is drawn; marks are folded."""

    marks: Mapping[str, NodeMark] | None
    taken: Collection[tuple[str, int]] | None

    def mark(self, path: str) -> NodeMark | None:
        return None if self.marks is None else self.marks.get(path, NodeMark("pending", 0, 0))

    def took(self, edge: Edge, workflow: Workflow, prefix: str) -> bool | None:
        """Whether the run took an edge, None if that is not known. Those of a parallel node are not chosen: there the target tells."""
        if self.taken is None or self.marks is None:
            return None
        if workflow.nodes[edge.source].type == "parallel":
            return prefix + edge.source in self.marks and prefix + edge.target in self.marks
        return (prefix, edge.index) in self.taken


def _graph(workflow: Workflow, run: _Run, *, prefix: str, depth: int) -> Iterator[str]:
    """Nodes (inside their clusters), edges, retry jumps and children of one graph; ids are prefixed with the path of the graph."""
    subgraphs = parse_dot(workflow.source, workflow.file).subgraphs
    yield from _clusters(workflow, run, subgraphs, prefix)
    for edge in workflow.edges:
        looks = _edge(edge, workflow, run.took(edge, workflow, prefix))
        yield f"  {quoted(prefix + edge.source)} -> {quoted(prefix + edge.target)} [{looks}];"
    for node in workflow.nodes.values():
        if node.retry_target and node.retry_target in workflow.nodes:
            yield (
                f'  {quoted(prefix + node.id)} -> {quoted(prefix + node.retry_target)} [style=dotted, constraint=false, color="#8a939d", '
                f'fontcolor="#6a737d", label=<&#160;&#160;<I>retry</I>>, tooltip={quoted(f"{node.id} goes back to {node.retry_target}")}];'
            )
        if node.child is not None and depth < _DEEPEST_CHILD:
            yield from _child(node, node.child, run, prefix, depth)


def _child(node: Node, child: Workflow, run: _Run, prefix: str, depth: int) -> Iterator[str]:
    inside = f"{prefix}{node.id}/"
    look = look_of(node.type)
    yield f"  subgraph {quoted('cluster_child_' + inside)} {{"
    yield (
        f'    label=<<FONT POINT-SIZE="11" COLOR="{look.line}">{_lines(child.label or child.name, 40, 2)}</FONT>>; '
        f'style="rounded,dashed"; color="{look.line}"; bgcolor="#fffafc"; margin=14; labeljust=l;'
    )
    yield from (f"  {line}" for line in _graph(child, run, prefix=inside, depth=depth + 1))
    yield "  }"
    yield (
        f'  {quoted(prefix + node.id)} -> {quoted(inside + child.start)} [style=dashed, color="{look.line}", fontcolor="{look.line}", '
        f"arrowhead=open, label=<&#160;&#160;<I>runs</I>>, tooltip={quoted(f'{node.id} runs {child.file}')}];"
    )


def _clusters(workflow: Workflow, run: _Run, subgraphs: Sequence[SubgraphSyntax], prefix: str) -> Iterator[str]:
    """All nodes, each in the innermost subgraph that names it first; a subgraph nests in the smallest one that holds all its nodes."""
    holder: dict[str, int] = {}
    for index, subgraph in sorted(enumerate(subgraphs), key=lambda pair: len(pair[1].nodes), reverse=True):
        holder.update(dict.fromkeys(subgraph.nodes, index))
    parent: dict[int, int | None] = {}
    for index, subgraph in enumerate(subgraphs):
        inside = set(subgraph.nodes)
        around = [
            other
            for other, candidate in enumerate(subgraphs)
            if other != index and inside <= set(candidate.nodes) and (len(candidate.nodes), -other) > (len(inside), -index)
        ]
        parent[index] = min(around, key=lambda other: len(subgraphs[other].nodes), default=None)

    def inside_of(index: int | None, indent: str) -> Iterator[str]:
        for node in workflow.nodes.values():
            if holder.get(node.id) == index:
                yield f"{indent}{quoted(prefix + node.id)} [{_node(node, run.mark(prefix + node.id), workflow.goal)}];"
        for child in (number for number in parent if parent[number] == index and subgraphs[number].nodes):
            title = subgraphs[child].label or subgraphs[child].name.removeprefix("cluster_")
            yield f"{indent}subgraph {quoted(f'cluster_{prefix}{child}')} {{"
            yield (
                f'{indent}  label=<<FONT POINT-SIZE="11" COLOR="#5b6572">{_lines(title, 40, 2)}</FONT>>; style="rounded,filled"; '
                f'color="#d4dae1"; fillcolor="#f7f9fb"; margin=14; labeljust=l;'
            )
            yield from inside_of(child, indent + "  ")
            yield f"{indent}}}"

    yield from inside_of(None, "  ")


def _node(node: Node, mark: NodeMark | None, goal: str) -> str:
    look = look_of(node.type)
    if mark is not None:
        shade = _shade(mark.status)
        look = replace(look, fill=shade.fill, line=shade.line, ink="#1c2430", soft="#4a5560")
        if shade.dashed:
            look = replace(look, style=look.style + ",dashed", ink="#4a5560", soft="#6a737d")
    label = _node_label(node, mark, look, goal)
    heavy = node.goal_gate or (mark is not None and mark.status in ("fail", "running", "interrupted", "waiting"))
    tooltip = f"tooltip={quoted(_tooltip(node))}"
    if look.shape in ("fork", "join"):
        return f"shape=plain, label=<{_barred(label, look, heavy=heavy)}>, {tooltip}"
    double = ", peripheries=2" if node.type == "exit" else ""
    thick = ", penwidth=2.2" if heavy else ""
    return (
        f'shape={look.shape}, style="{look.style}", fillcolor="{look.fill}", color="{look.line}", margin="{look.margin}"{double}{thick}, '
        f"label=<{label}>, {tooltip}"
    )


def _barred(label: str, look: Look, *, heavy: bool) -> str:
    """A box with a bar below it, from which branches start, or above it, where they end."""
    box = f'<TR><TD CELLPADDING="6">{label}</TD></TR>'
    bar = f'<TR><TD BGCOLOR="{look.line}" HEIGHT="5" CELLPADDING="0" FIXEDSIZE="FALSE"></TD></TR>'
    style = ' STYLE="dashed"' if "dashed" in look.style else ""
    frame = f'BORDER="{2 if heavy else 1}" COLOR="{look.line}" BGCOLOR="{look.fill}"{style}'
    return f'<TABLE {frame} CELLBORDER="0" CELLSPACING="0" CELLPADDING="0">{box + bar if look.shape == "fork" else bar + box}</TABLE>'


def _node_label(node: Node, mark: NodeMark | None, look: Look, goal: str) -> str:
    name = f"{look.word} · {node.id}" if node.label and node.label != node.id else look.word
    rows = [f'<FONT POINT-SIZE="12" COLOR="{look.ink}"><B>{_lines(node.label or node.id, look.wide, 3)}</B></FONT>']
    if not (node.type in ("start", "exit") and (node.label or node.id).lower() == look.word):
        rows.append(f'<FONT POINT-SIZE="9" COLOR="{look.soft}">{_lines(name, look.wide + 6, 2)}</FONT>')
    body = _body(node, goal)
    if body:
        code = node.type == "command"
        face = f' FACE="{_CODE_FONT}"' if code else ""
        width = look.wide + (4 if code else 8)
        rows.append(f'<FONT POINT-SIZE="9" COLOR="{look.soft}"{face}>{_lines(body, width, 2)}</FONT>')
    badges = _badges(node)
    if badges:
        rows.append(f'<FONT POINT-SIZE="9" COLOR="{look.line}">{_row(badges, look.wide + 8)}</FONT>')
    if mark is not None:
        shade = _shade(mark.status)
        status = f'<FONT POINT-SIZE="10" COLOR="{_ink(shade)}"><B>{escape(shade.mark)} {escape(shade.word)}</B></FONT>'
        numbers = _numbers(mark)
        small = f'<FONT POINT-SIZE="9" COLOR="{look.soft}">{escape(numbers)}</FONT>'
        if numbers and columns(shade.word) + columns(numbers) <= look.wide:
            rows.append(f"{status} &#160;{small}")
        else:
            rows += [status, *([small] if numbers else [])]
        if mark.note:
            rows.append(f'<FONT POINT-SIZE="9" COLOR="{look.soft}">{_lines(mark.note, look.wide + 10, 3)}</FONT>')
    cells = "".join(f"<TR><TD>{row}</TD></TR>" for row in rows)
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{cells}</TABLE>'


def _body(node: Node, goal: str) -> str:
    """What the node does, in its own words: the script, the prompt (past the run's goal, which the heading has), the time it waits."""
    if node.type == "command":
        return next((line.strip() for line in node.script.splitlines() if line.strip() and not line.strip().startswith("#")), "")
    if node.type in ("agent", "prompt"):
        paragraphs = [" ".join(part.split()) for part in node.prompt.split("\n\n") if part.strip()]
        told = [part for part in paragraphs if not (goal and " ".join(goal.split()) in part)] or paragraphs
        return " ".join(told) if node.prompt.strip() != node.label.strip() else ""
    if node.type == "wait" and node.duration_ms is not None:
        return duration(node.duration_ms)
    return ""


def _badges(node: Node) -> list[str]:
    join = node.join_policy
    policies = {"first_success": "first success", "k_of_n": f"{join.count} branches", "quorum": f"quorum {join.fraction:g}"}
    return [
        *(["goal gate"] if node.goal_gate else []),
        *([policies[join.kind]] if node.type == "parallel" and join.kind in policies else []),
        *([f"{node.max_visits} visit{'s' if node.max_visits != 1 else ''} at most"] if node.max_visits else []),
        *([f"model {node.choice.model}"] if node.choice.model and node.type in ("agent", "prompt") else []),
        *([f"timeout {duration(node.timeout_ms)}"] if node.timeout_ms else []),
    ]


def _numbers(mark: NodeMark) -> str:
    parts = []
    if mark.visits > 1:
        parts.append(f"{mark.visits} visits")
    if mark.attempts > max(mark.visits, 1):
        parts.append(f"{mark.attempts} attempts")
    if mark.duration_ms is not None:
        parts.append(duration(mark.duration_ms))
    return " · ".join(parts)


def _tooltip(node: Node) -> str:
    lines = [f"{node.id} ({node.type})"]
    text = node.script if node.type == "command" else node.prompt
    if text.strip():
        lines.append("\n".join(wrapped(text, 100, 30)))
    return "\n".join(lines)


def _edge(edge: Edge, workflow: Workflow, taken: bool | None) -> str:
    rows = []
    if edge.label:
        rows.append(f'<FONT COLOR="#1c2430"><B>{_lines(edge.label, 24, 3)}</B></FONT>')
    if edge.condition is not None:
        rows.append(f'<FONT COLOR="#4a5560"><I>{_lines(edge.condition.text, 30, 3)}</I></FONT>')
    extra = [
        *(["free text"] if edge.freeform else []),
        *(["restart"] if edge.loop_restart else []),
        *([f"weight {edge.weight}"] if edge.weight else []),
    ]
    if extra:
        rows.append(f'<FONT COLOR="#6a737d">{escape(" · ".join(extra))}</FONT>')
    parts = [f"tooltip={quoted(f'{edge.source} -> {edge.target}')}"]
    if rows:
        cells = "".join(f'<TR><TD BGCOLOR="#ffffff">{row}</TD></TR>' for row in rows)
        parts.append(f'label=<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="1" CELLPADDING="1">{cells}</TABLE>>')
        parts.append(f"labeltooltip={quoted(f'{edge.source} -> {edge.target}')}")
    if edge.loop_restart:
        parts.append("style=bold")
    elif edge.condition is not None:
        parts.append("style=dashed")
    if taken is False:
        parts.append('color="#b4bcc5"')
    elif taken or workflow.nodes[edge.source].type == "parallel":
        parts.append('penwidth=1.9, color="#27323f"' if taken else "penwidth=1.8")
    return ", ".join(parts)


def _lines(text: str, width: int, most: int) -> str:
    return "<BR/>".join(escape(line) for line in wrapped(text, width, most)) or " "


def _left(text: str, width: int, most: int) -> str:
    lines = wrapped(text, width, most)
    return "".join(f'{escape(line)}<BR ALIGN="LEFT"/>' for line in lines) if len(lines) > 1 else escape("".join(lines)) or " "


def _row(parts: Sequence[str], width: int) -> str:
    """Short parts side by side, broken only between them."""
    lines: list[str] = []
    for part in parts:
        if lines and columns(lines[-1]) + 3 + columns(part) <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(cut(part, width))
    return "<BR/>".join(escape(line) for line in lines)


def _shade(status: str) -> Shade:
    return SHADES.get(status) or Shade("·", status, "#ffffff", "#4a5560")


def _ink(shade: Shade) -> str:
    return "#5b6572" if shade.dashed else shade.line
