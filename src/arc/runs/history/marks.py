"""What a picture of a run shows: its workflow as it was stored, how each node fared, and one line on the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from arc.base.errors import CorruptError
from arc.runs.events import EventRecord, read_events
from arc.runs.history.details import read_timeline
from arc.runs.history.lookup import KnownRun
from arc.runs.history.timeline import Timeline
from arc.runs.store import RunFolder, parse_manifest
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.parser import parse_dot
from arc.workflow.language.resolve import ResolveInputs, resolve
from arc.workflow.language.sources import StoredSources
from arc.workflow.model import Workflow
from arc.workflow.picture.draw import NodeMark, graph_path
from arc.workflow.picture.style import duration
from arc.workspace.git.metadata import MetadataBranch

_ENDED = ("node.completed", "node.failed")


@dataclass(frozen=True)
class RunPicture:
    """`marks` by node path, branches and children included; `taken` as `picture.to_dot` wants it; `caption` is for the heading."""

    workflow: Workflow
    marks: Mapping[str, NodeMark]
    caption: str
    taken: frozenset[tuple[str, int]] | None


def run_picture(run: KnownRun) -> RunPicture:
    """Read everything that a picture of this run needs.

    Raises:
        CorruptError: the stored workflow, a checkpoint or a record cannot be read.
    """
    timeline = read_timeline(run)
    marks = timeline_marks(timeline)
    events = () if run.folder is None else tuple(read_events(run.folder.events_file))
    if run.folder is not None:
        marks.update(unfinished_marks(run, events, run.folder.open_questions(), marks))
    return RunPicture(stored_workflow(run), marks, _caption(run, marks, timeline), taken_edges(events) if events else None)


def stored_workflow(run: KnownRun) -> Workflow:
    """The workflow that this run walks, from its folder or, without one, from its metadata branch. Raises `CorruptError`."""
    source, texts = _from_folder(run.folder) if run.folder is not None else _from_refs(run)
    config = run.record.config
    try:
        syntax = parse_dot(source, run.record.workflow_file)
    except WorkflowError as error:
        raise CorruptError(f"the stored workflow of run {run.run_id} cannot be read", details=(str(error),)) from error
    inputs = ResolveInputs(goal=run.record.goal or config.goal, inputs=config.inputs)
    workflow, diagnostics = resolve(syntax, StoredSources(texts), inputs)
    if workflow is None:
        raise CorruptError(f"the stored workflow of run {run.run_id} cannot be read", details=(str(WorkflowError(diagnostics)),))
    return workflow


def timeline_marks(timeline: Timeline) -> dict[str, NodeMark]:
    """Node path -> how it fared over all its checkpoints: last status, number of visits, all attempts, all time."""
    marks: dict[str, NodeMark] = {}
    for entry in timeline.entries:
        before = marks.get(entry.path, NodeMark("pending", 0, 0))
        times = [time for time in (before.duration_ms, entry.duration_ms) if time is not None]
        marks[entry.path] = NodeMark(
            status=entry.status,
            visits=max(before.visits, entry.visit),
            attempts=before.attempts + max(entry.attempts, 1),
            duration_ms=sum(times) if times else None,
        )
    return marks


def unfinished_marks(
    run: KnownRun, events: Iterable[EventRecord], questions: Iterable[str], marks: Mapping[str, NodeMark]
) -> dict[str, NodeMark]:
    """Marks of the nodes that were started and have not ended: running or waiting in a live run, interrupted in a dead one."""
    if run.status not in ("running", "waiting", "interrupted", "canceled"):
        return {}
    started: dict[int, EventRecord] = {}
    for event in events:
        if event.event == "run.resumed":
            started.clear()
        if event.ordinal is None or event.node is None:
            continue
        if event.event == "node.started":
            started[event.ordinal] = event
        elif event.event in _ENDED:
            started.pop(event.ordinal, None)
    asking = {question.partition("-")[0] for question in questions}
    alive = run.status in ("running", "waiting")
    found: dict[str, NodeMark] = {}
    for ordinal, event in started.items():
        status = ("waiting" if str(ordinal) in asking else "running") if alive else run.status
        before = marks.get(event.node or "", NodeMark("pending", 0, 0))
        visit = event.properties.get("visit")
        found[event.node or ""] = replace(before, status=status, visits=visit if isinstance(visit, int) else before.visits + 1)
    return found


def taken_edges(events: Iterable[EventRecord]) -> frozenset[tuple[str, int]]:
    """The edges that the run took, and those by which branches of parallel blocks began."""
    found: set[tuple[str, int]] = set()
    for event in events:
        index = event.properties.get("edge")
        if event.event == "edge.selected" and event.node is not None and isinstance(index, int):
            prefix, slash, _ = graph_path(event.node).rpartition("/")
            found.add((prefix + slash, index))
    return frozenset(found)


def _caption(run: KnownRun, marks: Mapping[str, NodeMark], timeline: Timeline) -> str:
    count = len(timeline.entries)
    parts = [f"run {run.run_id}", run.status.replace("_", " "), f"{count} checkpoint{'' if count == 1 else 's'}"]
    stored = run.folder.read_checkpoint() if run.folder is not None else None
    total = stored.elapsed_ms if stored is not None else sum(mark.duration_ms or 0 for path, mark in marks.items() if "/" not in path)
    if total:
        parts.append(duration(total))
    return " · ".join(parts)


def _from_folder(folder: RunFolder) -> tuple[str, dict[str, str]]:
    return folder.read_graph(), folder.read_sources()


def _from_refs(run: KnownRun) -> tuple[str, dict[str, str]]:
    branch = MetadataBranch(run.need_git("the picture of a run without a folder"), run.run_id)
    graph, manifest = branch.read("graph.dot"), branch.read("manifest.json")
    if graph is None or manifest is None:
        raise CorruptError(f"`{run.refs.metadata}` holds no `graph.dot` or no `manifest.json`")
    texts: dict[str, str] = {}
    for written, name in parse_manifest(manifest, f"{run.refs.metadata}:manifest.json").sources.items():
        data = branch.read(name)
        if data is None:
            raise CorruptError(f"`{run.refs.metadata}` lacks `{name}`, the text of `{written}`")
        texts[written] = data.decode()
    return graph.decode(), texts
