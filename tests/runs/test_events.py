"""events.jsonl: one redacted line per event, numbered over all processes, readable around torn lines, silent on a full disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from arc.base.atomic import AppendLog
from arc.base.clock import SystemClock
from arc.base.redact import Redactor
from arc.runs.events import TORN, EventLog, notice, read_events
from arc.workflow.engine.doors import Event
from tests.runs.helpers import Told


def log(path: Path, told: Told | None = None) -> EventLog:
    return EventLog(path, run_id="01J", clock=SystemClock(), redactor=Redactor({"API_KEY": "hunter2hunter2"}), observer=told)


def test_lines_are_numbered_redacted_and_shown_to_the_observer(tmp_path: Path) -> None:
    told = Told()
    first = log(tmp_path / "e", told)
    first.emit(Event("node.started", "plan", 1, {"said": "the key is hunter2hunter2"}))
    first.close()
    second = log(tmp_path / "e", told)
    second.emit(Event("node.completed", "plan", 1))
    second.close()
    records = list(read_events(tmp_path / "e"))
    assert [(r.sequence, r.event, r.node, r.ordinal) for r in records] == [(1, "node.started", "plan", 1), (2, "node.completed", "plan", 1)]
    assert records[0].properties == {"said": "the key is «redacted:API_KEY»"}
    assert records[0].ts.endswith("Z")
    assert told.names() == ["node.started", "node.completed"]
    assert told.lines[0]["properties"] == records[0].properties


def test_a_torn_line_is_kept_told_and_read_around(tmp_path: Path) -> None:
    path = tmp_path / "e"
    first = log(path)
    first.emit(Event("a"))
    first.close()
    with path.open("ab") as file:
        file.write(b'{"ts": "2026')
    assert [record.event for record in read_events(path)] == ["a", TORN]
    second = log(path)
    second.emit(Event("b"))
    second.close()
    records = list(read_events(path))
    assert [record.event for record in records] == ["a", TORN, "run.notice", "b"]
    assert records[1].properties == {"line": 2, "bytes": 12}
    assert records[2].properties["code"] == "events.torn"
    assert [record.sequence for record in records if record.event != TORN] == [1, 2, 3]


def test_what_could_not_be_written_is_told_later_and_never_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = log(tmp_path / "e")
    full = True
    real = AppendLog.append

    def append(self: AppendLog, record: bytes) -> None:
        if full:
            raise OSError(28, os.strerror(28))
        real(self, record)

    monkeypatch.setattr(AppendLog, "append", append)
    events.emit(Event("lost"))
    events.emit(Event("lost too"))
    full = False
    events.emit(Event("kept"))
    events.close()
    records = list(read_events(tmp_path / "e"))
    assert [record.event for record in records][-1] == "kept"
    assert records[0].properties["code"] == "events.lost"


def test_notices_come_from_any_thread(tmp_path: Path) -> None:
    events = log(tmp_path / "e")

    def tell() -> None:
        for _ in range(50):
            events.emit(notice("info", "x", "y", node="n"))

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events.close()
    assert [record.sequence for record in read_events(tmp_path / "e")] == list(range(1, 201))
