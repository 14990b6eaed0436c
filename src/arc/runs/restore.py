"""Makes a run folder known where it is not: filled from the two refs (a fresh clone), or registered where it was moved to.

The folder is created exclusively and claimed like that of a start; run.json is written last, so a crash leaves a folder that is
filled again by the next resume.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from arc.base.clock import rfc3339
from arc.base.errors import CorruptError
from arc.base.faults import declare_faults, fault
from arc.base.locks import Lease
from arc.runs.artifacts import ArtifactStore
from arc.runs.errors import LogsDirError, RunIncompleteError
from arc.runs.history.lookup import record_from_refs
from arc.runs.store import RUN_BRANCH_PREFIX, RunFolder, create_run_folder, open_run_folder, parse_manifest, register_elsewhere
from arc.runs.world import World
from arc.workspace.git.metadata import METADATA_PREFIX, MetadataBranch
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository

declare_faults({"restore.filled": "a restored folder has everything but run.json"})


def claim_folder(world: World, run_id: str) -> tuple[RunFolder, Lease]:
    """The folder of a run, made if there is none, and its lease. Raises `LeaseHeldError`, `LogsDirError`."""
    try:
        folder = create_run_folder(world, run_id)
    except LogsDirError:
        if not (world.runs / run_id).is_dir():
            raise
        folder = open_run_folder(world.runs / run_id)
    return folder, Lease.acquire(folder.lease_file, what=f"run {run_id}", clock=world.clock)


def adopt_remote_refs(repository: Repository, run_id: str) -> None:
    """Make local branches of a run from the remote-tracking ones of a clone, where local ones are missing."""
    names = list(repository.pygit2.references)
    for kind in (f"{RUN_BRANCH_PREFIX}{run_id}", f"arc/branch/{run_id}/"):
        for name in names:
            remote, _, rest = name.removeprefix("refs/remotes/").partition("/")
            wanted = rest == kind or (kind.endswith("/") and rest.startswith(kind))
            commit = repository.ref(name) if name.startswith("refs/remotes/") and remote and wanted else None
            if commit is not None and repository.ref(f"refs/heads/{rest}") is None:
                transact(repository, [RefUpdate(f"refs/heads/{rest}", commit, None)])


def fill_from_refs(folder: RunFolder, repository: Repository, world: World, directory: Path) -> None:
    """Write everything of a run folder that the metadata branch has (the caller holds the lease).

    Raises:
        RunIncompleteError: a ref is missing, or it is no run's metadata branch.
        CorruptError: what is in it cannot be read.
    """
    run_id = folder.run_id
    metadata = MetadataBranch(repository, run_id)
    if repository.ref(f"refs/heads/{RUN_BRANCH_PREFIX}{run_id}") is None:
        raise RunIncompleteError(
            f"the metadata of run {run_id} is here and its branch `{RUN_BRANCH_PREFIX}{run_id}` is not",
            hints=(f"git fetch REMOTE refs/heads/{RUN_BRANCH_PREFIX}{run_id}:refs/heads/{RUN_BRANCH_PREFIX}{run_id}",),
        )
    record = record_from_refs(repository, run_id)
    manifest = parse_manifest(metadata.read("manifest.json") or b"", f"{metadata.ref}:manifest.json")
    graph = metadata.read("graph.dot")
    if graph is None:
        raise RunIncompleteError(f"`{metadata.ref}` holds no `graph.dot`")
    sources = {}
    for written, name in manifest.sources.items():
        data = metadata.read(name)
        if data is None:
            raise RunIncompleteError(f"`{metadata.ref}` lacks `{name}`, the text of `{written}`")
        sources[written] = data.decode()
    folder.write_graph(graph.decode())
    folder.write_sources(sources)
    ArtifactStore(folder.artifacts).restore({name: metadata.read(name) or b"" for name in metadata.names("artifacts/")})
    fault("restore.filled")
    folder.write_record(
        replace(
            record,
            status="running" if record.status == "created" else record.status,
            start_directory=str(directory.resolve()),
            worktree=str(folder.worktree),
            updated_at=rfc3339(world.clock.now()),
        )
    )


def metadata_exists(repository: Repository | None, run_id: str) -> bool:
    """Whether a repository has this run's metadata branch."""
    return repository is not None and repository.ref(f"{METADATA_PREFIX}{run_id}") is not None


def register_folder(world: World, folder: Path, run_id: str) -> None:
    """Make a whole run folder known to this home (it was moved, or belongs to another home); one that is not that run's is left alone."""
    beside = RunFolder(folder, run_id)
    try:
        record = beside.read_record()
    except CorruptError:
        return
    if record.run_id == run_id:
        register_elsewhere(world, beside)
