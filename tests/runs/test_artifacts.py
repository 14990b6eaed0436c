"""Large context values live beside the checkpoint, once per content, and come back as they were."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc.base.json import JsonValue
from arc.runs.artifacts import LIMIT, ArtifactStore, load, map_values, references
from arc.runs.errors import ArtifactMissingError
from arc.workflow.outcome import Outcome
from arc.workflow.state import BranchState, FrameState, OpenBlock

BIG = "x" * LIMIT


def test_only_what_is_large_moves_and_equal_values_share_a_file(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    exactly = "y" * (LIMIT - 2)
    assert store.keep(exactly) == exactly, "its JSON has LIMIT bytes"
    one, two = store.keep(BIG), store.keep(BIG)
    assert one == two
    assert isinstance(one, dict)
    digest = hashlib.sha256(json.dumps(BIG).encode()).hexdigest()
    assert one == {"$artifact": f"artifacts/{digest}.json", "bytes": LIMIT + 2}
    assert os.listdir(tmp_path / "artifacts") == [f"{digest}.json"]


def test_values_in_every_frame_are_found_and_loaded(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    branch = FrameState(prefix="fan:l/", context_values={"deep": BIG + "branch"})
    child = FrameState(prefix="child/", node_outcomes={"c": Outcome("success", context_updates={"out": BIG + "child"})})
    frame = FrameState(
        context_values={"big": BIG, "small": [1, {"a": None}]},
        node_outcomes={"n": Outcome("success", context_updates={"big": BIG})},
        open_block=OpenBlock("parallel", "fan", 4, (BranchState("l", "l1", "running", branch),), child),
    )
    stored = map_values(frame, store.keep)
    assert len(references(stored)) == 3
    assert load(stored, store.read) == frame


def test_a_value_that_looks_like_a_reference_is_none(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    trick: JsonValue = {"$artifact": "artifacts/none.json", "bytes": 3}
    frame = FrameState(context_values={"trick": trick})
    assert load(map_values(frame, store.keep), store.read) == frame


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_small_values_pass_unchanged(value: JsonValue) -> None:
    store = ArtifactStore(Path("/nonexistent"))
    if not (isinstance(value, dict) and "$artifact" in value):
        assert store.keep(value) == value


def test_missing_and_damaged_artifacts_are_named(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    stored = map_values(FrameState(context_values={"big": BIG}), store.keep)
    (name,) = references(stored)
    with pytest.raises(ArtifactMissingError, match=f"`{name}`.*missing"):
        load(stored, lambda _: None)
    with pytest.raises(ArtifactMissingError, match="damaged"):
        load(stored, lambda _: b'"other"')
    with pytest.raises(ArtifactMissingError, match="not the name"):
        load(FrameState(context_values={"x": {"$artifact": "../../etc/passwd"}}), store.read)
