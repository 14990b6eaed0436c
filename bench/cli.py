"""How long the command line takes to start: medians of fresh processes, interpreter start included.

    .venv/bin/python bench/cli.py [RUNS]

The promise is under 100 ms for `--version`, `--help` and a completion (2 cores, warm disk). Times depend on the machine, so no test
asserts them; tests/cli/test_imports.py asserts their cause, the imported modules.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "python -c ''": ([sys.executable, "-c", ""], {}),
    "arc --version": ([sys.executable, "-m", "arc", "--version"], {}),
    "arc --help": ([sys.executable, "-m", "arc", "--help"], {}),
    "arc run --help": ([sys.executable, "-m", "arc", "run", "--help"], {}),
    "arc run start --help": ([sys.executable, "-m", "arc", "run", "start", "--help"], {}),
    "completion: arc run resume <TAB>": (
        [sys.executable, "-m", "arc"],
        {"_ARC_COMPLETE": "complete_bash", "COMP_WORDS": "arc run resume ", "COMP_CWORD": "3"},
    ),
    "arc run list": ([sys.executable, "-m", "arc", "run", "list"], {}),
}


def measure(command: list[str], environment: dict[str, str], runs: int) -> list[float]:
    """Wall times in milliseconds, after one run that warms the caches."""
    times = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        subprocess.run(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        times.append((time.perf_counter() - started) * 1000)
    return times[1:]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"median (fastest) of {runs} runs, milliseconds")
    for name, (command, environment) in COMMANDS.items():
        times = measure(command, environment, runs)
        print(f"{statistics.median(times):8.1f} ({min(times):.1f})  {name}")


if __name__ == "__main__":
    main()
