"""Cancel: real processes asked, killed, or left alone because they are not the run's."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from arc.base.json import encode
from arc.base.locks import Lease, Owner
from arc.runs.cancel import StillRunningError, cancel_run
from arc.runs.history.lookup import NoFolderError, known_by_refs
from tests.conftest import MakeRepo
from tests.runs.made import MadeRun, make_world

HOLDER = """
import signal, sys, time
from pathlib import Path
from arc.base.locks import Lease
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
lease = Lease.acquire(Path(sys.argv[1]))
print("held", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def made(repo: MakeRepo, tmp_path: Path) -> MadeRun:
    made = MadeRun(make_world(tmp_path / "home"), repo())
    made.node("start", next_node="plan")
    return made


def hold(made: MadeRun, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(made.folder.lease_file), *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> int:
    process.kill()
    status = process.wait()
    assert process.stdout is not None
    process.stdout.close()
    return status


def test_a_live_run_is_asked_to_stop(made: MadeRun) -> None:
    process = hold(made)
    assert made.known.status == "running"
    done = cancel_run(made.known, made.world)
    assert (done.result, done.status) == ("stopped", "canceled")
    assert done.owner is not None
    assert done.owner.pid == process.pid
    assert process.wait() == 0
    end(process)


def test_a_run_that_does_not_listen_is_named_and_killed_only_if_allowed(made: MadeRun) -> None:
    process = hold(made, "deaf")
    with pytest.raises(StillRunningError, match=f"process {process.pid} on") as caught:
        cancel_run(made.known, made.world, grace=0.2)
    assert caught.value.hints[0] == f"arc run cancel {made.run_id} --force"
    assert made.folder.read_record().status == "running"
    done = cancel_run(made.known, made.world, grace=0.2, force=True)
    assert (done.result, done.status) == ("killed", "canceled")
    assert end(process) == -9


def test_an_interrupted_run_is_marked(made: MadeRun) -> None:
    before = made.known
    assert before.status == "interrupted"
    assert cancel_run(before, made.world).result == "marked"
    assert made.known.status == "canceled"


def test_a_finished_run_is_left_as_it_is(made: MadeRun) -> None:
    made.finish("success")
    done = cancel_run(made.known, made.world)
    assert (done.result, done.status) == ("finished", "success")


def test_a_later_process_of_the_same_pid_is_never_signalled(made: MadeRun) -> None:
    process = hold(made)
    owner = Lease.holder(made.folder.lease_file)
    assert owner is not None
    end(process)
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    forged: Owner = replace(owner, pid=bystander.pid, start_time=owner.start_time)
    made.folder.lease_file.write_bytes(encode(forged))
    assert cancel_run(made.known, made.world).result == "marked"
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_run_on_another_machine_gets_a_request(made: MadeRun) -> None:
    import fcntl

    process = hold(made)
    owner = Lease.holder(made.folder.lease_file)
    assert owner is not None
    end(process)
    made.folder.lease_file.write_bytes(encode(replace(owner, host="elsewhere")))
    with made.folder.lease_file.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = cancel_run(made.known, made.world)
    assert done.result == "requested"
    assert b"canceled from" in made.folder.cancel_file.read_bytes()


def test_a_run_known_by_its_refs_only_is_refused(made: MadeRun) -> None:
    with pytest.raises(NoFolderError):
        cancel_run(known_by_refs(made.repository, made.run_id), made.world)
