"""The dry run's backend says that nothing was asked, and does nothing."""

from __future__ import annotations

from pathlib import Path

from arc.agent.dry_run import DryRunBackend
from tests.agent.support import ask


def test_its_reply_says_what_it_is(tmp_path: Path) -> None:
    reply = ask(DryRunBackend(), tmp_path)
    assert reply.text == "[dry run] `plan` was not asked: no model was called and no file was changed."
    assert reply.usage is None
    assert list(tmp_path.iterdir()) == []
