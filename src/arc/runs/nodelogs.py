"""`nodes/{ordinal}-{node}/`: what one execution was asked, answered and printed; secrets are replaced before anything is written.

Written on the event loop's thread in small pieces without waiting for the disk: these files explain a run, they do not decide it. A
log that cannot be written is told once per run (`nodelog.failed`); the run goes on, since step 1 of the next checkpoint decides whether
the disk still works.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from arc.base.atomic import make_private_directory, write_atomic
from arc.base.faults import declare_faults, fault
from arc.base.json import JsonObject, encode
from arc.base.redact import Redactor, StreamRedactor
from arc.runs.events import notice
from arc.runs.store import RunFolder
from arc.sandbox.protocol import Stream
from arc.workflow.engine.doors import EventSink

declare_faults(
    {
        "nodelog.opened": "the folder of an execution exists, the node has not begun",
        "nodelog.prompt": "an agent's prompt was written down, the agent was not called",
        "nodelog.response": "an agent's reply was written down, the node has not completed",
        "nodelog.status": "status.json of an execution was replaced",
    }
)


class FolderNodeLogs:
    """Opens node logs in one run folder."""

    def __init__(self, folder: RunFolder, redactor: Redactor, events: EventSink) -> None:
        self._folder = folder
        self._redactor = redactor
        self._events = events
        self._failed = False

    def open(self, ordinal: int, path: str) -> FolderNodeLog:
        """The log of execution `ordinal` of the node at `path`; one that exists (an open block that goes on) is continued."""
        log = FolderNodeLog(self._folder.node_folder(ordinal, path), self._redactor, self._tell)
        fault("nodelog.opened")
        return log

    def _tell(self, error: OSError) -> None:
        if not self._failed:
            self._failed = True
            place = self._folder.nodes
            self._events.emit(
                notice("warning", "nodelog.failed", f"node logs in `{place}` cannot be written: {error.strerror}; the run goes on")
            )


class FolderNodeLog:
    """One execution's log."""

    def __init__(self, directory: Path, redactor: Redactor, failed: Callable[[OSError], None]) -> None:
        self._directory = directory
        self._redactor = redactor
        self._failed = failed
        self._streams: dict[Stream, tuple[int, StreamRedactor]] = {}
        self._guard(lambda: make_private_directory(directory))

    @property
    def directory(self) -> Path:
        return self._directory

    def prompt(self, text: str) -> None:
        """Write prompt.md; the prompt of an earlier attempt becomes prompt.1.md, prompt.2.md, ..."""
        self._text("prompt.md", text)
        fault("nodelog.prompt")

    def response(self, text: str) -> None:
        """Write response.md; earlier ones are kept like prompts."""
        self._text("response.md", text)
        fault("nodelog.response")

    def output(self, stream: Stream, data: bytes) -> None:
        """Append to stdout.log or stderr.log. An unfinished line may appear only with its end, or at `close`."""
        self._guard(lambda: self._append(stream, data))

    def status(self, record: JsonObject) -> None:
        """Replace status.json."""
        data = encode(self._redactor.json(record))
        self._guard(lambda: write_atomic(self._directory / "status.json", data, durable=False))
        fault("nodelog.status")

    def close(self) -> None:
        """Write what is held back and close the files. Idempotent; a later `output` opens them again."""
        streams, self._streams = self._streams, {}
        for descriptor, redactor in streams.values():
            self._guard(partial(_write, descriptor, redactor.close()))
            with suppress(OSError):
                os.close(descriptor)

    def _append(self, stream: Stream, data: bytes) -> None:
        if stream not in self._streams:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._streams[stream] = (os.open(self._directory / f"{stream}.log", flags, 0o600), self._redactor.stream())
        descriptor, redactor = self._streams[stream]
        _write(descriptor, redactor.feed(data))

    def _text(self, name: str, text: str) -> None:
        path = self._directory / name
        data = self._redactor.text(text).encode("utf-8", "replace")

        def replace() -> None:
            if path.exists():
                number = sum(1 for _ in self._directory.glob(f"{path.stem}.*{path.suffix}")) + 1
                path.rename(path.with_name(f"{path.stem}.{number}{path.suffix}"))
            write_atomic(path, data, durable=False)

        self._guard(replace)

    def _guard(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self._failed(error)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
