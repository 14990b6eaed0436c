"""Files and folders that arc may not read or write (as an ordinary user: root may), and files that change while they are read."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from arc.workspace.git import hashing
from tests.workspace.made import Run, git, make_repository, start

NOBODY = 65534
HEAD = """
import asyncio, concurrent.futures.thread, encodings.idna, os, sys
from pathlib import Path
from arc.base.errors import ArcError
from arc.workspace.git.staging import Stager
from tests.workspace.made import *
if os.geteuid() == 0:  # after the imports: the interpreter may be root's alone
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.umask(0o022)
folder = Path(sys.argv[1])
def show(gaps):
    return [(gap.path, gap.reason) for gap in gaps]
"""


@pytest.fixture
def anyone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that an ordinary user can reach and owns."""
    folder = tmp_path_factory.mktemp("anyone")
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        for above in (folder.parent, folder.parent.parent, folder.parent.parent.parent):
            if above != Path("/tmp"):
                above.chmod(above.stat().st_mode | 0o011)
    return folder


def as_anyone(folder: Path, script: str) -> None:
    """Run a script as an ordinary user; its assertions count."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", HEAD + textwrap.dedent(script), str(folder)]
    result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


def test_an_unreadable_file_is_a_gap_and_stays_as_it_was_in_the_checkpoints(anyone: Path) -> None:
    as_anyone(
        anyone,
        """
        run = start(make_repository(folder / "repo"), folder / "logs")
        (run.files / "a.txt").write_text("changed, but closed")
        (run.files / "a.txt").chmod(0)
        (run.files / "new").write_text("new and closed")
        (run.files / "new").chmod(0)
        (run.files / "open").write_text("o")
        staged = run.workspace.stage()
        reason = "the file cannot be read (permission denied)"
        assert show(staged.gaps) == [(b"a.txt", reason), (b"new", reason)], staged.gaps
        run.checkpoint()
        assert run.tree() == {"a.txt": ("100644", b"a\\n"), "dir/b.txt": ("100644", b"b\\n"), "open": ("100644", b"o")}
        asyncio.run(run.workspace.close())
        assert run.files.exists() and "workspace.kept" in run.codes()
        (run.files / "a.txt").chmod(0o644)
        (run.files / "new").chmod(0o644)
        run.checkpoint()
        assert run.tree()["a.txt"] == ("100644", b"changed, but closed")
        assert run.tree()["new"] == ("100644", b"new and closed")
        """,
    )


@pytest.mark.parametrize("mode", ["0", "0o300", "0o600"])
def test_an_unreadable_folder_is_a_gap_and_its_files_are_not_deleted(anyone: Path, mode: str) -> None:
    as_anyone(
        anyone,
        f"""
        run = start(make_repository(folder / "repo"), folder / "logs")
        (run.files / "dir" / "more").write_text("m")
        (run.files / "dir").chmod({mode})
        staged = run.workspace.stage()
        assert (b"dir", "the folder cannot be read (permission denied)") in show(staged.gaps), staged.gaps
        run.checkpoint()
        assert run.tree()["dir/b.txt"] == ("100644", b"b\\n")
        asyncio.run(run.workspace.close())
        assert run.files.exists() and "workspace.kept" in run.codes()
        (run.files / "dir").chmod(0o755)
        run.checkpoint()
        assert run.tree()["dir/more"] == ("100644", b"m")
        """,
    )


def test_folders_that_a_node_closed_for_writing_are_put_back_and_removed(anyone: Path) -> None:
    as_anyone(
        anyone,
        """
        run = start(make_repository(folder / "repo", {"ro/x": b"x", "ro/deep/y": b"y", "z": b"z"}), folder / "logs")
        first = run.checkpoint()
        (run.files / "ro" / "x").write_text("changed")
        (run.files / "ro" / "deep" / "y").unlink()
        (run.files / "ro" / "new").write_text("n")
        for name in ("ro/deep", "ro"):
            (run.files / name).chmod(0o555)
        assert run.workspace.set_aside("aside", "test")
        run.workspace.reset()
        assert (run.files / "ro" / "x").read_text() == "x"
        assert (run.files / "ro" / "deep" / "y").read_text() == "y"
        assert not (run.files / "ro" / "new").exists()
        (run.files / "cache" / "inner").mkdir(parents=True)
        (run.files / "cache" / "inner" / "f").write_text("f")
        (run.files / "cache" / "inner").chmod(0o555)
        (run.files / "cache").chmod(0o555)
        run.checkpoint()
        asyncio.run(run.workspace.close())
        assert not run.files.exists(), run.notices
        """,
    )


def test_a_repository_that_cannot_be_written_is_said_to_be_so(anyone: Path) -> None:
    as_anyone(
        anyone,
        """
        run = start(make_repository(folder / "repo"), folder / "logs")
        run.checkpoint()
        tip = run.workspace.tip
        heads = run.repo / ".git" / "refs" / "heads" / "arc" / "run"
        heads.chmod(0o555)
        (run.files / "new").write_text("n")
        try:
            run.checkpoint()
        except ArcError as error:
            assert error.code == "git.refs_not_written", error
        else:
            raise AssertionError
        assert run.workspace.repository.ref(BRANCH) == tip
        heads.chmod(0o755)
        run.checkpoint()
        assert run.tree()["new"] == ("100644", b"n")
        """,
    )


def test_a_file_that_changes_between_two_reads_is_committed_as_one_of_them_and_then_as_the_other(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    hash_files = hashing.hash_files

    def and_then_write(*args: object) -> object:
        edits = hash_files(*args)  # type: ignore[arg-type]
        (run.files / "a.txt").write_text("later\n")
        return edits

    monkeypatch.setattr("arc.workspace.git.staging.hash_files", and_then_write)
    (run.files / "a.txt").write_text("early\n")
    run.checkpoint()
    assert run.tree()["a.txt"] == ("100644", b"early\n")
    monkeypatch.undo()
    run.checkpoint()
    assert run.tree()["a.txt"] == ("100644", b"later\n")
    assert git(run.files, "status", "--porcelain") == ""


def test_a_file_that_grows_all_the_time_never_breaks_a_checkpoint(tmp_path: Path) -> None:
    run = start(make_repository(tmp_path / "repo", {"log": b""}), tmp_path / "logs")
    script = "import sys\nwhile True:\n    with open(sys.argv[1], 'ab', 0) as f: f.write(b'line\\n' * 100)\n"
    with subprocess.Popen([sys.executable, "-c", script, str(run.files / "log")]) as writer:
        try:
            contents = [run.tree(run.checkpoint())["log"][1] for _ in range(5)]
        finally:
            writer.kill()
    run.checkpoint()
    final = (run.files / "log").read_bytes()
    assert run.tree()["log"] == ("100644", final)
    assert all(final.startswith(content) for content in contents)
    assert git(run.repo, "fsck", "--no-dangling") == ""
