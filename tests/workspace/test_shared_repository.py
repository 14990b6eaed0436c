"""What a node does to things that the worktree shares with the caller's repository: told, kept, and the caller's stash as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.workspace.made import RUN, Run, attach, fingerprint, git, make_repository, start


def stash(repo: Path) -> tuple[bytes, ...]:
    """The caller's stash, byte for byte."""
    places = [repo / ".git" / "refs" / "stash", repo / ".git" / "logs" / "refs" / "stash"]
    return tuple(place.read_bytes() if place.exists() else b"absent" for place in places)


def stash_something(repo: Path, text: str) -> str:
    (repo / "a.txt").write_text(text)
    git(repo, "stash", "push", "-q", "-m", text)
    return git(repo, "rev-parse", "refs/stash").strip()


def details(run: Run, code: str) -> list[str]:
    return [line for notice in run.notices if notice.code == code for line in notice.details]


def test_a_stash_made_by_a_node_is_kept_aside_and_the_callers_stash_is_byte_identical(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    stash_something(repo, "the person's")
    before, untouched = stash(repo), fingerprint(repo)
    run = start(repo, tmp_path / "logs")
    made = [stash_something(run.files, text) for text in ("first", "second")]
    run.checkpoint("hide")
    assert stash(repo) == before
    assert fingerprint(repo) == untouched
    refs = [f"refs/arc-aside/{RUN}/stash-hide", f"refs/arc-aside/{RUN}/stash-hide-2"]
    assert details(run, "workspace.stash") == [f"kept at {ref}" for ref in refs]
    assert [git(repo, "rev-parse", ref).strip() for ref in refs] == made
    assert git(repo, "show", f"{refs[1]}:a.txt") == "second"


def test_a_stash_made_where_there_was_none_leaves_none(run: Run) -> None:
    before = stash(run.repo)
    stash_something(run.files, "only")
    run.checkpoint()
    assert before == (b"absent", b"absent")
    assert git(run.repo, "stash", "list") == ""
    assert run.workspace.repository.ref("refs/stash") is None


def test_stashing_and_popping_within_one_node_is_nobodys_business(run: Run) -> None:
    stash_something(run.files, "for a moment")
    git(run.files, "stash", "pop", "-q")
    run.checkpoint()
    assert run.notices == []
    assert run.tree()["a.txt"] == ("100644", b"for a moment")


def test_a_stash_of_a_killed_node_is_taken_off_when_the_run_comes_back(run: Run, tmp_path: Path) -> None:
    made = stash_something(run.files, "half done")
    again = attach(run, tmp_path / "logs")
    again.workspace.set_aside("interrupted-1-work", "killed")
    assert git(run.repo, "stash", "list") == ""
    assert git(run.repo, "rev-parse", f"refs/arc-aside/{RUN}/stash-interrupted-1-work").strip() == made


def test_the_persons_stash_used_up_by_a_node_can_be_put_back(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    theirs = stash_something(repo, "precious")
    run = start(repo, tmp_path / "logs")
    git(run.files, "stash", "drop", "-q")
    run.checkpoint()
    ref = f"refs/arc-aside/{RUN}/stash-gone"
    assert details(run, "workspace.stash_gone") == [f"kept at {ref}; to put it back: `git stash store {ref}`"]
    git(repo, "stash", "store", ref)
    assert git(repo, "rev-parse", "refs/stash").strip() == theirs


def test_a_stash_of_the_person_during_the_run_stays(run: Run) -> None:
    first = stash_something(run.files, "the node's")
    theirs = stash_something(run.repo, "the person's")
    run.checkpoint()
    assert git(run.repo, "stash", "list", "--format=%H").split() == [theirs]
    assert git(run.repo, "rev-parse", f"refs/arc-aside/{RUN}/stash-work").strip() == first


def test_configuration_set_by_a_node_is_told_by_name_and_not_by_value(run: Run) -> None:
    git(run.files, "config", "user.name", "robot")
    git(run.files, "config", "http.extraHeader", "Authorization: secret")
    run.checkpoint()
    assert details(run, "workspace.config_changed") == ["http.extraheader", "user.name"]
    assert not any("secret" in line for notice in run.notices for line in (notice.message, *notice.details))
    run.checkpoint()
    assert run.codes() == ["workspace.config_changed"]


def test_branches_and_tags_changed_by_a_node_are_told_and_what_they_held_is_kept(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "branch", "feature")
    git(repo, "branch", "other")
    git(repo, "tag", "v1")
    start_commit = git(repo, "rev-parse", "HEAD").strip()
    run = start(repo, tmp_path / "logs")
    git(run.files, "branch", "-D", "-q", "feature")
    git(run.files, "tag", "v2")
    git(run.files, "commit", "-q", "--allow-empty", "-m", "own")
    own = git(run.files, "rev-parse", "HEAD").strip()
    git(run.files, "branch", "-f", "other", own)
    run.checkpoint()
    assert details(run, "workspace.refs_changed") == [
        f"refs/heads/feature is gone; it was at {start_commit}, kept at refs/arc-aside/{RUN}/ref-refs-heads-feature",
        "refs/heads/other has moved",
        "refs/tags/v2 is new",
    ]
    assert git(repo, "rev-parse", f"refs/arc-aside/{RUN}/ref-refs-heads-feature").strip() == start_commit


def test_a_person_who_goes_on_working_on_their_branch_is_not_reported(run: Run) -> None:
    git(run.repo, "commit", "-q", "--allow-empty", "-m", "the person's")
    git(run.repo, "commit", "-q", "--amend", "--allow-empty", "-m", "the person's, again")
    run.checkpoint()
    assert run.notices == []


def test_garbage_collection_by_a_node_or_a_person_changes_nothing(run: Run) -> None:
    for folder in (run.files, run.repo):
        (run.files / "new").write_text(str(folder))
        run.checkpoint()
        git(folder, "gc", "--quiet", "--prune=now")
    run.checkpoint()
    assert run.notices == []
    assert run.tree()["new"] == ("100644", str(run.repo).encode())
    assert git(run.repo, "fsck", "--no-dangling") == ""


def test_objects_pruned_before_a_ref_named_them_are_stored_again(run: Run) -> None:
    """`git gc --prune=now` after a checkpoint that failed: the private index knows blobs that are gone."""
    (run.files / "new").write_text("not in any commit yet")
    run.workspace.stage()
    run.workspace.stager.settle(run.workspace.tip)
    git(run.repo, "gc", "--quiet", "--prune=now")
    run.checkpoint()
    assert run.tree()["new"] == ("100644", b"not in any commit yet")
    assert git(run.repo, "fsck", "--no-dangling") == ""


def test_the_run_branch_checked_out_by_the_person_meanwhile_is_told_and_their_files_stay(run: Run) -> None:
    git(run.repo, "checkout", "-q", "--ignore-other-worktrees", f"arc/run/{RUN}")
    before = fingerprint(run.repo)
    (run.files / "new").write_text("n")
    run.checkpoint()
    run.checkpoint()
    assert run.codes() == ["workspace.branch_shared"]
    after = fingerprint(run.repo)
    del before[".git/logs/HEAD"], after[".git/logs/HEAD"]  # git itself notes there that the branch has moved
    assert after == before


def test_commits_made_on_the_run_branch_from_elsewhere_are_kept(run: Run, tmp_path: Path) -> None:
    last = run.checkpoint()
    git(run.repo, "worktree", "add", "-q", "--detach", str(tmp_path / "mine"), last)
    git(tmp_path / "mine", "commit", "-q", "--allow-empty", "-m", "the person's")
    theirs = git(tmp_path / "mine", "rev-parse", "HEAD").strip()
    git(run.repo, "update-ref", f"refs/heads/arc/run/{RUN}", theirs)
    commit = run.checkpoint("next")
    assert git(run.repo, "rev-parse", f"{commit}^").strip() == last
    assert git(run.repo, "rev-parse", f"refs/arc-aside/{RUN}/commits-next").strip() == theirs


def test_a_worktree_made_by_a_node_inside_is_captured_as_files_and_keeps_the_worktree(run: Run) -> None:
    git(run.files, "worktree", "add", "-q", "-b", "inner", "inside")
    (run.files / "inside" / "only-here").write_text("o")
    run.checkpoint()
    assert sorted(run.tree()) == ["a.txt", "dir/b.txt", "inside/a.txt", "inside/dir/b.txt", "inside/only-here"]
    assert "workspace.nested_repository" in run.codes()
    assert details(run, "workspace.refs_changed") == []  # it is checked out there


def test_a_submodule_added_by_a_node_is_a_link_in_the_very_next_checkpoint(run: Run, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner")
    git(run.files, "submodule", "--quiet", "add", str(inner), "sub")
    run.checkpoint()
    assert run.tree()["sub"][0] == "160000"
    assert ".gitmodules" in run.tree()
    assert git(run.repo, "rev-parse", f"arc/run/{RUN}:sub") == git(inner, "rev-parse", "HEAD")
    run.checkpoint()
    assert run.tree()["sub"][0] == "160000"


def test_closing_leaves_the_callers_repository_as_it_was(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    stash_something(repo, "theirs")
    before, stashed = fingerprint(repo), stash(repo)
    run = start(repo, tmp_path / "logs")
    run.checkpoint()
    stash_something(run.files, "after the last checkpoint")
    asyncio.run(run.workspace.close())
    assert (fingerprint(repo), stash(repo)) == (before, stashed)
    assert git(repo, "show", f"refs/arc-aside/{RUN}/stash-the-end-of-the-run:a.txt") == "after the last checkpoint"
    assert not run.files.exists()
