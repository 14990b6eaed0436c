"""Runs made by hand for tests of history: folder, run branch and metadata branch, through the same doors that a real run writes through."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from arc.base.clock import rfc3339
from arc.base.json import JsonObject, encode, encode_line
from arc.runs.checkpoints import place_commit, with_root
from arc.runs.config import RunConfig
from arc.runs.history.lookup import KnownRun, open_known
from arc.runs.records import MANIFEST_SCHEMA, RUN_SCHEMA, CheckpointFile, CompletedRecord, Manifest, RunRecord
from arc.runs.store import RunFolder, create_run_folder
from arc.runs.world import World
from arc.workflow.outcome import Outcome
from arc.workflow.state import FrameState, OpenBlock, RunState, RunStatus
from arc.workspace.git.metadata import MetadataBranch
from arc.workspace.git.objects import FILE, Entry, edit_tree, tree_of, write_commit
from arc.workspace.git.refs import RefUpdate, transact
from arc.workspace.git.repository import Repository
from arc.workspace.git.trailers import format_message
from tests.conftest import Repo

GRAPH = "digraph made { start [shape=Mdiamond]; plan; build; exit [shape=Msquare]; start -> plan -> build -> exit }\n"


class SteppedClock:
    """One second later at each look; sleeping does not wait."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 30, 12, tzinfo=UTC)

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@dataclass
class CountedIds:
    """Run ids `01TEST...0001`, `...0002`: ordered, and different from their first 8 characters on only in the end."""

    count: int = 0

    def run_id(self) -> str:
        self.count += 1
        return f"01TESTRUN{self.count:017d}"


def make_world(home: Path) -> World:
    return World(home=home, environ={"HOME": str(home)}, clock=SteppedClock(), ids=CountedIds())


@dataclass
class MadeRun:
    """A run under construction. Each `node` is a completed execution with its checkpoint; `git=False` keeps it on the disk only."""

    world: World
    repo: Repo
    git: bool = True
    context: JsonObject = field(default_factory=dict)
    ordinal: int = 0

    def __post_init__(self) -> None:
        self.run_id = self.world.ids.run_id()
        self.folder: RunFolder = create_run_folder(self.world, self.run_id)
        found = Repository.discover(self.repo.path)
        assert found is not None
        self.repository = found
        self.base = self.repo.head
        self.branch = f"refs/heads/arc/run/{self.run_id}"
        self.frame = FrameState(git_commit_sha=self.base if self.git else None)
        self.status: RunStatus = "running"
        self.metadata = MetadataBranch(self.repository, self.run_id)
        self.folder.write_graph(GRAPH)
        self.folder.write_record(self._record())
        self.events: list[JsonObject] = []
        if self.git:
            files = {"manifest.json": encode(self._manifest()), "graph.dot": GRAPH.encode()}
            transact(self.repository, [RefUpdate(self.branch, self.base, None), self.metadata.prepare(files, f"init run {self.run_id}")])

    def _record(self) -> RunRecord:
        return RunRecord(
            schema=RUN_SCHEMA,
            run_id=self.run_id,
            mode="git" if self.git else "in_place",
            status="running",
            workflow="made",
            workflow_file="made.dot",
            goal="Make it",
            config=RunConfig(graph="made.dot", inputs={"style": "plain"}),
            start_directory=str(self.repo.path),
            created_at=rfc3339(self.world.clock.now()),
            updated_at=rfc3339(self.world.clock.now()),
            arc_version="0",
            repository=str(self.repository.common_dir) if self.git else None,
            base_sha=self.base if self.git else None,
            run_branch=f"arc/run/{self.run_id}" if self.git else None,
            metadata_ref=f"refs/arc/{self.run_id}" if self.git else None,
        )

    def _manifest(self) -> Manifest:
        record = self.folder.read_record()
        return Manifest(
            schema=MANIFEST_SCHEMA,
            run_id=self.run_id,
            graph_name="made",
            goal="Make it",
            start_time=record.created_at,
            node_count=4,
            edge_count=3,
            run_branch=f"arc/run/{self.run_id}",
            base_sha=self.base,
            workflow_file="made.dot",
            config=record.config,
        )

    @property
    def known(self) -> KnownRun:
        return open_known(self.folder)

    def node(
        self,
        node: str,
        files: Mapping[str, str] | None = None,
        *,
        status: str = "success",
        next_node: str | None = None,
        ordinal: int | None = None,
        ref: str | None = None,
        block: OpenBlock | None = None,
        frame: str = "",
        artifacts: Mapping[str, bytes] | None = None,
    ) -> str:
        """Complete a node of the root frame (or, with `block`, of a frame in it) and take its checkpoint. Returns the commit."""
        self.ordinal = ordinal if ordinal is not None else self.ordinal + 1
        root = self.frame
        if not frame:
            root = replace(
                root,
                current_node=node,
                next_node_id=next_node,
                completed_nodes=(*root.completed_nodes, node),
                node_visits={**root.node_visits, node: root.node_visits.get(node, 0) + 1},
                node_retries={**root.node_retries, node: 0},
                node_outcomes={**root.node_outcomes, node: Outcome(status="fail" if status == "fail" else "success", duration_ms=1500)},
                context_values={**self.context, "last": node},
            )
        root = replace(root, open_block=block)
        state = RunState(root=root, ordinal=self.ordinal, next_ordinal=self.ordinal + 1, status=self.status, elapsed_ms=2000)
        completed = CompletedRecord(node, frame + node, frame, self.ordinal, status)
        file = CheckpointFile.from_state(state, run_id=self.run_id, timestamp=rfc3339(self.world.clock.now()), completed=completed)
        for name, data in (artifacts or {}).items():
            self.folder.artifacts.mkdir(exist_ok=True)
            (self.folder.path / name).write_bytes(data)
        commit = self._commit(file, files or {}, completed, ref or self.branch, artifacts or {}) if self.git else ""
        self.folder.write_checkpoint(encode(file if not commit else with_root(file, place_commit(root, frame, commit))))
        self.frame = place_commit(root, frame, commit) if commit else root
        self._event("node.started", completed, {"visit": root.node_visits.get(node, 1)})
        self._event(
            "node.completed" if status != "fail" else "node.failed", completed, {"status": status, "attempts": 1, "duration_ms": 1500}
        )
        self._event("checkpoint.saved", completed, {"commit": commit or None})
        return commit

    def _commit(
        self, file: CheckpointFile, files: Mapping[str, str], completed: CompletedRecord, ref: str, artifacts: Mapping[str, bytes]
    ) -> str:
        parent = self.repository.ref(ref)
        assert parent is not None, ref
        pygit2 = self.repository.pygit2
        edits = {os.fsencode(name): Entry(FILE, str(pygit2.create_blob(text.encode()))) for name, text in files.items()}
        tree = edit_tree(self.repository, tree_of(self.repository, parent), edits)
        copy = with_root(file, place_commit(file.to_state().root, completed.frame, None), git_tree_sha=tree, git_parent_sha=parent)
        update = self.metadata.prepare({"checkpoint.json": encode(copy), **artifacts}, f"checkpoint {completed.ordinal}")
        message = format_message(self.run_id, completed.path, completed.status, len(file.completed_nodes), update.new)
        commit = write_commit(self.repository, tree, [parent], message)
        transact(self.repository, [RefUpdate(ref, commit, parent), update])
        return commit

    def _event(self, name: str, completed: CompletedRecord, properties: JsonObject) -> None:
        line: JsonObject = {
            "ts": rfc3339(self.world.clock.now()),
            "run_id": self.run_id,
            "sequence": len(self.events) + 1,
            "event": name,
            "node": completed.path,
            "ordinal": completed.ordinal,
            "properties": properties,
        }
        self.events.append(line)
        with self.folder.events_file.open("ab") as log:
            log.write(encode_line(line))

    def finish(self, status: RunStatus = "success") -> None:
        """The final status, on the disk and as a last commit of the metadata branch."""
        self.status = status
        checkpoint = self.folder.read_checkpoint()
        assert checkpoint is not None
        assert checkpoint.completed is not None
        final = replace(checkpoint, status=status)
        self.folder.write_checkpoint(encode(final))
        if self.git:
            copy = with_root(final, place_commit(final.to_state().root, checkpoint.completed.frame, None))
            transact(self.repository, [self.metadata.prepare({"checkpoint.json": encode(copy)}, f"finish run ({status})")])
        self.folder.write_record(replace(self.folder.read_record(), status=status))

    def sample(self) -> MadeRun:
        """start, plan (writes a.txt), build (twice; changes a.txt, adds b.txt), exit."""
        self.node("start", next_node="plan")
        self.node("plan", {"a.txt": "one\n"}, next_node="build")
        self.node("build", {"a.txt": "two\n", "src/b.txt": "b\n"}, next_node="build", status="fail")
        self.node("build", {"src/b.txt": "better\n"}, next_node="exit")
        self.node("exit")
        return self
