"""The workspace of a run: made at the start (both refs in one transaction, then the worktree), opened again on a resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arc.base.errors import ArcError
from arc.base.faults import declare_faults, fault
from arc.base.json import encode
from arc.base.redact import Redactor
from arc.runs.errors import StateMismatchError
from arc.runs.live import LiveRun
from arc.runs.records import MANIFEST_SCHEMA, Manifest, RunRecord
from arc.runs.redaction import redacted
from arc.runs.store import RunFolder, source_names
from arc.sandbox.local import LocalSandboxes
from arc.sandbox.protocol import SandboxProvider
from arc.workflow.language.variables import environment_names
from arc.workflow.model import Workflow
from arc.workspace.git.metadata import METADATA_PREFIX, MetadataBranch
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.workspace import GitWorkspace
from arc.workspace.in_place import InPlaceWorkspace
from arc.workspace.protocol import Workspace

HEADS = "refs/heads/"

declare_faults(
    {
        "start.metadata": "the first metadata commit object exists, no ref names it",
        "start.refs": "run branch and metadata ref exist, the worktree does not",
        "start.worktree": "the worktree is there, run.json does not say `running`",
    }
)


@dataclass(frozen=True)
class Opened:
    """A workspace, and whether its files were written just now (setup commands must run then)."""

    workspace: Workspace
    fresh: bool


def sandboxes(live: LiveRun) -> SandboxProvider:
    """Where this run's commands run: the inherited environment (or what `[environment] pass` names), goal and inputs,
    the configured one."""
    config = live.config.environment
    inherited = {
        name: value
        for name, value in live.world.environ.items()
        if not config.pass_through or name in config.pass_through or name in _ALWAYS_PASSED
    }
    variables = {**environment_names(live.workflow.goal, live.workflow.inputs), **config.variables, RUN_VARIABLE: live.run_id}
    return LocalSandboxes(inherited, variables=variables)


RUN_VARIABLE = "ARC_RUN_ID"
"""Set for every command of a run; a resume ends the processes of a dead arc by it."""

_ALWAYS_PASSED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR"})


def open_workspace(live: LiveRun, *, expected: str | None = None) -> Opened:
    """The run's workspace. Blocks. What a crash left out of refs and worktree is made here, so start and resume share this door.

    `expected` is the commit of the last checkpoint on the run branch, if known.
    """
    if live.record.mode == "git":
        return _open_git(live, expected)
    if live.record.mode == "dry_run":
        scratch = live.folder.scratch
        scratch.mkdir(mode=0o700, exist_ok=True)
        return Opened(InPlaceWorkspace(scratch, sandboxes(live), live.tell, dry=True), fresh=False)
    return Opened(InPlaceWorkspace(_directory(live), sandboxes(live), live.tell), fresh=False)


def _directory(live: LiveRun) -> Path:
    return Path(live.record.start_directory)


def _open_git(live: LiveRun, expected: str | None) -> Opened:
    repository, record = live.repository, live.record
    assert repository is not None
    assert record.run_branch is not None
    ref = HEADS + record.run_branch
    made = _make_refs(live, repository, ref)
    fresh = never_filled(live.folder.worktree)
    try:
        workspace = GitWorkspace.attach(
            repository,
            run_id=record.run_id,
            path=live.folder.worktree,
            ref=ref,
            subdirectory=record.subdirectory,
            exclude_globs=live.config.checkpoint.exclude_globs,
            sandboxes=sandboxes(live),
            notices=live.tell,
            expected=expected,
        )
    except (ArcError, OSError):
        if made:  # nothing was done yet: no ref is left behind
            transact(repository, [RefUpdate(update.ref, None, update.new) for update in made])
        raise
    fault("start.worktree")
    return Opened(workspace, fresh)


def never_filled(worktree: Path) -> bool:
    """Whether a worktree's files were never written (it does not exist, or a crash came between its registration and its files)."""
    try:
        link = (worktree / ".git").read_text("utf-8", "surrogateescape")
    except OSError:
        return not worktree.is_dir() or not any(worktree.iterdir())  # a node may have removed the link: its files are still work
    admin = Path(link.removeprefix("gitdir:").strip())
    return not any((admin / name).exists() for name in ("index", "arc-index"))


def _make_refs(live: LiveRun, repository: Repository, ref: str) -> tuple[RefUpdate, ...]:
    """Create run branch and metadata ref together if neither exists; returns what was made.

    Raises `StateMismatchError` if only one of them exists.
    """
    record = live.record
    metadata = MetadataBranch(repository, record.run_id)
    branch_tip, metadata_tip = repository.ref(ref), metadata.head()
    if branch_tip is not None and metadata_tip is not None:
        return ()
    if branch_tip is not None or metadata_tip is not None:
        there, gone = (ref, metadata.ref) if branch_tip is not None else (metadata.ref, ref)
        raise StateMismatchError(
            f"run {record.run_id} has the ref `{there}` and lacks `{gone}`",
            hints=(f"fetch it from where the run ran: `git fetch REMOTE {gone}:{gone}`",),
        )
    start = record.snapshot_sha or record.base_sha
    assert start is not None
    first = metadata.prepare(metadata_files(live.record, live.workflow, live.folder, live.redactor), "init run")
    fault("start.metadata")
    updates = (RefUpdate(ref, start, None), first)
    transact(repository, updates)
    fault("start.refs")
    return updates


def metadata_files(record: RunRecord, workflow: Workflow, folder: RunFolder, redactor: Redactor) -> Mapping[str, bytes]:
    """What the metadata branch begins with: manifest.json, graph.dot, sources/."""
    sources = folder.read_sources()
    names = source_names(sources)
    files = {f"sources/{names[written]}": text.encode() for written, text in sources.items()}
    manifest = Manifest(
        schema=MANIFEST_SCHEMA,
        run_id=record.run_id,
        graph_name=workflow.name,
        goal=record.goal,
        start_time=record.created_at,
        node_count=len(workflow.nodes),
        edge_count=len(workflow.edges),
        run_branch=record.run_branch or "",
        base_sha=record.base_sha or "",
        workflow_file=record.workflow_file,
        config=record.config,
        subdirectory=record.subdirectory,
        labels=record.labels,
        sources={written: f"sources/{name}" for written, name in names.items()},
        forked_from=record.forked_from,
        arc_version=record.arc_version,
        snapshot_sha=record.snapshot_sha,
    )
    return {"manifest.json": encode(redacted(manifest, redactor)), "graph.dot": folder.read_graph().encode(), **files}


def metadata_ref(run_id: str) -> str:
    """The full name of a run's metadata ref."""
    return f"{METADATA_PREFIX}{run_id}"
