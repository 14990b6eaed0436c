"""Fixtures of the handlers' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.handlers.support import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Handlers are called in `tmp_path/work`, logs are in `tmp_path/logs`."""
    for name in ("work", "logs"):
        (tmp_path / name).mkdir()
    return Bench(tmp_path / "work", tmp_path / "logs")
