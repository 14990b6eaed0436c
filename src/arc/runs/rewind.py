"""A rewind: a fork that takes its source's place. The source keeps everything it has; its `run.json` only says who superseded it.

The plan is shown first: what the files of the run branch become, and which checkpoints stay behind. Its digest covers the paths with
both contents, and where the source stands, so a source that has moved since is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from arc.base.clock import rfc3339
from arc.base.faults import declare_faults, fault
from arc.base.json import JsonObject, name_fields
from arc.base.locks import Lease
from arc.runs.errors import SupersededError
from arc.runs.fork import Forked, ForkRequest, files_commit, fork_at
from arc.runs.history.details import read_timeline
from arc.runs.history.lookup import KnownRun, open_known
from arc.runs.history.states import run_commit_at
from arc.runs.history.targets import find_text
from arc.runs.history.timeline import TimelineEntry
from arc.runs.world import World
from arc.workspace.git.errors import PlanChangedError
from arc.workspace.git.objects import Entry, compare_trees, tree_of
from arc.workspace.git.repository import Repository
from arc.workspace.plan import Action, Plan, Step

declare_faults({"rewind.forked": "the new run is whole, the source does not say yet that it is superseded"})


@dataclass(frozen=True)
class RewindPlan:
    """What a rewind would do. `files` is about the run branch (the new run's, against the source's tip); nobody's checkout is touched."""

    run_id: str
    entry: TimelineEntry
    files: Plan
    left_behind: tuple[TimelineEntry, ...]

    @property
    def digest(self) -> str:
        """32 hex digits over the files' plan and the checkpoints left behind."""
        whole = hashlib.sha256(f"{self.run_id}@{self.entry.ordinal}\0{self.files.digest}".encode())
        for entry in self.left_behind:
            whole.update(f"\0{entry.ordinal}\0{entry.path}\0{entry.metadata}\0{entry.commit}".encode())
        return whole.hexdigest()[:32]


@dataclass(frozen=True)
class Rewound:
    """The new run, and the plan that was applied."""

    forked: Forked
    plan: RewindPlan


def plan_rewind(source: KnownRun, target: str, *, state_only: bool = False) -> RewindPlan:
    """What `rewind_run` would do now, with `state_only` as in `ForkRequest`.

    Raises as `fork_run`; `SupersededError` if another run has taken its place already.
    """
    source.need_folder("a rewind")
    if source.record.superseded_by is not None:
        raise SupersededError(
            f"run {source.run_id} was already rewound: run {source.record.superseded_by} took its place",
            hints=(f"arc run rewind {source.record.superseded_by} {target}", f"arc run fork {source.run_id} {target}"),
        )
    timeline = read_timeline(source)
    entry = find_text(timeline, target)
    files_commit(source, timeline, entry, state_only=state_only)
    taken = timeline.entries
    place = next((index for index, one in enumerate(taken) if one.ordinal == entry.ordinal), -1)
    commit = run_commit_at(source, timeline, entry)
    tip = source.repository.ref(source.refs.run_branch) if source.repository is not None else None
    steps: tuple[Step, ...] = ()
    if source.repository is not None and tip is not None and commit is not None:
        steps = _steps(source.repository, tip, commit)
    return RewindPlan(source.run_id, entry, Plan(f"{source.run_id}@{entry.ordinal}", steps), taken[place + 1 :])


def rewind_run(source: KnownRun, request: ForkRequest, world: World, *, confirm: str | None = None) -> Rewound:
    """Fork at the target and let the fork supersede the source. `confirm` is the digest of the plan that was shown.

    Raises:
        LeaseHeldError: the source is live; names its process.
        PlanChangedError: the plan is not the one that was confirmed; nothing was changed.
        And as `fork_run`.
    """
    folder = source.need_folder("a rewind")
    with Lease.acquire(folder.lease_file, what=f"run {source.run_id}", clock=world.clock):
        current = open_known(folder)
        plan = plan_rewind(current, request.target, state_only=request.state_only)
        if confirm is not None and confirm != plan.digest:
            raise PlanChangedError(
                f"the plan for a rewind of run {source.run_id} is {plan.digest} now, not {confirm}; nothing was changed",
                hints=(f"arc run rewind {source.run_id} {request.target} --plan",),
            )
        forked = fork_at(current, read_timeline(current), plan.entry, request, world)
        fault("rewind.forked")
        record = folder.read_record()
        folder.write_record(replace(record, superseded_by=forked.run_id, updated_at=rfc3339(world.clock.now())))
    return Rewound(forked, plan)


def rewind_document(plan: RewindPlan) -> JsonObject:
    """The plan as `--plan --json` prints it."""
    return {
        "run_id": plan.run_id,
        "target": f"@{plan.entry.ordinal}",
        "node": plan.entry.path or None,
        "digest": plan.digest,
        "steps": [
            {**name_fields("path", step.path), "action": step.action, "now": step.now, "then": step.then} for step in plan.files.steps
        ],
        "left_behind": [{"ordinal": one.ordinal, "node": one.path, "status": one.status, "commit": one.commit} for one in plan.left_behind],
    }


def _steps(repository: Repository, tip: str, commit: str) -> tuple[Step, ...]:
    changes = compare_trees(repository, tree_of(repository, tip), tree_of(repository, commit))
    steps = [Step(change.path, _action(change.old, change.new), _hash(change.old), _hash(change.new)) for change in changes]
    return tuple(sorted(steps, key=lambda step: step.path))


def _action(now: Entry | None, then: Entry | None) -> Action:
    if then is None:
        return "delete"
    if now is None:
        return "restore"
    if now.mode & 0o170000 != then.mode & 0o170000:
        return "kind"
    return "mode" if now.id == then.id else "restore"


def _hash(entry: Entry | None) -> str | None:
    return f"{entry.mode:06o} {entry.id}" if entry is not None else None
