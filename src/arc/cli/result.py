"""How the end of a run is told: status, reason, the end of what the failing node printed, and the commands to go on with."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from arc.cli import ui
from arc.cli.progress import seconds

if TYPE_CHECKING:
    from arc.runs.history.failing import FailedExecution
    from arc.runs.world import RunResult

GOOD = frozenset({"success", "partial_success"})
_MARKS = {"success": ("✓", "green"), "partial_success": ("~", "yellow"), "fail": ("✗", "red"), "canceled": ("■", "yellow")}


def result_document(result: RunResult) -> dict[str, object]:
    """The `--json` form of how a run ended (docs/json.md)."""
    document = asdict(result)
    document["logs_dir"] = str(result.logs_dir)
    document["kept_worktree"] = str(result.kept_worktree) if result.kept_worktree else None
    document["metadata_ref"] = f"refs/arc/{result.run_id}" if result.run_branch else None
    document["notices"] = list(result.notices)
    return document


def show_result(result: RunResult, elapsed: float) -> None:
    """How the run ended, where its work is, and what can be done next."""
    if ui.state.json:
        ui.json(result_document(result))
        return
    if result.executed:
        ui.note("")
        mark, style = _MARKS.get(result.status, ("•", "bold"))
        words = result.status.replace("_", " ")
        ui.out(f"{ui.style(f'{mark} {words}', style, 'bold')}  run {result.run_id}  {seconds(elapsed)}")
    for notice in result.notices if not result.executed else ():
        ui.out(notice)
    if result.failure:
        for line in ui.wrapped(result.failure, indent=2):
            ui.out(line)
    failed = _failure(result) if result.status == "fail" else None
    if failed is not None and failed.lines:
        _show_output(failed)
    for name, text in _commands(result, failed):
        ui.out(f"  {ui.style(name.ljust(6), 'dim')}  {text}")


def _failure(result: RunResult) -> FailedExecution | None:
    from arc.base.errors import CorruptError
    from arc.runs.history.failing import last_failure
    from arc.runs.store import RunFolder

    try:
        return last_failure(RunFolder(result.logs_dir, result.run_id))
    except (CorruptError, OSError):  # the end of a run is told even where its log cannot be read
        return None


def _show_output(failed: FailedExecution) -> None:
    what = "the end of stderr" if failed.stream == "stderr" else "the end of stdout"
    ui.out("")
    ui.out(ui.style(f"  {what if failed.more else failed.stream} of @{failed.ordinal} {failed.path}", "dim"))
    for line in failed.lines:
        ui.out(f"  {ui.style('│', 'red')} {ui.visible(line)}")
    ui.out("")


def _commands(result: RunResult, failed: FailedExecution | None) -> list[tuple[str, str]]:
    from arc.base.paths import tilde

    run_id = result.run_id
    lines: list[tuple[str, str]] = []
    if failed is not None:
        lines.append(("output", f"arc run logs {run_id} @{failed.ordinal}"))
    if result.run_branch:
        branch = result.run_branch.removeprefix("refs/heads/")
        lines.append(("look", f"git log -p {branch}"))
        lines.append(("state", f"arc run show {run_id}"))
        if result.status in GOOD:
            lines.append(("merge", f"git merge {branch}"))
    else:
        lines.append(("look", f"arc run show {run_id}"))
    if result.status not in GOOD:
        lines.append(("resume", f"arc run resume {run_id}"))
    if failed is not None and result.run_branch:
        lines.append(("fork", f"arc run fork {run_id} @{failed.before}"))
    if result.kept_worktree is not None:
        lines.append(("kept", f"{tilde(result.kept_worktree, os.environ)} (it holds work that no commit has)"))
    return lines
