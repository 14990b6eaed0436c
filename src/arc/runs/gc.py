"""Collecting runs: which are finished, merged or old enough, what each one holds, why one stays, and the deletion by the plan.

A run's commits must live on elsewhere: refs of its own (run branch, parallel branches, work set aside) whose commits no remaining ref
reaches make it stay, unless their loss was asked for by naming the run. Uncommitted work in a worktree, and a live process, always do.
Runs are judged from the newest to the oldest; what stays counts as "elsewhere" for the older ones, so of a run and its fork one can go.

Deletion of one run, in order: worktree, refs (one transaction with the expected values), files of the folder, `run.json` last. A crash
leaves a run that is still listed and that the next `gc` goes on with.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import pygit2

from arc.base.errors import ArcError, CorruptError, UsageError
from arc.base.json import JsonObject
from arc.runs.errors import NewerSchemaError
from arc.runs.history.listing import FINISHED, RowStatus
from arc.runs.history.lookup import KnownRun, open_known
from arc.runs.history.timeline import list_refs, ref_target
from arc.runs.remove import folder_size, remove_corrupt, remove_run, uncommitted_work, unreadable_work
from arc.runs.store import RunFolder, iterate_runs
from arc.runs.world import World
from arc.workspace.git.errors import PlanChangedError
from arc.workspace.git.objects import tree_of
from arc.workspace.git.repository import Repository

_ARC_REFS = ("refs/heads/arc/run/", "refs/heads/arc/branch/", "refs/arc/", "refs/arc-aside/")

_REMOTE_COPY = re.compile(r"refs/remotes/[^/]+/arc/(run|branch)/")
"""A run branch as fetched from elsewhere: it keeps the commits, but nobody has merged them."""


@dataclass(frozen=True)
class GcRequest:
    """Which runs. `runs` names them (empty: all of this home); the rest narrows. Without any of them: finished runs.

    `discard_unmerged` allows to lose commits that nothing else reaches, `discard_corrupt` to delete a folder whose `run.json` cannot be
    read; both only together with `runs`.
    """

    runs: tuple[KnownRun | RunFolder, ...] = ()
    older_than: timedelta | None = None
    merged: bool = False
    finished: bool = False
    discard_unmerged: bool = False
    discard_corrupt: bool = False


@dataclass(frozen=True)
class GcItem:
    """One run of the plan. `refs` are (name, commit now); `refused` says why it stays (empty: it goes); `lost` what goes for good."""

    run_id: str
    status: RowStatus
    reason: str
    folder: str
    size: int
    refs: tuple[tuple[str, str], ...] = ()
    worktree: str | None = None
    refused: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    newer: bool = False
    """It is not damaged: a newer arc wrote it, so this one leaves it alone."""

    def key(self) -> str:
        """What the digest covers: everything but the size (a log may grow by a line of a reader)."""
        return repr((self.run_id, self.status, self.folder, self.refs, self.worktree, self.refused, self.lost))


@dataclass(frozen=True)
class GcPlan:
    """What a collection would do; `items` from the newest run to the oldest."""

    items: tuple[GcItem, ...]

    @property
    def deletes(self) -> tuple[GcItem, ...]:
        return tuple(item for item in self.items if not item.refused)

    @property
    def digest(self) -> str:
        """32 hex digits over runs, folders, refs with their commits, and refusals."""
        return hashlib.sha256("\0".join(item.key() for item in self.items).encode()).hexdigest()[:32]

    def document(self) -> JsonObject:
        """The plan as `--plan --json` prints it."""
        return {
            "digest": self.digest,
            "size": sum(item.size for item in self.deletes),
            "runs": [
                {
                    "run_id": item.run_id,
                    "status": item.status,
                    "action": "keep" if item.refused else "delete",
                    "reason": item.reason,
                    "refused": list(item.refused),
                    "lost": list(item.lost),
                    "folder": item.folder,
                    "size": item.size,
                    "worktree": item.worktree,
                    "refs": [{"ref": name, "commit": commit} for name, commit in item.refs],
                }
                for item in self.items
            ],
        }


@dataclass(frozen=True)
class GcResult:
    """What was done. `skipped` are runs that were no longer as planned, or could not be deleted: (run id, why)."""

    plan: GcPlan
    deleted: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = field(default=())
    """Files that arc did not make, left where they are."""


def plan_gc(world: World, request: GcRequest) -> GcPlan:
    """What `collect` would do now. Reads only.

    Raises:
        UsageError: `discard_unmerged` or `discard_corrupt` without named runs.
    """
    return GcPlan(tuple(item for _, item in _judge(world, request)))


def _judge(world: World, request: GcRequest) -> list[tuple[KnownRun | RunFolder, GcItem]]:
    for name, given in (("--discard-unmerged", request.discard_unmerged), ("--discard-corrupt", request.discard_corrupt)):
        if given and not request.runs:
            raise UsageError(f"`{name}` needs the runs by name", hints=(f"arc run gc RUN {name}",))
    chosen = _choose(world, request)
    going = {run.run_id for run in chosen if isinstance(run, KnownRun)}
    survivors: dict[Path, set[str]] = {}
    return [(run, _corrupt_item(run, request) if isinstance(run, RunFolder) else _item(run, request, going, survivors)) for run in chosen]


def collect(world: World, request: GcRequest, *, confirm: str | None = None, plan: GcPlan | None = None) -> GcResult:
    """Delete what the plan says. `confirm` is the digest of a plan seen before, `plan` the one that was just shown.

    Each run is judged once more right before its deletion; one that is no longer as planned is skipped and named.

    Raises:
        PlanChangedError: the plan is another one now; nothing was deleted.
    """
    judged = _judge(world, request)
    current = GcPlan(tuple(item for _, item in judged))
    wanted = confirm if confirm is not None else plan.digest if plan is not None else current.digest
    if current.digest != wanted:
        raise PlanChangedError(f"the plan is {current.digest} now, not {wanted}; nothing was deleted", hints=("arc run gc --plan",))
    deleted: list[str] = []
    skipped: list[tuple[str, str]] = []
    left: list[str] = []
    for run, item in judged:
        if item.refused:
            continue
        try:
            left += remove_corrupt(world, run) if isinstance(run, RunFolder) else remove_run(world, run, item.refs)
        except ArcError as error:
            skipped.append((item.run_id, error.message))
        except OSError as error:
            skipped.append((item.run_id, f"`{error.filename}`: {error.strerror}"))
        else:
            deleted.append(item.run_id)
    return GcResult(current, tuple(deleted), tuple(skipped), tuple(left))


def _choose(world: World, request: GcRequest) -> list[KnownRun | RunFolder]:
    """The runs in question, newest first; folders whose run cannot be read only if they are old enough or nobody narrowed to them."""
    if request.runs:
        runs = [run for run in request.runs if isinstance(run, RunFolder) or _fits(world, run, request)]
        return sorted(runs, key=lambda run: run.run_id, reverse=True)
    if not (request.older_than or request.merged or request.finished):
        request = GcRequest(finished=True)
    chosen: list[KnownRun | RunFolder] = []
    for folder in iterate_runs(world):
        try:
            run = open_known(folder)
        except CorruptError:
            chosen.append(folder)
            continue
        if _fits(world, run, request):
            chosen.append(run)
    return chosen


def _fits(world: World, run: KnownRun, request: GcRequest) -> bool:
    if request.finished and run.status not in FINISHED:
        return False
    if request.merged and not _is_merged(run):
        return False
    if request.older_than is None:
        return True
    return world.clock.now() - datetime.fromisoformat(run.record.updated_at) >= request.older_than


def _is_merged(run: KnownRun) -> bool:
    if run.repository is None:
        return False
    repo = run.repository.pygit2
    tip = ref_target(repo, run.refs.run_branch)
    if tip is None:
        return False
    return _reaches(repo, (name for name in repo.references if not name.startswith(_ARC_REFS) and not _REMOTE_COPY.match(name)), tip)


def _corrupt_item(folder: RunFolder, request: GcRequest) -> GcItem:
    """A folder without a readable `run.json`: what it is cannot be known, so it goes only by name, and never with what may be work."""
    newer = False
    try:
        folder.read_record()
        why = "it cannot be read"
    except CorruptError as error:
        why = error.message
        newer = isinstance(error, NewerSchemaError)
    refused = [] if request.discard_corrupt and not newer else [why]
    owner = folder.holder()
    if owner is not None:
        refused.append(f"{owner} works on it")
    if request.discard_corrupt and (work := unreadable_work(folder)):
        refused.append(work)
    return GcItem(folder.run_id, "corrupt", why, str(folder.path), folder_size(folder.path), refused=tuple(refused), newer=newer)


def _item(run: KnownRun, request: GcRequest, going: set[str], survivors: dict[Path, set[str]]) -> GcItem:
    refused: list[str] = []
    owner = run.folder.holder() if run.folder is not None else None
    if owner is not None:
        refused.append(f"{owner} works on it")
    if run.folder is not None and (work := uncommitted_work(run)):
        refused.append(f"the worktree `{run.folder.worktree}` has uncommitted work ({work})")
    refs, lost = _refs_and_losses(run, going, survivors)
    if lost and not request.discard_unmerged:
        refused += [f"commits reachable from nowhere else: {name}" for name in lost]
    if refused and run.repository is not None:
        survivors.setdefault(run.repository.common_dir, set()).update(name for name, _ in refs)
    has_worktree = run.folder is not None and run.folder.worktree.exists()
    return GcItem(
        run_id=run.run_id,
        status=run.status,
        reason=_reason(run),
        folder=str(run.folder.path) if run.folder is not None else "",
        size=folder_size(run.folder.path) if run.folder is not None else 0,
        refs=refs,
        worktree=str(run.folder.worktree) if run.folder is not None and has_worktree else None,
        refused=tuple(refused),
        lost=lost if request.discard_unmerged else (),
    )


def _reason(run: KnownRun) -> str:
    words = [run.status.replace("_", " ")]
    if _is_merged(run):
        words.append("merged")
    if run.record.superseded_by:
        words.append(f"by {run.record.superseded_by}")
    return ", ".join(words) + f", last changed {run.record.updated_at[:10]}"


def _refs_and_losses(
    run: KnownRun, going: set[str], survivors: dict[Path, set[str]]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The run's refs, and the names of those whose commits nothing that stays reaches."""
    if run.repository is None:
        return (), ()
    repo = run.repository.pygit2
    names = [name for name in (run.refs.run_branch, run.refs.metadata) if name in repo.references]
    names += list_refs(repo, run.refs.branches, run.refs.aside)
    refs = tuple((name, tip) for name in names if (tip := ref_target(repo, name)) is not None)
    kept = survivors.get(run.repository.common_dir, set())
    staying = [name for name in repo.references if name not in names and (name in kept or not _belongs(name, going))]
    files = [(name, tip) for name, tip in refs if name != run.refs.metadata]
    lost = [name for name, tip in files if not _reaches(repo, staying, tip) and _holds_changes(run.repository, tip, run.record.base_sha)]
    return refs, _outermost(repo, dict(files), lost)


def _outermost(repo: pygit2.Repository, tips: dict[str, str], lost: list[str]) -> tuple[str, ...]:
    """Of refs that would be lost together, those that no other one of them contains: the run branch says it for a branch it merged."""
    result: list[str] = []
    for index, name in enumerate(lost):
        tip = pygit2.Oid(hex=tips[name])
        others = [tips[other] for place, other in enumerate(lost) if place != index and (tips[other] != tips[name] or place < index)]
        if not any(other == tips[name] or repo.descendant_of(other, tip) for other in others):
            result.append(name)
    return tuple(result)


def _belongs(name: str, going: set[str]) -> bool:
    """Whether a ref is one of a run that is in question too (newer ones that stay are in `survivors`)."""
    for prefix in _ARC_REFS:
        if name.startswith(prefix):
            return name.removeprefix(prefix).partition("/")[0] in going
    return False


def _reaches(repo: pygit2.Repository, names: Iterable[str], commit: str) -> bool:
    """Whether any of these refs reaches the commit. Metadata branches do not count: their history holds no files of the person."""
    oid = pygit2.Oid(hex=commit)
    tips = {tip for name in names if not name.startswith("refs/arc/") and (tip := ref_target(repo, name)) is not None}
    return commit in tips or any(repo.descendant_of(tip, oid) for tip in tips)


def _holds_changes(repository: Repository, tip: str, base: str | None) -> bool:
    """Whether any commit between base and tip has other files than the base: if none, nothing can be lost with them."""
    repo = repository.pygit2
    if base is None or base not in repo:
        return True
    files = tree_of(repository, base)
    walker = repo.walk(tip)
    walker.hide(base)
    return any(str(commit.tree_id) != files for commit in walker)


def parse_age(text: str) -> timedelta:
    """`30d`, `12h`, `2w`, `90m`, `45s` as a length of time. Raises `UsageError`."""
    units: dict[str, Literal["seconds", "minutes", "hours", "days", "weeks"]] = {
        "s": "seconds",
        "m": "minutes",
        "h": "hours",
        "d": "days",
        "w": "weeks",
    }
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in units or len(number) > 6:
        raise UsageError(f"`{text}` is not an age", hints=("give a number and a unit: `30d`, `12h`, `2w`",))
    return timedelta(**{units[unit]: int(number)})
