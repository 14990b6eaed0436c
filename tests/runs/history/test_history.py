"""Lists, details, diffs and followed logs of runs: what the commands show, as values."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from arc.base.errors import ExitStatus
from arc.base.locks import Lease
from arc.runs.errors import AmbiguousRunError, RunNotFoundError
from arc.runs.fork import ForkRequest, fork_run
from arc.runs.history.details import count_changed, describe_checkpoint, next_command, read_timeline, render_diff, side_refs
from arc.runs.history.listing import list_runs, short_ids
from arc.runs.history.lookup import NoGitError, find_known
from arc.runs.history.states import state_at
from arc.runs.history.tail import Tail, decode_line, follow
from arc.runs.history.targets import find_text
from arc.runs.store import create_run_folder
from arc.workspace.git.refs import RefUpdate, transact
from tests.conftest import MakeRepo
from tests.runs.made import MadeRun, make_world


@pytest.fixture
def made(repo: MakeRepo, tmp_path: Path) -> MadeRun:
    return MadeRun(make_world(tmp_path / "home"), repo()).sample()


def test_runs_are_listed_newest_first_with_the_shortest_unique_beginning(made: MadeRun) -> None:
    made.finish()
    second = MadeRun(made.world, made.repo)
    rows = list_runs(made.world, made.repo.path)
    assert [(row.run_id, row.status, row.nodes_done, row.workflow) for row in rows] == [
        (second.run_id, "interrupted", 0, "made"),
        (made.run_id, "success", 5, "made"),
    ]
    assert [row.short_id for row in rows] == [second.run_id, made.run_id]  # the ids differ in their last character only
    assert rows[1].repository == str(made.repo.path)


def test_short_ids_have_eight_characters_where_that_is_enough() -> None:
    assert short_ids(["01AAAAAAAA1", "01BBBBBBBB1", "01BBBBBBBC1"]) == {
        "01AAAAAAAA1": "01AAAAAA",
        "01BBBBBBBB1": "01BBBBBBBB",
        "01BBBBBBBC1": "01BBBBBBBC",
    }


def test_a_corrupt_run_is_a_row_that_says_so(made: MadeRun) -> None:
    broken = create_run_folder(made.world, made.world.ids.run_id())
    broken.run_file.write_bytes(b'{"schema": 1, "run_id"')
    rows = list_runs(made.world, made.repo.path)
    assert [(row.run_id, row.status) for row in rows] == [(broken.run_id, "corrupt"), (made.run_id, "interrupted")]
    assert "run.json" in (rows[0].problem or "")


def test_a_run_held_by_a_live_process_is_running_and_its_time_goes_on(made: MadeRun) -> None:
    with Lease.acquire(made.folder.lease_file):
        (row,) = list_runs(made.world, made.repo.path)
    assert row.status == "running"
    assert row.duration_ms is not None
    assert row.duration_ms > 2000


def test_statuses_place_and_superseded_narrow_the_list(made: MadeRun, tmp_path: Path) -> None:
    assert list_runs(made.world, made.repo.path, statuses=("success",)) == ()
    assert len(list_runs(made.world, made.repo.path / ".git" / "..", here=True)) == 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert list_runs(made.world, elsewhere, here=True) == ()
    assert len(list_runs(made.world, elsewhere)) == 1
    made.folder.write_record(replace(made.folder.read_record(), superseded_by="01OTHER"))
    assert list_runs(made.world, elsewhere) == ()
    assert [row.status for row in list_runs(made.world, elsewhere, superseded=True)] == ["superseded"]


def test_a_run_is_found_by_beginning_end_or_branch_in_any_case(made: MadeRun) -> None:
    for text in (made.run_id, made.run_id[:12].lower(), f"arc/run/{made.run_id}", f"refs/arc/{made.run_id}", made.run_id[-4:]):
        assert find_known(made.world, text, made.repo.path).run_id == made.run_id


def test_an_unknown_or_ambiguous_run_says_what_there_is(made: MadeRun) -> None:
    other = MadeRun(made.world, made.repo)
    with pytest.raises(AmbiguousRunError) as caught:
        find_known(made.world, "01TEST", made.repo.path)
    assert caught.value.details == (made.run_id, other.run_id)
    with pytest.raises(RunNotFoundError, match="nor by its refs") as missing:
        find_known(made.world, made.run_id[:-2] + "ZZ", made.repo.path)
    assert missing.value.status == ExitStatus.NOT_FOUND
    assert made.run_id in missing.value.hints[0]


def test_the_details_of_a_checkpoint_are_its_state_files_and_commit(made: MadeRun) -> None:
    timeline = read_timeline(made.known)
    details = describe_checkpoint(made.known, timeline, find_text(timeline, "build@1"))
    assert [(change.path, change.kind) for change in details.changes] == [(b"a.txt", "modified"), (b"src/b.txt", "added")]
    assert details.state.context_values == {"last": "build"}
    assert details.state.node_outcomes["build"].status == "fail"
    assert details.state.git_commit_sha == details.entry.commit
    assert [count_changed(made.repository, entry) for entry in timeline.entries] == [0, 1, 2, 1, 0]


def test_the_start_has_an_empty_state_and_the_base_as_commit(made: MadeRun) -> None:
    timeline = read_timeline(made.known)
    state = state_at(made.known, timeline, timeline.start)
    assert (state.completed_nodes, state.git_commit_sha, state.next_ordinal) == ((), made.base, 1)


def test_a_diff_is_gits_whatever_the_person_configured(made: MadeRun) -> None:
    made.repo.git("config", "diff.external", "false")
    made.repo.git("config", "diff.noprefix", "true")
    timeline = read_timeline(made.known)
    known = made.known
    patch = render_diff(known, find_text(timeline, "@2"), find_text(timeline, "@last")).decode()
    assert "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n" in patch
    names = render_diff(known, timeline.start, timeline.last, form="name-only").decode()
    assert names == "a.txt\nsrc/b.txt\n"
    only = render_diff(known, timeline.start, timeline.last, form="name-only", paths=("src",)).decode()
    assert only == "src/b.txt\n"
    assert "\x1b[" in render_diff(known, timeline.start, timeline.last, color=True).decode()
    assert "2 files changed" in render_diff(known, timeline.start, timeline.last, form="stat").decode()


def test_without_git_a_diff_is_refused_with_the_reason(repo: MakeRepo, tmp_path: Path) -> None:
    made = MadeRun(make_world(tmp_path / "home"), repo(), git=False).sample()
    timeline = read_timeline(made.known)
    with pytest.raises(NoGitError, match="it ran in place"):
        render_diff(made.known, timeline.start, timeline.last)


def test_refs_besides_the_two_are_named(made: MadeRun) -> None:
    assert side_refs(made.known) == ()
    names = (f"refs/arc-aside/{made.run_id}/3-build", f"refs/heads/arc/branch/{made.run_id}/2-fan/left")
    transact(made.repository, [RefUpdate(name, made.base, None) for name in names])
    assert side_refs(made.known) == names


def test_the_time_of_a_fork_that_nobody_started_stands_still(made: MadeRun) -> None:
    forked = fork_run(made.known, ForkRequest("@2"), made.world)
    rows = {row.run_id: row for row in list_runs(made.world, made.repo.path)}
    assert (rows[forked.run_id].status, rows[forked.run_id].duration_ms) == ("created", 2000)


def test_how_to_go_on_depends_on_the_status(made: MadeRun) -> None:
    assert next_command(made.known) == f"arc run resume {made.run_id}"
    made.finish()
    assert next_command(made.known) == f"git merge arc/run/{made.run_id}"


def test_a_tail_gives_whole_lines_and_starts_over_when_the_file_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(path)
    assert tail.lines() == []
    path.write_bytes(b'{"a":1}\n{"b"')
    assert tail.lines() == [b'{"a":1}']
    assert tail.unfinished == b'{"b"'
    with path.open("ab") as log:
        log.write(b":2}\n")
    assert tail.lines() == [b'{"b":2}']
    fresh = tmp_path / "fresh"
    fresh.write_bytes(b"new and longer than before, and whole\n")
    fresh.replace(path)
    assert tail.lines() == [b"new and longer than before, and whole"]
    path.write_bytes(b"short\n")
    assert tail.lines() == [b"short"]


def test_a_torn_line_is_an_event_of_its_own() -> None:
    record = decode_line(b'{"ts":"20')
    assert (record.event, record.properties) == ("log.torn", {"bytes": 9, "begins": '{"ts":"20'})


def test_following_ends_when_the_run_is_finished_or_its_process_is_gone(made: MadeRun) -> None:
    script = (
        "import sys, time; from pathlib import Path; from arc.base.locks import Lease\n"
        "lease = Lease.acquire(Path(sys.argv[1])); print(flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(made.folder.lease_file)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    looks = 0

    def wait() -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            with made.folder.events_file.open("ab") as log:
                log.write(b'{"late": 1}\n')
        elif looks == 2:
            process.kill()
            process.wait()

    seen = list(follow(made.known, Tail(made.folder.events_file), wait=wait))
    process.stdout.close()
    assert seen[-1] == "interrupted"
    assert seen[-2] == [b'{"late": 1}']
    assert looks == 2
    made.finish()
    assert list(follow(made.known, Tail(made.folder.events_file), wait=wait))[-1] == "finished"
