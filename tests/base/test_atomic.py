"""Atomic files: whole or absent, private, durable in the right order; logs survive torn tails."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from arc.base.atomic import (
    TEMPORARY_SUFFIX,
    AppendLog,
    create_exclusive_directory,
    make_private_directory,
    read_lines,
    remove_leftovers,
    write_atomic,
)


def test_a_file_is_replaced_whole_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_failed_write_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    """A file size limit stands for a full disk."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from arc.base.atomic import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_atomic(Path(sys.argv[1]), b'x' * 5000)\n"
        "except OSError as error: print(error.errno)\n"
    )
    path = tmp_path / "state.json"
    write_atomic(path, b"old")
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(errno.EFBIG)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.json"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


def test_readers_never_see_a_mixture(tmp_path: Path) -> None:
    path = tmp_path / "state"
    contents = (b"a" * 50_000, b"b" * 70_000)
    write_atomic(path, contents[0], durable=False)
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        write_atomic(path, contents[number % 2], durable=False)
    stop.set()
    reader.join()
    assert seen <= set(contents)


def test_private_directories_and_their_parents(tmp_path: Path) -> None:
    made = make_private_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    assert make_private_directory(made) == made
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_private_directory(tmp_path / "file")


def test_of_many_that_create_a_directory_exactly_one_succeeds(tmp_path: Path) -> None:
    won: list[int] = []

    def create(number: int) -> None:
        try:
            create_exclusive_directory(tmp_path / "runs" / "id")
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_leftovers_of_a_killed_writer_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / f".run.json.abc{TEMPORARY_SUFFIX}").touch()
    (tmp_path / "run.json").touch()
    assert remove_leftovers(tmp_path) == (f".run.json.abc{TEMPORARY_SUFFIX}",)
    assert os.listdir(tmp_path) == ["run.json"]
    assert remove_leftovers(tmp_path / "missing") == ()


def test_a_torn_tail_is_reported_and_the_next_record_starts_on_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with AppendLog(path) as log:
        log.append(b'{"n": 1}')
        assert not log.torn
    with path.open("ab") as file:
        file.write(b'{"n": 2, "tor')
    assert read_lines(path) == ([b'{"n": 1}'], True)
    with AppendLog(path) as log:
        assert log.torn
        log.append(b'{"n": 3}\n')
    assert read_lines(path) == ([b'{"n": 1}', b'{"n": 2, "tor', b'{"n": 3}'], False)
    assert read_lines(tmp_path / "missing") == ([], False)
