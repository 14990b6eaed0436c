"""Leases: one holder at a time, named for people, gone with the process however it dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from arc.base.errors import ExitStatus
from arc.base.locks import Lease, LeaseHeldError, process_start, this_process

HOLD = """
import sys, time
from pathlib import Path
from arc.base.locks import Lease
lease = Lease.acquire(Path(sys.argv[1]))
print('held', flush=True)
time.sleep(600)
"""


def held_by_a_process(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_taker_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with held_by_a_process(path) as process:
        with pytest.raises(LeaseHeldError) as refused:
            Lease.acquire(path, what="run 01J")
        owner = refused.value.owner
        assert owner is not None
        assert owner.pid == process.pid
        assert refused.value.message == f"run 01J is held by process {process.pid} on {owner.host} since {owner.since}"
        assert refused.value.status is ExitStatus.BUSY
        assert Lease.holder(path) == owner
        process.kill()


def test_the_lease_goes_with_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with held_by_a_process(path) as process:
        process.send_signal(signal.SIGKILL)
    assert Lease.holder(path) is None, "the name is still there, the process is not"
    with Lease.acquire(path) as lease:
        assert Lease.holder(path) == lease.owner
        assert lease.owner.pid == os.getpid()
    assert Lease.holder(path) is None


def test_a_later_process_with_the_same_pid_is_not_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    owner = this_process()
    record = {"pid": owner.pid, "start_time": "another-boot:1", "host": owner.host, "since": owner.since, "command": ""}
    path.write_text(json.dumps(record))
    assert Lease.holder(path) is None
    path.write_text(json.dumps({**record, "start_time": owner.start_time}))
    assert Lease.holder(path) is not None


def test_for_a_name_of_another_machine_the_lock_itself_decides(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    lease = Lease.acquire(path)
    foreign = {"pid": 1, "start_time": "x", "host": "elsewhere", "since": "then", "command": ""}
    path.write_text(json.dumps(foreign))
    holder = Lease.holder(path)
    assert holder is not None
    assert holder.host == "elsewhere"
    lease.release()
    path.write_text(json.dumps(foreign))
    assert Lease.holder(path) is None


def test_release_is_idempotent_and_a_torn_name_is_nobody(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    lease = Lease.acquire(path)
    lease.release()
    lease.release()
    path.write_text('{"pid": 12')
    assert Lease.holder(path) is None
    assert Lease.holder(tmp_path / "missing") is None


def test_process_start_tells_the_living_from_the_dead() -> None:
    assert process_start(os.getpid()) == process_start(os.getpid())
    process = subprocess.Popen(["true"])
    process.wait()
    assert process_start(process.pid) is None


def test_two_processes_have_different_starts() -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        assert process_start(process.pid) not in (None, process_start(os.getpid())), "a process id alone is used again"
    finally:
        process.communicate()
