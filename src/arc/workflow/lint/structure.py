"""Rules about the shape of the graph: what leads where, what leads nowhere, and names that cannot be meant."""

from __future__ import annotations

from collections.abc import Iterator

from rapidfuzz import process

from arc.workflow.lint.view import Finding, View, text

DIRECTIONS = ("TB", "LR", "BT", "RL")
DOT_KEYWORDS = frozenset({"strict", "graph", "digraph", "node", "edge", "subgraph"})
_CLOSE_ENOUGH = 75.0


def reachability(view: View) -> Iterator[Finding]:
    """Every node can be reached from the start, over edges and retry targets."""
    if view.start is None:
        return
    reached = view.reached_from([view.start])
    for node in view.syntax.nodes.values():
        if node.id not in reached:
            yield Finding(
                f"node `{node.id}` can never be reached from `{view.start}`",
                node.position,
                hint="add an edge that leads to it, or remove the node",
            )


def edge_target_exists(view: View) -> Iterator[Finding]:
    """A name that appears only in edges becomes an agent node without a word said: mostly it is a misspelling."""
    declared = [node.id for node in view.syntax.nodes.values() if node.declared]
    for node in view.syntax.nodes.values():
        if node.declared or view.types.get(node.id) in ("start", "exit"):
            continue
        close = process.extract(node.id, declared, limit=1, score_cutoff=_CLOSE_ENOUGH)
        yield Finding(
            f"node `{node.id}` appears only in edges and is declared nowhere",
            node.position,
            hint=f"did you mean `{close[0][0]}`?" if close else f'declare it: `{node.id} [label="...", prompt="..."]`',
        )


def attribute_twice(view: View) -> Iterator[Finding]:
    """Of an attribute that one list gives twice, the last value counts: hardly ever what was meant."""
    for first, second in view.syntax.repeated:
        named = f"`{second.name}` is given twice" if first.name == second.name else f"`{first.name}` and `{second.name}` are one attribute"
        yield Finding(f"{named}; only the last value counts, `{second.value}`", second.name_position, hint="remove one of them")


def start_no_incoming(view: View) -> Iterator[Finding]:
    """Nothing leads back into the start node."""
    for node in view.of_type("start"):
        for edge in view.incoming(node.id):
            yield Finding(
                f"edge `{edge.source} -> {edge.target}` leads into the start node",
                edge.position,
                hint="lead it to the first node after the start instead",
            )


def exit_no_outgoing(view: View) -> Iterator[Finding]:
    """Nothing leads out of the exit node."""
    for node in view.of_type("exit"):
        for edge in view.outgoing(node.id):
            yield Finding(
                f"edge `{edge.source} -> {edge.target}` leaves the exit node and is never taken",
                edge.position,
                hint="the run ends at the exit; remove the edge",
            )


def dead_end(view: View) -> Iterator[Finding]:
    """Every node but the exit leads on; a run that comes to a dead end fails."""
    for node in view.syntax.nodes.values():
        if view.types.get(node.id) == "exit" or view.outgoing(node.id):
            continue
        if view.types.get(node.id) == "human":
            continue  # human_without_choices says it better
        yield Finding(
            f"node `{node.id}` has no outgoing edge: a run that comes here fails",
            node.position,
            hint=f"lead it on, for example `{node.id} -> {view.exit or 'exit'}`",
        )


def loop_without_exit(view: View) -> Iterator[Finding]:
    """From every loop a walk can come to the exit."""
    if view.exit is None:
        return
    escaping = view.reaching(view.exit)
    reported: set[str] = set()
    for node in view.syntax.nodes.values():
        if node.id in escaping or node.id in reported or not view.outgoing(node.id):
            continue
        around = view.reached_from([edge.target for edge in view.outgoing(node.id)])
        if node.id not in around:
            continue
        back = view.reaching(node.id)
        loop = [other for other in view.syntax.nodes if other in around and other in back]
        reported.update(loop)
        names = " -> ".join(f"`{name}`" for name in loop[:6]) + (" ..." if len(loop) > 6 else "")
        yield Finding(
            f"the loop {names} has no way to the exit" if len(loop) > 1 else f"node `{node.id}` leads only to itself",
            node.position,
            hint=f'add an edge that leaves the loop, for example with `condition="outcome=success"` to `{view.exit}`',
        )


def duplicate_edge(view: View) -> Iterator[Finding]:
    """Two edges between the same nodes differ in condition or label; otherwise the second is never taken."""
    seen: dict[tuple[str, str, str, str], int] = {}
    for edge in view.syntax.edges:
        key = (edge.source, edge.target, text(edge.attributes, "condition"), text(edge.attributes, "label"))
        if key in seen:
            yield Finding(
                f"edge `{edge.source} -> {edge.target}` is given twice (first in line {seen[key]})",
                edge.position,
                hint="remove one, or give them different conditions or labels",
            )
        else:
            seen[key] = edge.position.line


def reserved_keyword_node_id(view: View) -> Iterator[Finding]:
    """Node ids are not words of the DOT language (which other tools read without regard to case)."""
    for node in view.syntax.nodes.values():
        if node.id.lower() in DOT_KEYWORDS:
            yield Finding(
                f"node id `{node.id}` is a keyword of DOT: other tools cannot read this file",
                node.position,
                hint=f"rename it, for example `{node.id}_step`",
            )


def direction_valid(view: View) -> Iterator[Finding]:
    """`rankdir` is one of the four directions."""
    attribute = view.syntax.attributes.get("rankdir")
    if attribute is not None and str(attribute.value) not in DIRECTIONS:
        upper = str(attribute.value).upper()
        yield Finding(
            f"`rankdir` is `{attribute.value}`, which is no direction",
            attribute.value_position,
            hint=f"did you mean `{upper}`?" if upper in DIRECTIONS else "",
            expected=DIRECTIONS,
        )


def close_node(view: View, word: str) -> str:
    """A hint that names the node ids that look like `word`."""
    close = process.extract(word, list(view.syntax.nodes), limit=3, score_cutoff=60.0)
    return f"did you mean {' or '.join(f'`{match[0]}`' for match in close)}?" if close else ""
