"""The git program in its clean room: nothing of the caller's environment or configuration reaches it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from arc.base.git import Git, GitError, person_settings
from arc.workspace.git.errors import BareRepositoryError, BrokenRepositoryError, UntrustedRepositoryError
from arc.workspace.git.repository import Repository


def test_identity_is_arcs_and_nothing_is_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[user]\n\tname = person\n\temail = p@x\n[alias]\n\tx = !false\n")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    git = Git(tmp_path)
    git.run("init", "-q")
    assert git.line("var", "GIT_AUTHOR_IDENT").startswith("arc <arc@local> ")
    assert git.run("config", "--get", "user.name", check=False) == b""


def test_a_failure_is_an_error_with_what_git_said(tmp_path: Path) -> None:
    git = Git(tmp_path)
    git.run("init", "-q")
    with pytest.raises(GitError) as caught:
        git.run("cat-file", "blob", "0" * 40)
    assert caught.value.exit_code == 128
    assert caught.value.command == ("cat-file", "blob", "0" * 40)
    assert "git cat-file" in caught.value.message


def test_hooks_do_not_run(tmp_path: Path) -> None:
    git = Git(tmp_path)
    git.run("init", "-q")
    hook = tmp_path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    git.run("commit", "-q", "--allow-empty", "-m", "x")
    assert git.line("log", "--format=%s") == "x"


def test_the_persons_settings_can_be_asked(tmp_path: Path) -> None:
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[core]\n\texcludesFile = ~/ignore\n")
    assert person_settings(tmp_path, "core.excludesFile", "safe.directory") == {"core.excludesFile": (str(Path.home() / "ignore"),)}


class TestDiscover:
    def test_no_repository(self, tmp_path: Path) -> None:
        assert Repository.discover(tmp_path) is None

    def test_unborn_then_detached(self, tmp_path: Path) -> None:
        git = Git(tmp_path)
        git.run("init", "-q", "-b", "main")
        repository = Repository.discover(tmp_path)
        assert repository is not None
        assert repository.head_commit() is None
        git.run("commit", "-q", "--allow-empty", "-m", "x")
        git.run("checkout", "-q", "--detach")
        assert repository.head_commit() == git.line("rev-parse", "HEAD")

    def test_bare_and_inside_git_folder(self, tmp_path: Path) -> None:
        Git(tmp_path).run("init", "-q", "--bare", "bare")
        Git(tmp_path).run("init", "-q", "full")
        for place in ("bare", "full/.git"):
            with pytest.raises(BareRepositoryError):
                Repository.discover(tmp_path / place)

    def test_a_linked_worktree_and_a_subdirectory(self, tmp_path: Path) -> None:
        repo = tmp_path / "repo"
        Git(tmp_path).run("init", "-q", "repo")
        Git(repo).run("commit", "-q", "--allow-empty", "-m", "x")
        Git(repo).run("worktree", "add", "-q", str(tmp_path / "linked"))
        (tmp_path / "linked" / "sub" / "dir").mkdir(parents=True)
        repository = Repository.discover(tmp_path / "linked" / "sub" / "dir")
        assert repository is not None
        assert repository.top == tmp_path / "linked"
        assert repository.prefix == "sub/dir"
        assert repository.common_dir == repo / ".git"
        assert repository.git_dir == repo / ".git" / "worktrees" / "linked"

    def test_a_broken_repository_is_said_to_be_broken(self, tmp_path: Path) -> None:
        (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
        with pytest.raises(BrokenRepositoryError):
            Repository.discover(tmp_path)

    def test_formats_that_cannot_be_read_are_refused_and_partial_clones_are_not(self, tmp_path: Path) -> None:
        Git(tmp_path).run("init", "-q", "--object-format=sha256", "long")
        with pytest.raises(BrokenRepositoryError, match="sha256"):
            Repository.discover(tmp_path / "long")
        Git(tmp_path).run("init", "-q", "partial")
        Git(tmp_path / "partial").run("config", "core.repositoryFormatVersion", "1")
        Git(tmp_path / "partial").run("config", "extensions.partialClone", "origin")
        assert Repository.discover(tmp_path / "partial") is not None

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_somebody_elses_repository_needs_the_persons_trust(self, tmp_path: Path) -> None:
        repo = tmp_path / "repo"
        Git(tmp_path).run("init", "-q", "repo")
        Git(repo).run("commit", "-q", "--allow-empty", "-m", "x")
        subprocess.run(["chown", "-R", "12345:12345", str(repo)], check=True)
        with pytest.raises(UntrustedRepositoryError):
            Repository.discover(repo)
        (Path(os.environ["HOME"]) / ".gitconfig").write_text(f"[safe]\n\tdirectory = {repo}\n")
        repository = Repository.discover(repo)
        assert repository is not None
        assert repository.head_commit() is not None

    def test_dirty_counts_untracked_files_and_honours_the_persons_ignore_file(self, tmp_path: Path) -> None:
        repo = tmp_path / "repo"
        Git(tmp_path).run("init", "-q", "repo")
        (repo / "a").write_text("a")
        Git(repo).run("add", "a")
        Git(repo).run("commit", "-q", "-m", "x")
        repository = Repository.discover(repo)
        assert repository is not None
        assert not repository.is_dirty()
        (repo / "a").write_text("b")
        (repo / "new").write_text("n")
        (repo / ".idea").write_text("i")
        (Path(os.environ["HOME"]) / ".gitconfig").write_text("[core]\n\texcludesFile = ~/ignore\n")
        (Path(os.environ["HOME"]) / "ignore").write_text(".idea\n")
        report = repository.is_dirty()
        assert (report.tracked, report.untracked, report.names) == (1, 1, ("a", "new"))
