"""The table of commands: which module holds each, and the first line of its help. No command's module is imported for it."""

from __future__ import annotations

RUN_COMMANDS: dict[str, tuple[str, str]] = {
    "start": ("arc.cli.run_start", "Start a run of a workflow"),
    "resume": ("arc.cli.run_resume", "Continue an interrupted, failed or canceled run"),
    "answer": ("arc.cli.run_answer", "Answer a question that a run is waiting on"),
    "list": ("arc.cli.run_list", "List runs, newest first"),
    "show": ("arc.cli.run_show", "Show a run, or one of its checkpoints"),
    "log": ("arc.cli.run_log", "Show a run's checkpoints, one after the other, newest first"),
    "diff": ("arc.cli.run_diff", "Show what changed between two checkpoints"),
    "logs": ("arc.cli.run_logs", "Show a run's events, or what one node printed"),
    "cancel": ("arc.cli.run_cancel", "Stop a running run after its checkpoint, or mark an interrupted one as canceled"),
    "fork": ("arc.cli.run_fork", "Make a new run that stands where another one stood"),
    "rewind": ("arc.cli.run_rewind", "Go back to a checkpoint: a fork that supersedes its source"),
    "gc": ("arc.cli.run_gc", "Delete what runs left behind: folder, worktree, branches and metadata"),
}
"""name -> (module with a function `command`, first line of its help)."""

COMMANDS: dict[str, tuple[str, str]] = {
    "validate": ("arc.cli.validate", "Check workflow files"),
    "graph": ("arc.cli.graph", "Draw a workflow, or a run with its progress"),
    "parse": ("arc.cli.parse", "Print a workflow as arc reads it"),
    "completion": ("arc.cli.completion_script", "Print the completion script of a shell"),
}
