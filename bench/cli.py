"""How long the command line takes: medians of fresh processes, interpreter start included, in a home with few and with many runs.

    .venv/bin/python bench/cli.py [TIMES] [RUNS]

The promise: under 100 ms for `--version`, `--help` and a completion, under 150 ms for `list`, `show` and `logs` of a home with a handful of
runs (2 cores, warm disk, nothing else at work). Wall time depends on what else runs, so the processor time is given too. No test asserts
times; tests/cli/test_imports.py asserts their cause, the imported modules.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ARC = [sys.executable, "-m", "arc"]
WORKFLOW = """digraph bench {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  one [shape=parallelogram, script="echo one > one.txt"]
  two [shape=parallelogram, script="echo two > two.txt"]
  start -> one -> two -> exit
}
"""


def measure(command: list[str], environment: dict[str, str], times: int, folder: Path) -> tuple[float, float, float]:
    """(median wall, fastest wall, median processor time) in milliseconds, after one run that warms the caches."""
    wall, busy = [], []
    for _ in range(times + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        subprocess.run(
            command,
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        wall.append((time.perf_counter() - started) * 1000)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return statistics.median(wall[1:]), min(wall[1:]), statistics.median(busy[1:])


def make_home(home: Path, project: Path) -> str:
    """A home with five real runs of a repository; returns the id of one."""
    project.mkdir()
    for words in (["init", "-q"], ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    (home / "bench.dot").parent.mkdir(parents=True, exist_ok=True)
    (home / "bench.dot").write_text(WORKFLOW)
    environment = {**os.environ, "ARC_HOME": str(home)}
    for _ in range(5):
        subprocess.run(
            [*ARC, "run", "start", str(home / "bench.dot"), "-q"], cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL
        )
    return max(path.name for path in (home / "runs").iterdir())


def multiply(home: Path, run_id: str, count: int) -> None:
    """Copies of a run's folder under other ids, until there are `count`."""
    source = home / "runs" / run_id
    for number in range(count - len(list((home / "runs").iterdir()))):
        copy = home / "runs" / f"01BENCH{number:019d}"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("worktree"))
        record = json.loads((copy / "run.json").read_bytes())
        (copy / "run.json").write_text(json.dumps({**record, "run_id": copy.name}))


def commands(run_id: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """What is measured."""
    completion = {"_ARC_COMPLETE": "complete_bash", "COMP_WORDS": "arc run resume ", "COMP_CWORD": "3"}
    return {
        "arc run list": ([*ARC, "run", "list"], {}),
        "arc run list --json": ([*ARC, "run", "list", "--json"], {}),
        "arc run show RUN": ([*ARC, "run", "show", run_id], {}),
        "arc run show RUN @2": ([*ARC, "run", "show", run_id, "@2"], {}),
        "arc run log RUN": ([*ARC, "run", "log", run_id], {}),
        "arc run logs RUN": ([*ARC, "run", "logs", run_id], {}),
        "completion: arc run resume <TAB>": (ARC, completion),
    }


STARTS = {
    "python -c ''": [sys.executable, "-c", ""],
    "arc --version": [*ARC, "--version"],
    "arc --help": [*ARC, "--help"],
    "arc run --help": [*ARC, "run", "--help"],
    "arc run start --help": [*ARC, "run", "start", "--help"],
    "arc run nonsense": [*ARC, "run", "nonsense"],
}


def show(name: str, figures: tuple[float, float, float]) -> None:
    print(f"{figures[0]:8.1f} {figures[1]:8.1f} {figures[2]:8.1f}   {name}")


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    many = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    print(f"medians of {times}, milliseconds\n    wall  fastest processor")
    with tempfile.TemporaryDirectory() as scratch:
        home, project = Path(scratch) / "home", Path(scratch) / "project"
        run_id = make_home(home, project)
        environment = {"ARC_HOME": str(home)}
        for name, command in STARTS.items():
            show(name, measure(command, environment, times, project))
        for label, count in (("5 runs", 5), (f"{many:,} runs", many)):
            multiply(home, run_id, count)
            for name, (command, more) in commands(run_id).items():
                show(f"{name}, {label}", measure(command, {**environment, **more}, times, project))


if __name__ == "__main__":
    main()
