"""Run folders: created exclusively, found by prefix, each readable or not on its own; what a run's status is shown as."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from arc.base.errors import CorruptError
from arc.base.locks import Lease
from arc.runs.errors import AmbiguousRunError, LogsDirError, NewerSchemaError, RunNotFoundError
from arc.runs.store import RunFolder, create_run_folder, find_run, iterate_runs, shown_status
from tests.runs.helpers import record, world_in

ONE, TWO = "01JKXYZ7C8T9V2W4X6Y8Z0A1B3", "01JKXYZ7C8T9V2W4X6Y8Z0A1C4"


def test_a_folder_is_private_and_made_once(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    folder = create_run_folder(world, ONE)
    assert folder.path == world.runs / ONE
    assert stat.S_IMODE(folder.path.stat().st_mode) == stat.S_IMODE(world.home.stat().st_mode) == 0o700
    folder.write_record(record(ONE))
    assert stat.S_IMODE(folder.run_file.stat().st_mode) == 0o600
    with pytest.raises(LogsDirError, match="exists already"):
        create_run_folder(world, ONE)


def test_a_logs_dir_is_registered_and_must_be_empty(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    logs = tmp_path / "logs"
    logs.mkdir()
    folder = create_run_folder(world, ONE, logs)
    folder.write_record(record(ONE))
    assert find_run(world, ONE[:12]).path == logs
    with pytest.raises(LogsDirError, match=f"`{logs}` is not empty"):
        create_run_folder(world, TWO, logs)
    assert not (world.runs / TWO).exists(), "a refused start leaves nothing behind"


def test_of_two_starts_with_one_logs_dir_one_wins(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    outcomes: list[str] = []

    def create(run_id: str) -> None:
        try:
            create_run_folder(world, run_id, tmp_path / "logs")
            outcomes.append("made")
        except LogsDirError:
            outcomes.append("refused")

    threads = [threading.Thread(target=create, args=(f"{ONE[:-2]}{number:02d}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made"] + ["refused"] * 7


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "arc-home").write_text("a file is in the way")
    with pytest.raises(LogsDirError, match="cannot be created") as caught:
        create_run_folder(world_in(tmp_path), ONE)
    assert "ARC_HOME" in caught.value.hints[0]


def test_prefixes(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    for run_id in (ONE, TWO):
        create_run_folder(world, run_id).write_record(record(run_id))
    assert find_run(world, ONE.lower()).run_id == ONE
    assert find_run(world, f"arc/run/{TWO}").run_id == TWO
    with pytest.raises(AmbiguousRunError) as ambiguous:
        find_run(world, ONE[:8])
    assert set(ambiguous.value.details) == {ONE, TWO}
    with pytest.raises(RunNotFoundError) as missing:
        find_run(world, ONE.replace("KX", "XK"))
    assert ONE in missing.value.hints[0]


def test_one_damaged_run_spoils_no_other(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    create_run_folder(world, ONE).run_file.write_text('{"schema": 1, "run')
    create_run_folder(world, TWO).write_record(record(TWO))
    damaged, sound = sorted(iterate_runs(world), key=lambda folder: folder.run_id)
    assert sound.read_record().run_id == TWO
    with pytest.raises(CorruptError, match=r"run\.json"):
        damaged.read_record()


def test_a_newer_schema_is_refused_by_number(tmp_path: Path) -> None:
    folder = create_run_folder(world_in(tmp_path), ONE)
    folder.write_record(record(ONE))
    document = json.loads(folder.run_file.read_text())
    folder.run_file.write_text(json.dumps({**document, "schema": 2, "mode": "of later", "config": []}))
    with pytest.raises(NewerSchemaError, match="schema 2"):
        folder.read_record()
    folder.run_file.write_text(json.dumps({**document, "added_later": True}))
    assert folder.read_record().run_id == ONE, "unknown fields are ignored"


def test_shown_status(tmp_path: Path) -> None:
    folder = create_run_folder(world_in(tmp_path), ONE)
    folder.write_record(record(ONE))
    assert shown_status(folder) == "interrupted", "nobody holds it, whatever run.json says"
    with Lease.acquire(folder.lease_file):
        assert shown_status(folder) == "running"
        folder.questions.mkdir()
        (folder.questions / "3.json").touch()
        assert folder.open_questions() == ("3",)
        assert shown_status(folder) == "waiting"
        (folder.questions / "3.answer.json").touch()
        assert shown_status(folder) == "running"
    for status in ("success", "fail", "canceled"):
        folder.write_record(record(ONE, status=status))
        assert shown_status(folder) == status
    folder.write_record(record(ONE, superseded_by=TWO))
    assert shown_status(folder) == "superseded"
    folder.write_record(record(ONE, status="created"))
    assert shown_status(folder) == "interrupted"


def test_sources_keep_their_names_as_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    sources = {"../shared/prompt.md": "up", "prompt.md": "here", "sub/child.dot": "digraph {}"}
    folder.write_sources(sources)
    assert folder.read_sources() == sources
    (folder.sources / "001-prompt.md").unlink()
    with pytest.raises(CorruptError, match=r"shared/prompt\.md"):
        folder.read_sources()


def test_ordinals_that_were_handed_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.highest_ordinal() == 0
    folder.node_folder(7, "fan:left/work").mkdir(parents=True)
    folder.node_folder(12345, "x").mkdir()
    assert (folder.nodes / "0007-fan-left.work").is_dir()
    assert folder.highest_ordinal() == 12345
