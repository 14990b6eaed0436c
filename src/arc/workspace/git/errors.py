"""What can go wrong with a Git workspace, as errors a person can read."""

from __future__ import annotations

from arc.base.errors import ArcError, BusyError, ExitStatus, RefusedError


class BareRepositoryError(RefusedError):
    """A run was started inside a bare repository or a `.git` folder: there are no files to work on."""

    code = "git.bare"


class UntrustedRepositoryError(RefusedError):
    """The repository belongs to another user, and neither git nor the person's configuration trusts it."""

    code = "git.untrusted"


class BrokenRepositoryError(ArcError):
    """There is a repository, but git cannot read it."""

    code = "git.broken"


class StageError(ArcError):
    """The files could not be captured. No commit was made and nothing older was reused."""

    code = "git.stage"


class RefsMovedError(ArcError):
    """A ref is not where it was expected: another process moved it. No ref of the transaction was changed."""

    code = "git.refs_moved"
    status = ExitStatus.BUSY


class RefsWriteError(ArcError):
    """Refs could not be written (no space, no permission). No ref of the transaction was changed."""

    code = "git.refs_not_written"


class ObjectsVanishedError(ArcError):
    """Objects that were just written are gone: something pruned the repository meanwhile. No ref was changed."""

    code = "git.objects_vanished"


class BranchHeldError(BusyError):
    """Another worktree has the run's branch checked out and is in use."""

    code = "git.branch_held"


class IndexBusyError(BusyError):
    """A live git process holds a lock that is needed."""

    code = "git.index_busy"


class PlanChangedError(RefusedError):
    """The files are no longer what the plan was made for. Nothing was touched."""

    code = "plan.changed"


class WorktreeError(ArcError):
    """The worktree could not be made or re-attached."""

    code = "git.worktree"


class UnreadableCheckpointError(ArcError):
    """A commit or tree that is needed is missing or damaged."""

    code = "git.object"
