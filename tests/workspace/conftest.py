"""Fixtures of the workspace tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workspace.made import Run, make_repository, start


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run on a small repository."""
    return start(make_repository(tmp_path / "repo"), tmp_path / "logs")
