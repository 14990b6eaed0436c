"""Live progress of a run on stderr, from its events: a line per finished node, and on a terminal a moving line for what runs now.

    ✓ plan                     1.2s  4f6a1c2
    ◆ fan                      2 branches, at most 4 at a time
      ✓ left/fix               3.4s  90ab12c
      ✗ right/fix              0.8s  failed: exit code 2
    ↻ test                     attempt 1 of 3 failed: exit status 1; again in 2.0s

A mark never stands alone: the words say the same. Indentation is the depth of the frame. A node's line waits for its checkpoint, so that
it can name the commit. The moving line appears after a second, changes five times a second and is drawn by rich (imported then).

Threads: `observe` is called on the event loop's thread, and for notices of the workspace from worker threads; `_lock` orders the lines.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arc.base.json import JsonObject, JsonValue
from arc.cli import ui
from arc.cli.findings import nearby
from arc.cli.width import cut, pad

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

DELAY = 1.0
"""Seconds before the moving line appears."""

RATE = 5
"""Updates of the moving line per second."""

NAME_WIDTH = 26
LONGEST_NAME = 48
"""Cells of a node's name; `arc run show` has it whole."""


@dataclass
class _Running:
    """A node in execution."""

    label: str
    since: float


@dataclass
class _Held:
    """Lines of a finished execution that wait for the commit of its checkpoint."""

    frame: str
    lines: list[str]


@dataclass
class Progress:
    """Turns event lines into progress. Use as `World.observer`; call `close` at the end."""

    live: bool = field(default_factory=ui.shows_live_progress)
    run_id: str | None = None
    """The run whose events are seen."""
    _running: dict[int, _Running] = field(default_factory=dict)
    _held: dict[int, _Held] = field(default_factory=dict)
    _conflicts: dict[int, list[str]] = field(default_factory=dict)
    """By the fan-in's ordinal: what is told below its line when it has failed."""
    _live: Live | None = None
    _timer: threading.Timer | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def observe(self, line: JsonObject) -> None:
        """Show one event. Never raises for an event it does not know."""
        self.run_id = str(line["run_id"]) if "run_id" in line else self.run_id
        name = str(line.get("event"))
        if ui.state.json or (ui.state.quiet and name != "run.notice"):
            return
        show = _SHOWN.get(name)
        if show is None:
            return
        properties = line.get("properties")
        event = _Event(
            str(line.get("node") or ""),
            ordinal if isinstance(ordinal := line.get("ordinal"), int) else None,
            properties if isinstance(properties, dict) else {},
        )
        with self._lock:
            show(self, event)

    def close(self) -> None:
        """Show what is held back and end the moving line. Idempotent."""
        with self._lock:
            for ordinal in list(self._held):
                self._release(ordinal)
            self._running.clear()
            self._stop_live()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """No moving line while a question is on the screen."""
        with self._lock:
            was, self.live = self.live, False
            self._stop_live()
        try:
            yield
        finally:
            with self._lock:
                self.live = was
                if self._running:
                    self._start_live(0)

    # what is printed

    def _print(self, text: str) -> None:
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text.from_ansi(ui.clean(text, sys.stderr)), soft_wrap=True)
        else:
            ui.note(text)

    def _hold(self, event: _Event, text: str) -> None:
        if event.ordinal is None:
            self._print(text)
        else:
            self._held.setdefault(event.ordinal, _Held(frame_of(event.node), [])).lines.append(text)

    def _release(self, ordinal: int, suffix: str = "") -> None:
        held = self._held.pop(ordinal, None)
        for number, text in enumerate(held.lines if held else ()):
            self._print(text + suffix if number == 0 else text)

    def _release_before(self, event: _Event) -> None:
        """Whatever waits for a checkpoint in this frame has had its chance when the walk goes on."""
        frame = frame_of(event.node)
        for ordinal in [number for number, held in self._held.items() if held.frame == frame and number != event.ordinal]:
            self._release(ordinal)

    # the moving line

    def _start_live(self, delay: float) -> None:
        if not self.live or self._live is not None or self._timer is not None:
            return
        self._timer = threading.Timer(delay, self._draw_live)
        self._timer.daemon = True
        self._timer.start()

    def _draw_live(self) -> None:
        from rich.live import Live

        with self._lock:
            self._timer = None
            if not self.live or not self._running or self._live is not None:
                return
            self._live = Live(
                console=ui.console(sys.stderr),
                get_renderable=self._moving_line,
                refresh_per_second=RATE,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _stop_live(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _moving_line(self) -> Text:
        from rich.text import Text

        now = time.monotonic()
        frame = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(now * RATE) % 10]
        parts = [f"{item.label} {seconds(now - item.since)}" for item in list(self._running.values())]
        text = Text(f"{frame} {' · '.join(parts)}", no_wrap=True, overflow="ellipsis")
        text.stylize("cyan", 0, 1)
        return text

    # one method per kind of event

    def _node_started(self, event: _Event) -> None:
        self._release_before(event)
        if event.ordinal is not None:
            self._running[event.ordinal] = _Running(short_path(event.node), time.monotonic())
        self._start_live(DELAY)

    def _node_ended(self, event: _Event) -> None:
        if event.ordinal is not None:
            self._running.pop(event.ordinal, None)
            if not self._running:
                self._stop_live()

    def _node_completed(self, event: _Event) -> None:
        self._node_ended(event)
        status = event.text("status")
        mark, style = ("✓", "green") if status == "success" else ("~", "yellow")
        words = "" if status == "success" else f"{status.replace('_', ' ')}  "
        preferred = event.text("preferred_label")
        if preferred:
            words += f"→ {preferred}  "
        self._hold(event, node_line(mark, style, event.node, f"{event.duration()} {words}".rstrip()))

    def _node_failed(self, event: _Event) -> None:
        self._node_ended(event)
        conflicts = self._conflicts.pop(event.ordinal or 0, [])
        why = "merge conflict" if conflicts else event.text("message") or event.text("reason")
        self._hold(event, node_line("✗", "red", event.node, f"{event.duration()} failed: {why}"))
        for text in conflicts:
            self._hold(event, text)

    def _node_retrying(self, event: _Event) -> None:
        delay = event.number("delay_ms") / 1000
        text = f"attempt {event.text('attempt')} of {event.text('of')} failed: {event.text('message')}; again in {seconds(delay)}"
        self._print(node_line("↻", "yellow", event.node, text))

    def _loop_restarted(self, event: _Event) -> None:
        self._release_before(event)
        self._print(node_line("↻", "yellow", event.text("target"), "starts over"))

    def _checkpoint_saved(self, event: _Event) -> None:
        commit = event.text("git_commit_sha") or event.text("commit")
        if event.ordinal is not None:
            self._release(event.ordinal, f"  {_dim(commit[:7])}" if commit else "")

    def _parallel_started(self, event: _Event) -> None:
        self._release_before(event)
        branches = event.properties.get("branches")
        count = len(branches) if isinstance(branches, list) else event.number("branches")
        limit = event.text("max_parallel")
        self._print(node_line("◆", "blue", event.node, f"{count:g} branches" + (f", at most {limit} at a time" if limit else "")))

    def _branch_started(self, event: _Event) -> None:
        if ui.state.verbose:
            self._print(node_line("┌", "blue", f"{event.node}:{event.text('branch')}/", f"begins at {event.text('target')}"))

    def _branch_completed(self, event: _Event) -> None:
        status = event.text("status")
        if status == "canceled" or ui.state.verbose:  # a failure was told by its node
            self._print(node_line("└", "blue", f"{event.node}:{event.text('branch')}/", f"{status}  {event.text('reason')}".rstrip()))

    def _fan_in_merged(self, event: _Event) -> None:
        merged = event.properties.get("merged")
        names = ", ".join(str(key) for key in merged) if isinstance(merged, list) else ""
        if names:
            self._print(node_line("◇", "blue", event.node, f"merged {names}"))

    def _fan_in_conflict(self, event: _Event) -> None:
        paths = event.properties.get("paths")
        listed = ", ".join(ui.visible(str(path), newlines=False) for path in paths) if isinstance(paths, list) else ""
        indent = "  " * (depth(event.node) + 1)
        text = f"{indent}conflict with {event.text('branch')} in {listed}; its work is in {event.text('ref', limit=1000)}"
        self._conflicts.setdefault(event.ordinal or 0, []).append(text)

    def _child_started(self, event: _Event) -> None:
        self._release_before(event)
        self._print(node_line("◆", "blue", event.node, f"child workflow {event.text('workflow')}, cycle {event.text('cycle')}"))

    def _human_waiting(self, event: _Event) -> None:
        """Where nobody can be asked here: the question, and how to answer it from elsewhere."""
        if not ui.is_interactive():
            self._print(node_line("?", "magenta", event.node, f"waits for an answer: {event.text('text')}"))
            self._print(f"  {ui.style('hint:', 'cyan', stream=sys.stderr)} {event.text('answer_with')}")

    def _edge_selected(self, event: _Event) -> None:
        if ui.state.verbose:
            self._release_before(event)
            self._print(_dim(f"  {'  ' * depth(event.node)}→ {event.text('target')} ({event.text('why')})"))

    def _run_begins(self, event: _Event) -> None:
        goal = event.text("goal", limit=400)
        if goal:
            self._print(_dim(cut(f"goal: {goal}", ui.terminal_width() if sys.stderr.isatty() else 400)))

    def _run_resumed(self, event: _Event) -> None:
        self._print(_dim(f"goes on at {event.text('next_node')} after checkpoint {event.text('checkpoint')}"))

    def _run_ended(self, event: _Event) -> None:
        self.close()

    def _notice(self, event: _Event) -> None:
        message = nearby(event.text("message", limit=400))
        if event.text("level") != "warning":
            self._print(_dim(f"note: {message}"))
            return
        found = event.properties.get("details")
        details = [nearby(str(detail)) for detail in found] if isinstance(found, list) else []
        if self._live is None:
            ui.warn(message, *details)
            return
        for line in (f"{ui.style('warning:', 'yellow', 'bold', stream=sys.stderr)} {message}", *(f"  {detail}" for detail in details)):
            self._print(line)


@dataclass(frozen=True)
class _Event:
    """The parts of an event line that progress looks at."""

    node: str
    ordinal: int | None
    properties: Mapping[str, JsonValue]

    def text(self, key: str, limit: int = 100) -> str:
        value = self.properties.get(key)
        return "" if value is None else first_line(str(value), limit)

    def number(self, key: str) -> float:
        value = self.properties.get(key)
        return value if isinstance(value, int | float) else 0

    def duration(self) -> str:
        return seconds(self.number("duration_ms") / 1000).ljust(5)


_SHOWN = {
    "run.started": Progress._run_begins,
    "run.resumed": Progress._run_resumed,
    "run.completed": Progress._run_ended,
    "run.failed": Progress._run_ended,
    "run.canceled": Progress._run_ended,
    "run.notice": Progress._notice,
    "node.started": Progress._node_started,
    "node.completed": Progress._node_completed,
    "node.failed": Progress._node_failed,
    "node.retrying": Progress._node_retrying,
    "edge.selected": Progress._edge_selected,
    "loop.restarted": Progress._loop_restarted,
    "checkpoint.saved": Progress._checkpoint_saved,
    "parallel.started": Progress._parallel_started,
    "branch.started": Progress._branch_started,
    "branch.completed": Progress._branch_completed,
    "fan_in.merged": Progress._fan_in_merged,
    "fan_in.conflict": Progress._fan_in_conflict,
    "child.started": Progress._child_started,
    "human.waiting": Progress._human_waiting,
}


def _dim(text: str) -> str:
    return ui.style(text, "dim", stream=sys.stderr)


def frame_of(path: str) -> str:
    """The prefix of the frame that a node's path lies in."""
    return path.rpartition("/")[0]


def depth(path: str) -> int:
    """How many frames a node's path is inside the run."""
    return path.rstrip("/").count("/")


def short_path(path: str) -> str:
    """A node's path without the blocks around its own: `fan:left/fix` is `left/fix`."""
    head, slash, node = path.rstrip("/").rpartition("/")
    if not slash:
        return node
    return f"{head.rpartition('/')[2].rpartition(':')[2]}/{node}"


def node_line(mark: str, style: str, path: str, text: str) -> str:
    """A line of progress: mark, node (indented by its depth), what happened."""
    indent = "  " * depth(path)
    shown = cut(ui.visible(short_path(path), newlines=False), LONGEST_NAME)
    name = pad(f"{indent}  {shown}", NAME_WIDTH).removeprefix(f"{indent} ")
    return f"{indent}{ui.style(mark, style, stream=sys.stderr)}{name} {text}"


def seconds(value: float) -> str:
    """A duration for people: `0.4s`, `12.3s`, `3m05s`, `2h07m`."""
    if value < 60:
        return f"{value:.1f}s"
    if value < 3600:
        return f"{int(value // 60)}m{int(value % 60):02d}s"
    return f"{int(value // 3600)}h{int(value % 3600 // 60):02d}m"


def first_line(text: str, limit: int = 100) -> str:
    """The first line of a message, cut for one line of a terminal; control characters are left out."""
    line = next((part for part in text.splitlines() if part.strip()), "")
    line = "".join(char for char in line if char.isprintable())
    return line if len(line) <= limit else line[: limit - 1] + "…"
