"""Odd repositories, odd names, full disks and what nodes do to their own worktree: exact, or said plainly, and never lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from arc.base.atomic import write_atomic
from arc.base.errors import ArcError
from arc.workspace.git.branch_worktree import BranchWorktree
from arc.workspace.git.coverage import Limits
from arc.workspace.git.repository import Repository
from tests.workspace.made import BRANCH, RUN, Run, attach, fingerprint, git, make_repository, start


def details(run: Run, code: str) -> list[str]:
    return [line for notice in run.notices if notice.code == code for line in notice.details]


# -- repositories -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["with spaces", "ünïcode", "new\nline", "quo'te\"s", "-dash", "percent%41", "caf\udce9"])
def test_a_repository_at_any_path(tmp_path: Path, name: str) -> None:
    repo = make_repository(tmp_path / name / "repo")
    before = fingerprint(repo)
    run = start(repo, tmp_path / name / "logs")
    (run.files / "new").write_text("n")
    run.checkpoint()
    again = attach(run, tmp_path / name / "logs")
    again.checkpoint()
    assert again.tree()["new"] == ("100644", b"n")
    assert git(again.files, "status", "--porcelain") == ""
    asyncio.run(again.workspace.close())
    assert not run.files.exists()
    assert fingerprint(repo) == before


def test_a_shallow_clone_and_one_that_borrows_objects(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin")
    git(origin, "commit", "-q", "--allow-empty", "-m", "second")
    for kind in (["--depth", "1"], ["--shared"]):
        repo = tmp_path / kind[0]
        git(tmp_path, "clone", "-q", *kind, f"file://{origin}" if kind[0] == "--depth" else str(origin), str(repo))
        run = start(repo, tmp_path / f"logs{kind[0]}")
        (run.files / "a.txt").write_text("changed")
        run.checkpoint()
        assert run.tree()["a.txt"] == ("100644", b"changed")
        assert git(repo, "fsck", "--no-dangling") == ""


def test_a_start_in_a_linked_worktree(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "a.txt").write_text("side\n")
    git(tmp_path / "side", "commit", "-q", "-a", "-m", "side")
    before = fingerprint(repo)
    run = start(tmp_path / "side", tmp_path / "logs")
    assert (run.files / "a.txt").read_text() == "side\n"
    run.checkpoint()
    assert git(run.repo, "rev-parse", f"{BRANCH}^") == git(run.repo, "rev-parse", "side")
    assert fingerprint(repo) == before


def test_many_refs_packed_and_loose(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    head = git(repo, "rev-parse", "HEAD").strip()
    lines = "".join(f"create refs/heads/many/{n:05d} {head}\n" for n in range(10_000))
    subprocess.run(["git", "update-ref", "--stdin"], cwd=repo, input=lines.encode(), check=True)
    run = start(repo, tmp_path / "logs")
    run.checkpoint()
    git(repo, "pack-refs", "--all", "--prune")
    assert not (repo / ".git" / BRANCH).exists()
    second = run.checkpoint()
    git(repo, "update-ref", "-d", "refs/heads/many/00007")
    run.checkpoint("last")
    assert git(repo, "rev-parse", f"{BRANCH}^").strip() == second
    assert details(run, "workspace.refs_changed") == [
        f"refs/heads/many/00007 is gone; it was at {head}, kept at refs/arc-aside/{RUN}/ref-refs-heads-many-00007"
    ]


def test_core_worktree_in_the_configuration(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    moved = tmp_path / "store"
    (repo / ".git").rename(moved)
    (repo / ".git").write_text(f"gitdir: {moved}\n")
    git(repo, "config", "core.worktree", str(repo))
    run = start(repo, tmp_path / "logs")
    (run.files / "new").write_text("n")
    run.checkpoint()
    assert sorted(run.tree()) == ["a.txt", "dir/b.txt", "new"]
    assert not (repo / "new").exists()
    assert git(repo, "status", "--porcelain") == ""


def test_a_prune_of_worktrees_while_the_folder_is_away_does_no_harm(run: Run, tmp_path: Path) -> None:
    (run.files / "half").write_text("h")
    run.files.rename(tmp_path / "away")
    git(run.repo, "worktree", "prune", "--expire", "now")
    git(run.repo, "gc", "--quiet", "--prune=now")
    (tmp_path / "away").rename(run.files)
    again = attach(run, tmp_path / "logs")
    again.checkpoint()
    assert again.tree()["half"] == ("100644", b"h")


# -- names and sizes ----------------------------------------------------------------------------------------------------------------


def test_names_that_differ_in_case_or_composition_and_names_as_long_as_names_can_be(run: Run) -> None:
    names = ["case", "CASE", "Case", "\u00e9", "e\u0301", "n" * 255, "é" * 127, "sub/" + "d" * 255 + "/" + "f" * 255]
    for name in names:
        (run.files / name).parent.mkdir(parents=True, exist_ok=True)
        (run.files / name).write_text(name)
    first = run.checkpoint()
    assert {name: run.tree()[name][1].decode() for name in names} == {name: name for name in names}
    for name in names:
        (run.files / name).unlink()
    run.checkpoint()
    assert sorted(run.tree()) == ["a.txt", "dir/b.txt"]
    run.workspace.apply(run.workspace.plan(first))
    assert {name: (run.files / name).read_text() for name in names} == {name: name for name in names}


def test_a_path_longer_than_the_system_allows_is_a_gap_and_keeps_the_worktree(run: Run) -> None:
    here = os.getcwd()
    try:
        os.chdir(run.files)
        for _ in range(20):
            os.mkdir("d" * 250)
            os.chdir("d" * 250)
        Path("deep").write_text("deep")
    finally:
        os.chdir(here)
    (run.files / "new").write_text("n")
    try:
        staged = run.workspace.stage()
    except ArcError as error:
        pytest.fail(f"{error} {error.details}")
    assert staged.gaps
    run.checkpoint()
    assert run.tree()["new"] == ("100644", b"n")
    asyncio.run(run.workspace.close())
    assert run.files.exists()
    subprocess.run(["rm", "-rf", str(run.files)], check=True)


def test_a_huge_ignored_folder_is_not_entered(tmp_path: Path) -> None:
    run = start(make_repository(tmp_path / "repo", {".gitignore": b"cache/\n"}), tmp_path / "logs")
    run.checkpoint()
    cache = run.files / "cache"
    for number in range(100):
        (cache / str(number)).mkdir(parents=True)
    os.mkfifo(cache / "7" / "pipe")
    cache_times = {folder: folder.stat().st_atime_ns for folder in cache.iterdir()}
    staged = run.workspace.stage()
    assert (staged.changes, staged.gaps) == (0, ())
    assert {folder: folder.stat().st_atime_ns for folder in cache.iterdir()} == cache_times


def limited(run: Run, limits: Limits) -> BranchWorktree:
    old = run.workspace
    return BranchWorktree(replace(old.scene, limits=limits), old.worktree, old.branch, old.tip)


@pytest.mark.parametrize(("limits", "said"), [(Limits(files=3), "4 new files"), (Limits(bytes=100), "4 new files, 0 MB")])
def test_very_many_or_very_large_new_files_are_told_loudly_and_committed(run: Run, limits: Limits, said: str) -> None:
    worktree = limited(run, limits)
    for name in ("venv/lib/one", "venv/lib/two", "venv/lib/three", "single"):
        (run.files / name).parent.mkdir(parents=True, exist_ok=True)
        (run.files / name).write_bytes(b"x" * 50)
    staged = worktree.stage()
    (notice,) = run.notices
    assert (notice.level, notice.code) == ("warning", "workspace.many_new_files")
    assert said in notice.message
    assert notice.details == ("venv/lib: 3 files, 0 MB", ".: 1 files, 0 MB")
    assert sorted(run.tree(staged.tree)) == ["a.txt", "dir/b.txt", "single", "venv/lib/one", "venv/lib/three", "venv/lib/two"]


def test_more_than_200_megabytes_in_one_node(run: Run) -> None:
    (run.files / "data").mkdir()
    with (run.files / "data" / "sparse").open("wb") as file:
        file.truncate(201 * 1000 * 1000)
    run.checkpoint()
    (notice,) = run.notices
    assert notice.message == "this node made 1 new files, 201 MB; all committed (`[checkpoint] exclude_globs` narrows it)"
    assert notice.details == ("data: 1 files, 201 MB",)
    assert git(run.repo, "cat-file", "-s", f"{BRANCH}:data/sparse").strip() == "201000000"


def test_more_than_10_000_files_in_one_node(run: Run) -> None:
    for number in range(10_001):
        if number % 1000 == 0:
            (run.files / "made" / str(number)).mkdir(parents=True)
        (run.files / "made" / str(number - number % 1000) / str(number)).write_text("x")
    run.checkpoint()
    (notice,) = run.notices
    assert notice.message.startswith("this node made 10001 new files, 0 MB")
    assert notice.details[0] == "made/0: 1000 files, 0 MB"
    assert len(run.tree()) == 10_003 or len(git(run.repo, "ls-tree", "-r", "--name-only", BRANCH).split()) == 10_003


# -- what nodes do to their worktree ------------------------------------------------------------------------------------------------


def test_a_repository_that_a_node_made_of_its_worktree_is_kept_whole_and_named(run: Run) -> None:
    (run.files / ".git").unlink()
    git(run.files, "init", "-q")
    (run.files / "new").write_text("n")
    git(run.files, "add", "-A")
    git(run.files, "commit", "-q", "-m", "in the node's own repository")
    own = git(run.files, "rev-parse", "HEAD").strip()
    run.checkpoint()
    aside = run.files.with_name("worktree.git-aside-1")
    assert details(run, "workspace.link_mended") == [
        f"a repository of its own stood at `{run.files / '.git'}`; all of it is kept at `{aside}`"
    ]
    assert git(aside, "rev-parse", "HEAD").strip() == own
    assert git(aside, "log", "--format=%s").strip() == "in the node's own repository"
    assert run.tree()["new"] == ("100644", b"n")


def test_a_filter_that_nobody_defined_is_told_once(tmp_path: Path) -> None:
    repo = make_repository(
        tmp_path / "repo", {".gitattributes": b"*.bin filter=lfs diff=lfs -text\n# *.x filter=no\n", "a.bin": b"pointer"}
    )
    (Path(os.environ["HOME"]) / ".gitconfig").write_text('[filter "lfs"]\n\tclean = false\n\tsmudge = false\n')
    run = start(repo, tmp_path / "logs")
    (run.files / "new.bin").write_bytes(b"content")
    run.checkpoint()
    run.checkpoint()
    assert run.codes() == ["workspace.filter_undefined"]
    assert details(run, "workspace.filter_undefined")[0] == ".gitattributes asks for `lfs`"
    assert run.tree()["new.bin"] == ("100644", b"content")
    (run.files / "dir").mkdir()
    (run.files / "dir" / ".gitattributes").write_text("*.y filter=other\n")
    run.checkpoint()
    assert details(run, "workspace.filter_undefined")[-1] == "dir/.gitattributes asks for `other`"


def test_a_filter_that_the_repository_defines_is_no_news(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {".gitattributes": b"*.up filter=up\n"})
    git(repo, "config", "filter.up.clean", "tr a-z A-Z")
    run = start(repo, tmp_path / "logs")
    run.checkpoint()
    assert run.notices == []


def test_a_failed_update_of_the_private_index_is_made_good(run: Run) -> None:
    run.checkpoint()
    lock = run.workspace.stager.index.path.with_name("arc-index.lock")
    update = run.workspace.stager.index.update

    def busy(changed: list[bytes], gaps: dict[bytes, str]) -> None:
        lock.write_bytes(b"")
        update(changed, gaps)

    run.workspace.stager.index.update = busy  # type: ignore[assignment,method-assign]
    (run.files / "a.txt").write_text("changed\n")
    run.checkpoint()
    del run.workspace.stager.index.update
    assert run.tree()["a.txt"] == ("100644", b"changed\n")
    assert git(run.files, "status", "--porcelain") == ""
    run.checkpoint()
    assert run.tree() == {"a.txt": ("100644", b"changed\n"), "dir/b.txt": ("100644", b"b\n")}


# -- full disks ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "arc-test", str(place)], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path, leave: int) -> None:
    """Leave that many bytes free."""
    free = shutil.disk_usage(disk).free - leave
    (disk / "filler").write_bytes(b"\0" * max(free, 0))


@pytest.mark.parametrize("leave", [0, 4096, 8192, 16384, 24576, 32768, 49152])
def test_a_full_disk_under_the_repository_moves_no_ref_and_the_next_checkpoint_has_everything(
    small_disk: Path, tmp_path: Path, leave: int
) -> None:
    run = start(make_repository(small_disk / "repo"), tmp_path / "logs")
    tip, refs = run.checkpoint(), git(run.repo, "for-each-ref")
    (run.files / "a.txt").write_bytes(os.urandom(9000))
    (run.files / "new").write_bytes(os.urandom(9000))
    fill(small_disk, leave)
    try:
        commit = run.checkpoint()
    except (ArcError, OSError):
        assert git(run.repo, "for-each-ref") == refs
        commit = tip
    assert run.workspace.tip == commit == git(run.repo, "rev-parse", BRANCH).strip()
    (small_disk / "filler").unlink()
    run.checkpoint()
    assert run.tree()["a.txt"][1] == (run.files / "a.txt").read_bytes()
    assert run.tree()["new"][1] == (run.files / "new").read_bytes()
    assert git(run.repo, "fsck", "--no-dangling") == ""
    assert git(run.files, "status", "--porcelain") == ""


def test_a_full_disk_under_the_run_folder_tears_no_file(small_disk: Path, tmp_path: Path) -> None:
    run = start(make_repository(tmp_path / "repo"), small_disk / "logs")
    write_atomic(small_disk / "checkpoint.json", b"old")
    (run.files / "new").write_bytes(b"n" * 5000)
    fill(small_disk, 0)
    with pytest.raises(OSError, match="No space"):
        write_atomic(small_disk / "checkpoint.json", b"x" * 9000)
    assert (small_disk / "checkpoint.json").read_bytes() == b"old"
    run.checkpoint()
    assert run.tree()["new"] == ("100644", b"n" * 5000)


def test_a_repository_of_another_object_format_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "long")
    with pytest.raises(ArcError, match="sha256"):
        Repository.discover(tmp_path / "long")
