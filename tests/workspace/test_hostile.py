"""Hostile repositories: whatever hooks, settings and files they have, checkpoints are exact and the caller's side is untouched."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from arc.workspace.git.repository import Repository
from arc.workspace.git.snapshot import snapshot_dirty
from tests.workspace.made import BRANCH, RUN, fingerprint, git, make_repository, start


def hook(repo: Path, name: str, text: str, folder: Path | None = None) -> None:
    place = (folder or repo / ".git" / "hooks") / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)


@pytest.mark.parametrize("where", ["hooks", "core.hooksPath"])
def test_no_hook_runs_and_none_can_fail_a_checkpoint(tmp_path: Path, where: str) -> None:
    repo = make_repository(tmp_path / "repo")
    folder = tmp_path / "evil" if where == "core.hooksPath" else None
    if folder is not None:
        git(repo, "config", "core.hooksPath", str(folder))
    for name in (
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
    ):
        hook(repo, name, f"echo {name} >> {tmp_path}/ran; echo x > hooked.txt; exit 1", folder)
    before = fingerprint(repo)
    run = start(repo, tmp_path / "logs")
    (run.files / "new.txt").write_text("new")
    run.checkpoint()
    asyncio.run(run.workspace.close())
    assert not (tmp_path / "ran").exists()
    assert run.tree() == {"a.txt": ("100644", b"a\n"), "dir/b.txt": ("100644", b"b\n"), "new.txt": ("100644", b"new")}
    assert fingerprint(repo) == before
    assert run.notices == []


def test_signing_identity_and_monitor_settings_have_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repository(tmp_path / "repo")
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    monitor.chmod(0o755)
    for name, value in (
        ("commit.gpgsign", "true"),
        ("gpg.program", "/bin/false"),
        ("user.useConfigOnly", "true"),
        ("core.fsmonitor", str(monitor)),
        ("core.splitIndex", "true"),
        ("status.showUntrackedFiles", "no"),
        ("diff.ignoreSubmodules", "all"),
        ("core.quotePath", "true"),
    ):
        git(repo, "config", name, value)
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text("[core]\n\thooksPath = /nowhere\n\tautocrlf = true\n\texcludesFile = /nowhere\n[broken\n")
    before = fingerprint(repo)
    run = start(repo, tmp_path / "logs")
    (run.files / "new.txt").write_bytes(b"crlf\r\n")
    commit = run.checkpoint("plan")
    (home / ".gitconfig").unlink()
    assert run.tree()["new.txt"] == ("100644", b"crlf\r\n")
    assert run.workspace.repository.pygit2[commit].read_raw().count(b"gpgsig") == 0
    assert git(repo, "log", "-1", "--format=%an <%ae>|%cn <%ce>", BRANCH) == "arc <arc@local>|arc <arc@local>\n"
    assert not (tmp_path / "ran").exists()
    assert fingerprint(repo) == before


def test_message_is_the_documented_one_and_git_parses_its_trailers(tmp_path: Path) -> None:
    run = start(make_repository(tmp_path / "repo"), tmp_path / "logs")
    run.checkpoint("plan")
    metadata = git(run.repo, "rev-parse", f"refs/arc/{RUN}").strip()
    expected = f"arc({RUN}): plan (success)\n\nArc-Run: {RUN}\nArc-Completed: 1\nArc-Checkpoint: {metadata}\n"
    assert git(run.repo, "log", "-1", "--format=%B", BRANCH) == expected + "\n"
    trailers = git(run.repo, "log", "-1", "--format=%(trailers:only,unfold)", BRANCH)
    assert trailers == f"Arc-Run: {RUN}\nArc-Completed: 1\nArc-Checkpoint: {metadata}\n\n"


def test_git_variables_of_the_environment_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo, other = make_repository(tmp_path / "repo"), make_repository(tmp_path / "other")
    before, untouched = fingerprint(repo), fingerprint(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "nowhere"))
    run = start(repo, tmp_path / "logs")
    assert run.workspace.repository.top == repo
    (run.files / "a.txt").write_text("changed")
    run.checkpoint()
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_AUTHOR_NAME", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.delenv(name)
    assert run.tree()["a.txt"] == ("100644", b"changed")
    assert git(repo, "log", "-1", "--format=%an", BRANCH) == "arc\n"
    assert (fingerprint(repo), fingerprint(other)) == (before, untouched)


def test_locks_left_behind_wedge_nothing_and_the_callers_stays(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (repo / ".git" / "index.lock").write_bytes(b"")
    before = fingerprint(repo)
    run = start(repo, tmp_path / "logs")
    admin = run.workspace.admin_directory
    run.checkpoint()
    for name in ("index.lock", "arc-index.lock", "HEAD.lock"):
        (admin / name).write_bytes(b"left behind")
    (run.files / "new").write_text("n")
    run.checkpoint()
    assert run.tree()["new"] == ("100644", b"n")
    assert git(run.files, "status", "--porcelain") == ""
    assert not (admin / "index.lock").exists()
    assert fingerprint(repo) == before


def test_a_live_lock_on_the_worktrees_index_is_respected(tmp_path: Path) -> None:
    run = start(make_repository(tmp_path / "repo"), tmp_path / "logs")
    lock = run.workspace.admin_directory / "index.lock"
    with lock.open("wb"):  # this process has it open, as a running git would
        (run.files / "new").write_text("n")
        run.checkpoint()
        assert lock.exists()
    assert run.tree()["new"] == ("100644", b"n")
    assert run.codes() == ["workspace.index_busy"]
    lock.unlink()
    run.checkpoint()
    assert git(run.files, "status", "--porcelain") == ""


def test_sparse_checkout_is_carried_over_and_hidden_files_are_not_deleted(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"in/a": b"a", "out/b": b"b", "top": b"t"})
    git(repo, "sparse-checkout", "set", "in")
    before = fingerprint(repo)
    run = start(repo, tmp_path / "logs")
    assert not (run.files / "out").exists()
    (run.files / "in" / "a").write_text("changed")
    (run.files / "out2").mkdir()
    (run.files / "out2" / "new").write_text("outside the cone")
    run.checkpoint()
    assert run.tree() == {
        "in/a": ("100644", b"changed"),
        "out/b": ("100644", b"b"),
        "out2/new": ("100644", b"outside the cone"),
        "top": ("100644", b"t"),
    }
    assert fingerprint(repo) == before


def test_submodules_stay_links_and_work_inside_them_is_reported(tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner")
    repo = make_repository(tmp_path / "repo")
    git(repo, "submodule", "--quiet", "add", str(inner), "sub")
    git(repo, "commit", "-q", "-m", "sub")
    first = git(inner, "rev-parse", "HEAD").strip()
    run = start(repo, tmp_path / "logs")
    run.checkpoint()
    assert run.tree()["sub"][0] == "160000"
    (run.files / "sub" / "lost.txt").write_text("in a folder that is not checked out")
    staged = run.workspace.stage()
    assert [(gap.path, "not checked out" in gap.reason) for gap in staged.gaps] == [(b"sub", True)]
    (run.files / "sub" / "lost.txt").unlink()
    git(run.files, "submodule", "--quiet", "update", "--init")
    (run.files / "sub" / "a.txt").write_text("dirty")
    assert "uncommitted work" in run.workspace.stage().gaps[0].reason
    git(run.files / "sub", "commit", "-q", "-a", "-m", "only here")
    moved = git(run.files / "sub", "rev-parse", "HEAD").strip()
    assert "exists only in this worktree" in run.workspace.stage().gaps[0].reason
    run.checkpoint()
    recorded = git(repo, "rev-parse", f"{BRANCH}:sub").strip()
    assert recorded == moved != first
    asyncio.run(run.workspace.close())
    assert run.files.exists(), "the worktree holds the only copy of a commit"


def test_nested_repositories_are_captured_as_files_and_reported(tmp_path: Path) -> None:
    run = start(make_repository(tmp_path / "repo", {"keep/f": b"f", ".gitignore": b"*.log\n"}), tmp_path / "logs")
    empty, full, deep = run.files / "empty", run.files / "lib" / "full", run.files / "empty" / "x" / "deep"
    for folder in (empty, full, deep):
        folder.mkdir(parents=True)
        git(folder, "init", "-q")
    (empty / "e.txt").write_text("e")
    (empty / "outer.log").write_text("ignored by the outer rules")
    (empty / ".gitignore").write_text("*.tmp\n")
    (empty / "inner.tmp").write_text("ignored by the inner rules")
    (full / "f.txt").write_text("f")
    git(full, "add", "-A")
    git(full, "commit", "-q", "-m", "c")
    (deep / "d.txt").write_text("d")
    git(run.files / "keep", "init", "-q")
    (run.files / "keep" / "g").write_text("g")
    run.checkpoint()
    assert run.tree() == {
        ".gitignore": ("100644", b"*.log\n"),
        "empty/.gitignore": ("100644", b"*.tmp\n"),
        "empty/e.txt": ("100644", b"e"),
        "empty/x/deep/d.txt": ("100644", b"d"),
        "keep/f": ("100644", b"f"),
        "keep/g": ("100644", b"g"),
        "lib/full/f.txt": ("100644", b"f"),
    }
    told = [path for notice in run.notices if notice.code == "workspace.nested_repository" for path in notice.details]
    assert sorted(told) == ["empty", "empty/x/deep", "keep", "lib/full"]
    (full / "f.txt").write_text("second")
    (full / "new.txt").write_text("n")
    run.checkpoint()
    assert run.tree()["lib/full/f.txt"] == ("100644", b"second")
    assert run.tree()["lib/full/new.txt"] == ("100644", b"n")
    asyncio.run(run.workspace.close())
    assert (full / ".git").is_dir(), "the nested repository's history is in no commit: the worktree stays"


def test_links_modes_names_and_sizes_are_exact(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    run = start(repo, tmp_path / "logs")
    top = os.fsencode(run.files)
    os.symlink("nowhere", run.files / "dangling")
    os.symlink(outside, run.files / "out")
    (run.files / "tool").write_text("#!/bin/sh\n")
    (run.files / "tool").chmod(0o755)
    (run.files / "zero").write_bytes(b"")
    big = os.urandom(1 << 20) * 50
    (run.files / "big").write_bytes(big)
    for name in (b"caf\xe9", b"line\nbreak", b'quo"te\\', b" space ", b"-dash", b"tab\t", b":(glob)x", b"*"):
        with open(top + b"/" + name, "wb") as file:
            file.write(name)
    run.checkpoint()
    tree = run.tree()
    assert tree["dangling"] == ("120000", b"nowhere")
    assert tree["out"] == ("120000", os.fsencode(outside))
    assert tree["tool"] == ("100755", b"#!/bin/sh\n")
    assert tree["zero"] == ("100644", b"")
    assert tree["big"] == ("100644", big)
    for name in (b"caf\xe9", b"line\nbreak", b'quo"te\\', b" space ", b"-dash", b"tab\t", b":(glob)x", b"*"):
        assert tree[os.fsdecode(name)] == ("100644", name)
    assert not any(path.startswith("out/") for path in tree)
    (run.files / "tool").chmod(0o644)
    run.checkpoint()
    assert run.tree()["tool"][0] == "100644"


def test_attributes_and_filters_are_gits(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {".gitattributes": b"*.txt text eol=crlf\n*.up filter=up\n", "a.txt": b"1\n", "x.up": b"x"})
    git(repo, "config", "filter.up.clean", "tr a-z A-Z")
    git(repo, "config", "filter.up.smudge", "tr A-Z a-z")
    run = start(repo, tmp_path / "logs")
    assert (run.files / "a.txt").read_bytes() == b"1\r\n"
    (run.files / "a.txt").write_bytes(b"1\r\n2\r\n")
    (run.files / "y.up").write_bytes(b"shout")
    first = run.checkpoint()
    assert run.tree()["a.txt"] == ("100644", b"1\n2\n")
    assert run.tree()["y.up"] == ("100644", b"SHOUT")
    (run.files / "a.txt").unlink()
    (run.files / "y.up").unlink()
    run.checkpoint()
    run.workspace.apply(run.workspace.plan(first))
    assert (run.files / "a.txt").read_bytes() == b"1\r\n2\r\n"
    assert (run.files / "y.up").read_bytes() == b"shout"


def test_what_cannot_be_stored_is_a_gap(tmp_path: Path) -> None:
    run = start(make_repository(tmp_path / "repo"), tmp_path / "logs")
    os.mkfifo(run.files / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        place = os.open(run.files, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{place}/sock")
        finally:
            os.close(place)
        (run.files / "new").write_text("n")
        staged = run.workspace.stage()
    assert [gap.path for gap in staged.gaps] == [b"pipe", b"sock"]
    assert run.codes() == ["workspace.gap"]
    run.checkpoint()
    assert "new" in run.tree()
    asyncio.run(run.workspace.close())
    assert run.files.exists()


def test_a_snapshot_of_a_dirty_checkout_touches_nothing_of_it(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"a": b"a", "b": b"b", "c": b"c", ".gitignore": b"ignored\n"})
    (repo / "a").write_text("unstaged")
    (repo / "b").write_text("staged")
    git(repo, "add", "b")
    (repo / "b").write_text("staged, then changed")
    (repo / "c").write_text("promised not to change")
    git(repo, "update-index", "--assume-unchanged", "c")
    (repo / "new").write_text("new")
    (repo / "ignored").write_text("i")
    before = fingerprint(repo)
    repository = Repository.discover(repo)
    assert repository is not None
    report = repository.is_dirty()
    assert (report.tracked, report.untracked) == (2, 1)
    commit = snapshot_dirty(repository, notices=lambda notice: pytest.fail(notice.message))
    assert fingerprint(repo) == before
    names = git(repo, "ls-tree", "-r", "--name-only", commit).split()
    assert names == [".gitignore", "a", "b", "c", "new"]
    assert [git(repo, "show", f"{commit}:{name}") for name in ("a", "b", "c")] == [
        "unstaged",
        "staged, then changed",
        "promised not to change",
    ]
    assert git(repo, "rev-parse", f"{commit}^") == git(repo, "rev-parse", "HEAD")
