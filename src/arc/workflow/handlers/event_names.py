"""The names of the handlers' events and what each one tells. Stable, like the engine's (`arc.workflow.engine.event_names`)."""

from __future__ import annotations

COMMAND_STARTED = "command.started"
COMMAND_COMPLETED = "command.completed"
COMMAND_LEFTOVERS = "command.leftovers"
COMMAND_TRUNCATED = "command.truncated"
AGENT_PROMPT = "agent.prompt"
AGENT_REPLY = "agent.reply"
AGENT_OUTPUT = "agent.output"
AGENT_EDIT = "agent.edit"
AGENT_ROUTING_IGNORED = "agent.routing_ignored"
HUMAN_ASKED = "human.asked"
HUMAN_ANSWERED = "human.answered"
HUMAN_REJECTED = "human.rejected"
HUMAN_TIMEOUT = "human.timeout"
WAIT_STARTED = "wait.started"
RUN_NOTICE = "run.notice"

HANDLER_EVENTS: dict[str, str] = {
    COMMAND_STARTED: "A command node starts its script. `language`, `working_directory`, `timeout_ms`.",
    COMMAND_COMPLETED: "The script ended. `exit_code` or `signal`, `timed_out`, `duration_ms`.",
    COMMAND_LEFTOVERS: "The script had left processes in the background; they were ended. `processes` (names).",
    COMMAND_TRUNCATED: "An output was too large for the context; the log has all of it. `stream`, `bytes`, `kept`.",
    AGENT_PROMPT: "A backend is asked. `backend`, `model`, `thread`, `attempt`, `bytes`.",
    AGENT_REPLY: "It has answered. `backend`, `bytes`, `duration_ms`, and `usage` where the backend says so.",
    AGENT_OUTPUT: "Something that a backend tells while it works. `stream`, `text`, or what the backend has.",
    AGENT_EDIT: "The scripted backend changed a file. `path`.",
    AGENT_ROUTING_IGNORED: "A reply looks as if it wanted to choose the way, but that part could not be used. `reason`.",
    HUMAN_ASKED: "A person is asked. `question`, `choices` (key, label, target), `freeform`, `default`, `timeout_ms`.",
    HUMAN_ANSWERED: "An answer was taken. `text`, `source`, `label`, `target`.",
    HUMAN_REJECTED: "An answer matched no choice. `text`, `source`, `reason`.",
    HUMAN_TIMEOUT: "Nobody answered in time. `default` (the choice taken instead, null if there is none).",
    WAIT_STARTED: "A wait node begins to wait. `duration_ms`.",
}
"""name -> meaning and properties. `run.notice` is described with the engine's events."""
