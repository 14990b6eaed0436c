"""How long a workflow of 1,000 lines takes to parse and to resolve: medians of 20, and the first parse of a process (grammar compiled).

python bench/language.py [LINES]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from arc.workflow.language.parser import parse_dot
from arc.workflow.language.resolve import ResolveInputs, resolve
from arc.workflow.language.sources import StoredSources


def large_workflow(lines: int) -> str:
    """A workflow of about that many lines: subgraphs, multi-line strings, unknown attributes, conditions, comments."""
    text = [
        "digraph large {",
        '  graph [goal="Measure", model_stylesheet="* { llm_model: m; }"]',
        "  start [shape=Mdiamond]",
        "  exit [shape=Msquare]",
    ]
    previous, block = "start", 0
    while len(text) < lines - 3:
        node = f"n{block}"
        text += [
            f"  subgraph cluster_{block} {{",
            f'    label = "Phase {block}"  // a phase',
            "    node [timeout=15m, retry_policy=standard; colour=blue]",
            f"    {node} [",
            '      prompt="First line of the prompt for $goal,',
            '      a second line with \\"quotes\\",',
            '      a third one"',
            f"      owner=team-{block} priority={block}, llm_model=vendor/model-3.5",
            "    ]",
            f'    check_{node} [shape=parallelogram, script="make test", goal_gate=true, retry_target={node}]',
            "  }",
            f"  {previous} -> {node} -> check_{node} [weight=2]",
            f'  check_{node} -> {node} [condition="outcome=fail && context.tries < 3", label="[R] again"]',
        ]
        previous, block = f"check_{node}", block + 1
    return "\n".join([*text, f"  {previous} -> exit", "}", ""])


def median_ms(action: Callable[[], object], times: int = 20) -> float:
    """The median duration of an action in milliseconds."""
    samples = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        samples.append((time.perf_counter() - begin) * 1000)
    return statistics.median(samples)


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    source = large_workflow(lines)
    begin = time.perf_counter()
    syntax = parse_dot(source, "large.dot")
    first = (time.perf_counter() - begin) * 1000
    sources, inputs = StoredSources({}), ResolveInputs()
    workflow, _ = resolve(syntax, sources, inputs)
    assert workflow is not None
    print(f"{source.count(chr(10))} lines, {len(syntax.nodes)} nodes, {len(syntax.edges)} edges")
    print(f"first parse of the process  {first:7.1f} ms  (lark imported, grammar compiled)")
    print(f"parse                       {median_ms(lambda: parse_dot(source, 'large.dot')):7.1f} ms")
    print(f"resolve                     {median_ms(lambda: resolve(syntax, sources, inputs)):7.1f} ms")


if __name__ == "__main__":
    main()
