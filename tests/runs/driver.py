"""A process that starts or resumes a run, for tests that kill it: `python -m tests.runs.driver start FILE | resume RUN`.

Prints the result's status. With `ARC_TEST_TRACE=FILE` it writes the name of each failure point that is reached (before anything else is
imported, so that every module sees it).
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path


def trace(file: str) -> None:
    """Note every failure point in `file`, besides doing what it does."""
    import arc.base.faults as faults

    real = faults.fault
    out = open(file, "a", encoding="utf-8")  # noqa: SIM115 - open for the life of the process

    def noted(name: str) -> None:
        out.write(f"{name}\n")
        out.flush()
        real(name)

    faults.fault = noted


def main(verb: str, target: str) -> int:
    if file := os.environ.get("ARC_TEST_TRACE"):
        trace(file)
    from arc.base.errors import ArcError
    from arc.runs.resume import ResumeTarget, resume_run
    from arc.runs.start import start_run
    from arc.runs.world import StartRequest, World

    world = World(home=Path(os.environ["ARC_HOME"]), environ=dict(os.environ))
    try:
        if verb == "start":
            result = asyncio.run(start_run(StartRequest(source=Path(target), directory=Path.cwd()), world))
        else:
            result = asyncio.run(resume_run(ResumeTarget(run=target, directory=Path.cwd()), world))
    except ArcError as error:
        print(f"error {error.code}: {error}", file=sys.stderr)
        for line in (*error.details, *error.hints):
            print(line, file=sys.stderr)
        return int(error.status)
    print(result.status)
    if result.failure:
        print(result.failure, file=sys.stderr)
    return 0 if result.status in ("success", "partial_success") else 1


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
