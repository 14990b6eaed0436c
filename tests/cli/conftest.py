"""Fixtures of the command line's tests."""

from __future__ import annotations

import pytest

from arc.cli import ui


class Screen:
    """What has been written to stderr so far."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self._text = ""

    @property
    def text(self) -> str:
        self._text += self._capture.readouterr().err
        return self._text

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@pytest.fixture
def screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Screen:
    """stderr, with fresh common options and no colours."""
    monkeypatch.setattr(ui, "state", ui.Options(color="never"))
    return Screen(capsys)
