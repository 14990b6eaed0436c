"""Where arc's files go, and names that are safe as one path component."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc.base.paths import NoHomeError, arc_home, safe_name, tilde


def test_home() -> None:
    assert arc_home({"HOME": "/home/ada"}) == Path("/home/ada/.arc")
    assert arc_home({"HOME": "/home/ada", "ARC_HOME": "/data/arc"}) == Path("/data/arc")
    with pytest.raises(NoHomeError):
        arc_home({})


def test_tilde() -> None:
    assert tilde("/home/ada/.arc/runs", {"HOME": "/home/ada"}) == "~/.arc/runs"
    assert tilde("/home/adam", {"HOME": "/home/ada"}) == "/home/adam"


@pytest.mark.parametrize(("text", "name"), [("plan", "plan"), ("fan:left/work", "fan-left.work"), ("../x", "x"), ("", "x"), ("é/ü", "x")])
def test_safe_names(text: str, name: str) -> None:
    assert safe_name(text) == name


@given(st.text())
def test_a_safe_name_is_one_component(text: str) -> None:
    name = safe_name(text)
    assert Path(name).name == name
    assert name not in ("", ".", "..")
    assert "/" not in name
    assert "\0" not in name
