"""Where the branches of a block come together: nearest fan-in of the same depth, else the common post-dominator."""

from __future__ import annotations

import pytest

from arc.workflow.engine.graph import Graph
from arc.workflow.engine.joins import join_of

from .support import workflow

P, Q = "p [shape=component]", "q [shape=component]"
F, G = "f [shape=tripleoctagon]", "g [shape=tripleoctagon]"


@pytest.mark.parametrize(
    ("text", "joins"),
    [
        (f"{P}; {F}; a; b; start -> p; p -> a -> f; p -> b -> f; f -> exit", {"p": "f"}),
        (f"{P}; {F}; a; a2; a3; b; start -> p; p -> a -> a2 -> a3 -> f; p -> b -> f; f -> exit", {"p": "f"}),
        # a plain node on the way of all branches belongs to each branch when there is a fan-in behind it
        (f"{P}; {F}; a; b; m; start -> p; p -> a -> m; p -> b -> m; m -> f -> exit", {"p": "f"}),
        # nested, each with its own fan-in
        (
            f"{P}; {Q}; {F}; {G}; a; b; c; start -> p; p -> q; q -> a -> g; q -> b -> g; g -> f; p -> c -> f; f -> exit",
            {"p": "f", "q": "g"},
        ),
        # both branches hold inner blocks
        (
            "p [shape=component]; q [shape=component]; r [shape=component]; f [shape=tripleoctagon]; g [shape=tripleoctagon]; "
            "h [shape=tripleoctagon]; a; b; c; d; start -> p; p -> q; p -> r; q -> a -> g; q -> b -> g; r -> c -> h; r -> d -> h; "
            "g -> f; h -> f; f -> exit",
            {"p": "f", "q": "g", "r": "h"},
        ),
        # the inner block has no fan-in of its own: both name the outer one
        (f"{P}; {Q}; {F}; a; b; c; start -> p; p -> q; q -> a -> f; q -> b -> f; p -> c -> f; f -> exit", {"p": "f", "q": "f"}),
        # a way out to the exit does not hide the fan-in
        (f'{P}; {F}; a; b; start -> p; p -> a -> f; a -> exit [condition="outcome=fail"]; p -> b -> f; f -> exit', {"p": "f"}),
        # without a fan-in: the nearest node that all ways pass
        (f"{P}; a; b; m; n; start -> p; p -> a -> m; p -> b -> m; m -> n -> exit", {"p": "m"}),
        (f"{P}; a; b; start -> p; p -> a -> exit; p -> b -> exit", {"p": "exit"}),
        (f"{P}; a; b; start -> p; p -> a -> exit; p -> b", {"p": "a"}),
        # two blocks in a row, only the second has a fan-in
        (
            f"{P}; {Q}; {F}; a; b; m; c; d; start -> p; p -> a -> m; p -> b -> m; m -> q; q -> c -> f; q -> d -> f; f -> exit",
            {"p": "m", "q": "f"},
        ),
        # a loop inside a branch
        (
            f'{P}; {F}; a; fix; b; start -> p; p -> a -> f; a -> fix [condition="outcome=fail"]; fix -> a; p -> b -> f; f -> exit',
            {"p": "f"},
        ),
        # nowhere
        (f"{P}; a; b; start -> p; p -> a; p -> b; start -> exit", {"p": None}),
    ],
)
def test_the_join_of_a_block(text: str, joins: dict[str, str | None]) -> None:
    graph = Graph(workflow(text))
    assert {name: join_of(graph, name) for name in joins} == joins


def test_a_block_that_loops_back_through_itself_ends_the_search() -> None:
    graph = Graph(workflow(f'{P}; {F}; a; b; start -> p; p -> a -> f; p -> b -> p; f -> p [condition="outcome=fail"]; f -> exit'))
    assert join_of(graph, "p") == "f"
