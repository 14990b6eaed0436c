"""A run that this process holds: its folder, lease, record, configuration and event log, opened once and closed once.

Made by `arc.runs.start` and `arc.runs.resume`, walked by `arc.runs.execute`. The record in memory is the stored one (secrets
replaced); the configuration is the live one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from arc.base.clock import rfc3339
from arc.base.locks import Lease
from arc.base.redact import Redactor
from arc.runs.config import RunConfig
from arc.runs.errors import RecordWriteError
from arc.runs.events import EventLog, notice
from arc.runs.records import RunRecord
from arc.runs.store import RunFolder
from arc.runs.world import World
from arc.workflow.model import Workflow
from arc.workspace.git.repository import Repository
from arc.workspace.notices import Notice


@dataclass
class LiveRun:
    """One run in the hands of this process. `repository` is None for runs without Git checkpoints."""

    world: World
    folder: RunFolder
    lease: Lease
    record: RunRecord
    config: RunConfig
    workflow: Workflow
    redactor: Redactor
    events: EventLog
    repository: Repository | None = None
    place: Lease | None = None
    """The lease on the directory of a run in place."""

    @property
    def run_id(self) -> str:
        return self.record.run_id

    def tell(self, told: Notice) -> None:
        """Write a notice to the events (a `NoticeSink`; callable from any thread)."""
        self.events.emit(notice(told.level, told.code, told.message, told.details))

    def update(self, **changes: object) -> None:
        """Change fields of `run.json`, durable.

        Raises:
            RecordWriteError: it could not be written; the record in memory is unchanged then.
        """
        record = replace(self.record, updated_at=rfc3339(self.world.clock.now()), **changes)  # type: ignore[arg-type]
        try:
            self.folder.write_record(record)
        except OSError as error:
            raise RecordWriteError(f"`{self.folder.run_file}` could not be written: {error.strerror}") from error
        self.record = record

    def close(self) -> None:
        """Close the event log and give the leases back. Idempotent."""
        self.events.close()
        if self.place is not None:
            self.place.release()
        self.lease.release()
