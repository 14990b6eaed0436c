"""What a crash leaves of worktrees that no state names: those of a parallel block that had no checkpoint yet, a
half-removed one of a branch that had ended, and that of a finished run.

Uncommitted work in them is set aside in a named ref by the workspace itself; a branch goes only if its commits are all in the run branch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pygit2

from arc.runs.live import LiveRun
from arc.runs.records import RunRecord
from arc.runs.store import RunFolder
from arc.runs.workspaces import HEADS, never_filled, sandboxes
from arc.sandbox.local import LocalSandboxes
from arc.workflow.state import OpenBlock, RunState
from arc.workspace.git.branches import ref_of_path
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.workspace import GitWorkspace
from arc.workspace.git.worktree import Worktree, registrations, remove_worktree, wait_for_registrations
from arc.workspace.notices import NoticeSink


async def clear_abandoned(live: LiveRun, state: RunState | None) -> None:
    """Close the worktrees of blocks that the state does not name (they start again under a new ordinal), then drop their empty branches."""
    if live.repository is None:
        return
    for workspace in await asyncio.to_thread(_abandoned, live, state, live.repository):
        await workspace.close()
    await asyncio.to_thread(_drop_branches, live, state, live.repository)


async def close_finished(folder: RunFolder, record: RunRecord, notices: NoticeSink) -> None:
    """Remove the worktree of a finished run that was killed before it could (kept, and named, if not everything is committed)."""
    if record.mode != "git" or record.repository is None or record.run_branch is None or not (folder.worktree / ".git").exists():
        return
    repository = Repository.at(Path(record.repository))
    workspace = await asyncio.to_thread(
        lambda: GitWorkspace.attach(
            repository,
            run_id=record.run_id,
            path=folder.worktree,
            ref=f"{HEADS}{record.run_branch}",
            subdirectory=".",
            exclude_globs=record.config.checkpoint.exclude_globs,
            sandboxes=LocalSandboxes({}),
            notices=notices,
        )
    )
    await workspace.close()


def open_block_ordinals(state: RunState | None) -> frozenset[int]:
    """Ordinals of all blocks that are open in a state."""
    return frozenset(block.ordinal for block in _open_blocks(state))


def _ended_branches(state: RunState | None) -> frozenset[str]:
    """Refs of branches of open blocks whose walk has ended: their worktrees have been closed, or were being."""
    branches = (branch for block in _open_blocks(state) for branch in block.branches)
    return frozenset(branch.ref for branch in branches if branch.ref is not None and branch.status not in ("waiting", "running"))


def _open_blocks(state: RunState | None) -> Iterator[OpenBlock]:
    frames = [state.root] if state is not None else []
    while frames:
        block = frames.pop().open_block
        if block is not None:
            yield block
            frames += [branch.frame for branch in block.branches]
            frames += [block.child] if block.child is not None else []


def _is_abandoned(ref: str, run_id: str, known: frozenset[int]) -> bool:
    prefix = f"{HEADS}arc/branch/{run_id}/"
    ordinal = ref.removeprefix(prefix).partition("-")[0]
    return ref.startswith(prefix) and ordinal.isdigit() and int(ordinal) not in known


def _abandoned(live: LiveRun, state: RunState | None, repository: Repository) -> list[GitWorkspace]:
    known, ended = open_block_ordinals(state), _ended_branches(state)
    found = []
    wait_for_registrations(repository)
    for registration in registrations(repository.common_dir):
        if registration.path is None:
            continue
        ref = ref_of_path(live.run_id, live.folder.path, registration.path) or registration.ref
        if ref in ended and not registration.path.exists():  # killed between removing the files and the registration
            remove_worktree(repository, Worktree(registration.path, registration.admin))
            continue
        if ref is None or not _is_abandoned(ref, live.run_id, known):
            continue
        if never_filled(registration.path) or repository.ref(ref) is None:
            remove_worktree(repository, Worktree(registration.path, registration.admin))
            continue
        found.append(
            GitWorkspace.attach(
                repository,
                run_id=live.run_id,
                path=registration.path,
                ref=ref,
                subdirectory=live.record.subdirectory,
                exclude_globs=live.config.checkpoint.exclude_globs,
                sandboxes=sandboxes(live),
                notices=live.tell,
            )
        )
    return found


def _drop_branches(live: LiveRun, state: RunState | None, repository: Repository) -> None:
    """Delete branches of such blocks whose tip is part of a branch that stays; one that was kept (a conflict, a failure) has more."""
    known = open_block_ordinals(state)
    held = {registration.ref for registration in registrations(repository.common_dir)}
    abandoned: dict[str, str] = {}
    stay = [repository.ref(f"{HEADS}{live.record.run_branch}")]
    for name in repository.pygit2.references:
        if not name.startswith(f"{HEADS}arc/branch/{live.run_id}/") or (commit := repository.ref(name)) is None:
            continue
        if name not in held and _is_abandoned(name, live.run_id, known):
            abandoned[name] = commit
        else:
            stay.append(commit)
    tips = [tip for tip in stay if tip is not None]
    gone = [RefUpdate(name, None, commit) for name, commit in abandoned.items() if any(_is_in(repository, commit, tip) for tip in tips)]
    transact(repository, gone)


def _is_in(repository: Repository, commit: str, tip: str) -> bool:
    try:
        return commit == tip or bool(repository.pygit2.descendant_of(tip, commit))
    except (KeyError, ValueError, pygit2.GitError):
        return False
