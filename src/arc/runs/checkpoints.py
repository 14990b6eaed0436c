"""The checkpoint cycle: after each completed node, the state to the disk, then state and files to Git, then the disk copy again.

    1  checkpoint.json on the disk (durable); artifacts that it refers to before it
    2  the files staged as a tree; a metadata commit object with checkpoint.json and new artifacts
    3  a run commit object whose trailers name the metadata commit; both refs moved in one transaction
    4  checkpoint.json again, with `git_commit_sha`

If step 1 fails, the run stops. Steps 2 to 4 are best effort: a failure is told (`checkpoint.failed` and a warning that says what is
still safe) and the next checkpoint commits what this one could not. docs/runs.md has the state after a crash at each step.

Threads: `save` is called on the event loop, one call at a time; the work is done in one thread and, once begun, is never left half
done by a cancellation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec
import pygit2

from arc.base.clock import Clock, rfc3339
from arc.base.errors import ArcError
from arc.base.faults import declare_faults, fault
from arc.base.json import JsonObject, JsonValue, decode, encode
from arc.base.redact import Redactor
from arc.runs.artifacts import LIMIT, ArtifactStore, map_values, references
from arc.runs.errors import CheckpointWriteError
from arc.runs.events import LOG_LIMIT, notice
from arc.runs.records import CheckpointFile, CompletedRecord
from arc.runs.redaction import storable
from arc.runs.store import RunFolder
from arc.runs.threads import to_end
from arc.workflow.engine.doors import CheckpointReceipt, Completed, Event, EventSink
from arc.workflow.state import FrameState, RunState, change_frame
from arc.workspace.git.branch_worktree import Staged
from arc.workspace.git.coverage import show
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.refs import transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.trailers import format_message
from arc.workspace.git.workspace import GitWorkspace

declare_faults(
    {
        "checkpoint.begin": "a node has completed, nothing of its checkpoint exists",
        "checkpoint.disk": "step 1 done: checkpoint.json is on the disk, Git knows nothing of it",
        "checkpoint.staged": "the files are staged as a tree, no commit names it",
        "checkpoint.metadata": "step 2 done: the metadata commit object exists, no ref names it",
        "checkpoint.refs": "step 3 done: both refs have moved, checkpoint.json does not know the commit",
        "checkpoint.resaved": "step 4 done",
        "checkpoint.told": "the checkpoint is complete and told, the next node has not begun",
        "finish.disk": "the final status is in checkpoint.json, Git does not know it",
        "finish.refs": "the final status is on the metadata branch, run.json does not know it",
    }
)

GIT_FAILURES = (ArcError, OSError, pygit2.GitError, LookupError, ValueError)
"""What a failing Git operation raises, through git itself, pygit2 and the file system."""


@dataclass(frozen=True)
class Stored:
    """A checkpoint ready to be written: its document, and the names of the artifacts it refers to."""

    file: CheckpointFile
    artifacts: frozenset[str]


@dataclass(frozen=True)
class Touched:
    """The paths in which a checkpoint differs from the one before it: names (not more than an outcome holds), and how many there are."""

    names: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Committed:
    """What steps 2 and 3 made: run commit and metadata commit, the tree of the former and the commit before it; the state as committed
    (without the run commit); the paths that changed."""

    commit: str
    metadata: str
    tree: str
    parent: str
    root: FrameState
    touched: Touched


class CheckpointWriter:
    """Writes the checkpoints of one run (the engine's `Checkpoints`). `repository` is None for a run without Git."""

    def __init__(
        self,
        folder: RunFolder,
        *,
        clock: Clock,
        redactor: Redactor,
        events: EventSink,
        repository: Repository | None,
        committed: frozenset[str] = frozenset(),
        logs: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """`committed` are names of artifacts that the metadata branch has already; `logs` gives what the run has told so far."""
        self._folder = folder
        self._clock = clock
        self._redactor = redactor
        self._events = events
        self._repository = repository
        self._metadata = None if repository is None else MetadataBranch(repository, folder.run_id)
        self._artifacts = ArtifactStore(folder.artifacts)
        self._committed = set(committed)
        self._logs = logs
        self._kept: dict[bytes, JsonValue] = {}

    async def save(self, state: RunState, completed: Completed) -> CheckpointReceipt:
        """One cycle. Raises `CheckpointWriteError` if step 1 fails: the node's result is then not saved anywhere."""
        record = CompletedRecord(completed.node_id, completed.path, completed.frame, completed.ordinal, completed.status)
        return await to_end(self._save, state, record, completed)

    def _save(self, state: RunState, record: CompletedRecord, completed: Completed) -> CheckpointReceipt:
        fault("checkpoint.begin")
        stored = self.to_disk(state, record)
        committed: Committed | None = None
        workspace = completed.workspace
        if self._metadata is not None and isinstance(workspace, GitWorkspace):
            try:
                committed = self.to_git(stored, record, workspace)
            except GIT_FAILURES as error:
                self._tell_failure(stored, record, error)
                return CheckpointReceipt(None)
            self.resave(stored, record, committed)
        self.tell(record, committed)
        if committed is None:
            return CheckpointReceipt(None)
        return CheckpointReceipt(committed.commit, committed.touched.names, committed.touched.count)

    def tell(self, record: CompletedRecord, committed: Committed | None) -> None:
        """Emit `checkpoint.saved`."""
        commit, metadata = (committed.commit, committed.metadata) if committed else (None, None)
        files = committed.touched.count if committed else None
        properties: JsonObject = {"commit": commit, "metadata": metadata, "status": record.status, "files": files}
        self._events.emit(Event("checkpoint.saved", record.path, record.ordinal, properties))
        fault("checkpoint.told")

    def to_disk(self, state: RunState, record: CompletedRecord | None) -> Stored:
        """Step 1. Raises `CheckpointWriteError`."""
        try:
            stored = self._stored(state, record)
            self._folder.write_checkpoint(encode(stored.file))
        except (OSError, TypeError, ValueError) as error:
            what = f"after node `{record.path}` (ordinal {record.ordinal})" if record else "at the end of the run"
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CheckpointWriteError(
                f"the checkpoint {what} could not be written to `{self._folder.checkpoint_file}`: {reason}",
                hints=(f"when the cause is removed: `arc run resume {self._folder.run_id}`",),
                details=("the run has stopped; the checkpoint before it is still there, and so are the files",),
            ) from error
        fault("checkpoint.disk")
        return stored

    def to_git(self, stored: Stored, record: CompletedRecord, workspace: GitWorkspace) -> Committed:
        """Steps 2 and 3: commit the workspace's files as the result of `record`.

        Raises one of `GIT_FAILURES`; no ref has moved then.
        """
        assert self._metadata is not None
        staged = workspace.stage()
        fault("checkpoint.staged")
        touched = self._touched(staged)
        root = note_files(place_commit(stored.file.to_state().root, record.frame, None), record, touched)
        file = with_root(stored.file, root, git_tree_sha=staged.tree, git_parent_sha=staged.parent, git_error=None)
        new = stored.artifacts - self._committed
        update = self._metadata.prepare(self._metadata_files(file, new), f"checkpoint {record.ordinal}: {record.path} ({record.status})")
        fault("checkpoint.metadata")
        did = None if staged.moved_head is None else self._redactor.text(staged.moved_head)
        message = format_message(self._folder.run_id, record.path, record.status, count_completed(root), update.new, did)
        commit = workspace.checkpoint(staged, message, [update])
        self._committed |= new
        fault("checkpoint.refs")
        return Committed(commit, update.new or "", staged.tree, staged.parent, root, touched)

    def _touched(self, staged: Staged) -> Touched:
        names = tuple(self._redactor.text(show(path)) for path in staged.paths)
        return Touched(names, staged.changes)

    def finish(self, state: RunState) -> None:
        """Write the final status: checkpoint.json on the disk, then on the metadata branch alone (no files have changed).

        Raises `CheckpointWriteError` if the disk fails. A failure of Git is told.
        """
        before = self._folder.read_checkpoint()
        if before is None or (before.status == state.status and before.failure == state.failure):
            return
        record = before.completed
        # What the last checkpoint said about files stays true: only status, failure and time are new.
        stored = self._stored(state, record)
        root = stored.file.to_state().root
        if record is not None and before.git_error is None:
            root = replace(root, git_commit_sha=before.git_commit_sha)
        file = with_root(
            stored.file, root, git_tree_sha=before.git_tree_sha, git_parent_sha=before.git_parent_sha, git_error=before.git_error
        )
        try:
            self._folder.write_checkpoint(encode(file))
        except OSError as error:
            raise CheckpointWriteError(
                f"the final state could not be written to `{self._folder.checkpoint_file}`: {error.strerror}"
            ) from error
        fault("finish.disk")
        if self._metadata is None or self._repository is None or before.git_error is not None:
            return
        try:
            frame = record.frame if record else ""
            copy = with_root(file, place_commit(root, frame, None))
            update = self._metadata.prepare(self._metadata_files(copy, stored.artifacts - self._committed), f"finish run ({state.status})")
            transact(self._repository, [update])
        except GIT_FAILURES as error:
            self._events.emit(
                notice("warning", "finish.git_failed", f"the final status could not be written to the metadata branch: {_cause(error)}")
            )
        fault("finish.refs")

    def _stored(self, state: RunState, record: CompletedRecord | None) -> Stored:
        """The state as it is stored: secrets replaced, large values moved to artifacts (written here)."""
        root = map_values(state.root, self._keep)
        file = CheckpointFile.from_state(
            replace(state, root=root),
            run_id=self._folder.run_id,
            timestamp=rfc3339(self._clock.now()),
            completed=record,
            logs=self._logs()[-LOG_LIMIT:],
        )
        plain = storable(msgspec.to_builtins(file), self._redactor)
        return Stored(decode(msgspec.json.encode(plain), CheckpointFile, self._folder.checkpoint_file), references(root))

    def _keep(self, value: JsonValue) -> JsonValue:
        """A value as it is stored. A large text is looked through once and known again by its hash: it stays in the context of every
        later checkpoint."""
        if not isinstance(value, str) or len(value) <= LIMIT:
            return self._artifacts.keep(storable(value, self._redactor))
        key = hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
        if key not in self._kept:
            self._kept[key] = self._artifacts.keep(storable(value, self._redactor))
        return self._kept[key]

    def _metadata_files(self, file: CheckpointFile, artifacts: frozenset[str]) -> Mapping[str, bytes]:
        files = {"checkpoint.json": encode(file)}
        for name in sorted(artifacts):
            data = self._artifacts.read(name)
            if data is None:
                raise FileNotFoundError(f"artifact `{name}` has vanished from the run folder")
            files[name] = data
        return files

    def resave(self, stored: Stored, record: CompletedRecord, committed: Committed) -> None:
        """Step 4. Its failure loses nothing: the commit is there, and a resume finds it."""
        root = place_commit(committed.root, record.frame, committed.commit)
        file = with_root(stored.file, root, git_tree_sha=committed.tree, git_parent_sha=committed.parent, git_error=None)
        try:
            self._folder.write_checkpoint(encode(file))
        except OSError as error:
            message = (
                f"`{self._folder.checkpoint_file}` could not be completed with the commit of ordinal {record.ordinal}: {error.strerror}"
            )
            self._events.emit(notice("warning", "checkpoint.resave_failed", message, ("Git has the whole checkpoint",)))
        fault("checkpoint.resaved")

    def _tell_failure(self, stored: Stored, record: CompletedRecord, error: BaseException) -> None:
        cause = _cause(error)
        kept = "the state is in checkpoint.json, the files are in the worktree; the next checkpoint will try to commit them again"
        try:
            file = replace(stored.file, git_error=cause)
            self._folder.write_checkpoint(encode(file))
        except OSError:
            kept += " (that Git failed could not be noted in checkpoint.json)"
        self._events.emit(Event("checkpoint.failed", record.path, record.ordinal, {"cause": cause}))
        details = (*(error.details if isinstance(error, ArcError) else ()), f"still safe: {kept}")
        message = f"the checkpoint after node `{record.path}` (ordinal {record.ordinal}) could not be committed to Git: {cause}"
        self._events.emit(notice("warning", "checkpoint.git_failed", message, details, ordinal=record.ordinal))


def place_commit(frame: FrameState, prefix: str, commit: str | None) -> FrameState:
    """The frame with `commit` as the commit of the frame `prefix` inside it, and of all frames that share its workspace (children do)."""
    block = frame.open_block
    if frame.prefix == prefix or block is None:
        return replace(frame, git_commit_sha=commit) if frame.prefix == prefix else frame
    if block.child is not None and prefix.startswith(block.child.prefix):
        child = place_commit(block.child, prefix, commit)
        shared = child.git_commit_sha == commit
        return replace(frame, git_commit_sha=commit if shared else frame.git_commit_sha, open_block=replace(block, child=child))
    branches = tuple(
        replace(branch, frame=place_commit(branch.frame, prefix, commit)) if prefix.startswith(branch.frame.prefix) else branch
        for branch in block.branches
    )
    return replace(frame, open_block=replace(block, branches=branches))


def note_files(frame: FrameState, record: CompletedRecord, touched: Touched) -> FrameState:
    """The frame with the files that its completed node touched in that node's outcome (if a `loop_restart` has left one)."""

    def change(one: FrameState) -> FrameState:
        outcome = one.node_outcomes.get(record.node)
        if outcome is None:
            return one
        outcome = replace(outcome, files_touched=touched.names, files_touched_count=touched.count)
        return replace(one, node_outcomes={**one.node_outcomes, record.node: outcome})

    return change_frame(frame, record.frame, change)


def count_completed(frame: FrameState) -> int:
    """Completed nodes of a frame and of all frames open inside it."""
    block = frame.open_block
    inner = 0
    if block is not None:
        inner = sum(count_completed(branch.frame) for branch in block.branches) + (count_completed(block.child) if block.child else 0)
    return len(frame.completed_nodes) + inner


def with_root(file: CheckpointFile, root: FrameState, **changes: str | None) -> CheckpointFile:
    """The document with the commits and outcomes of another version of its root frame, and further fields changed."""
    return replace(
        file,
        git_commit_sha=root.git_commit_sha,
        node_outcomes=root.node_outcomes,
        open_block=root.open_block,
        **changes,  # type: ignore[arg-type]
    )


def _cause(error: BaseException) -> str:
    if isinstance(error, ArcError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
