"""The message of a run commit: subject, blank line, three trailers and nothing after them, so that git itself can parse them. Where a node
moved HEAD, a paragraph before the trailers says so."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SUBJECT = re.compile(r"arc\((?P<run>[^()\s]+)\): (?P<node>.*) \((?P<status>[a-z_]+)\)\Z")
_TRAILER = re.compile(r"(?P<name>Arc-[A-Za-z]+): (?P<value>\S+)\Z")


@dataclass(frozen=True)
class RunCommit:
    """What a run commit's message says. `checkpoint` is the metadata commit, None in messages that carry none."""

    run_id: str
    node_id: str
    status: str
    completed: int
    checkpoint: str | None


def format_message(run_id: str, node_id: str, status: str, completed: int, checkpoint: str | None, did: str | None = None) -> str:
    """The message for the commit after `node_id`; line breaks in a node's name become spaces. `did`: what the node did to HEAD."""
    lines = [f"arc({run_id}): {' '.join(node_id.split())} ({status})", ""]
    if did is not None:
        lines += [f"The node {' '.join(did.split())}; this commit is on top of the last checkpoint.", ""]
    lines += [f"Arc-Run: {run_id}", f"Arc-Completed: {completed}"]
    if checkpoint is not None:
        lines.append(f"Arc-Checkpoint: {checkpoint}")
    return "\n".join(lines) + "\n"


def parse_message(text: str) -> RunCommit | None:
    """Read a run commit's message; None for any other commit (also if subject and trailers disagree about the run)."""
    lines = text.rstrip("\n").split("\n")
    subject = _SUBJECT.match(lines[0])
    if subject is None:
        return None
    trailers: dict[str, str] = {}
    for line in reversed(lines[1:]):
        found = _TRAILER.match(line)
        if found is None:
            break
        trailers.setdefault(found["name"], found["value"])
    completed = trailers.get("Arc-Completed", "")
    if trailers.get("Arc-Run") != subject["run"] or not completed.isdecimal():
        return None
    return RunCommit(subject["run"], subject["node"], subject["status"], int(completed), trailers.get("Arc-Checkpoint"))
