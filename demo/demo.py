"""The demonstration behind script/demo: every step is a command that you could type; the command is shown before it runs.

The project (click, from its source distribution) and its test tools are fetched once into `~/.cache/arc-demo`; the run happens in a new
folder under the temporary directory with an ARC_HOME of its own, so nothing of yours is touched. `--project DIR` takes a source tree
that is there already. Ctrl-C removes the new folder.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = "click==8.1.8"
TOOLS = ("pytest==8.3.5",)
KILL_IN = "test"
DEADLINE = 180.0

COLOR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOR else text


def heading(number: int, text: str) -> None:
    print(f"\n{paint(f'{number}. {text}', '1;36')}\n", flush=True)


def say(text: str) -> None:
    print(f"   {text}", flush=True)


class Demo:
    """The folder, the environment, and how commands are shown and run."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.project = folder / "click"
        arc = Path(sys.executable).parent
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "ARC_"))}
        self.environment = {
            **clean,
            "PATH": os.pathsep.join((str(Path(python).parent), str(arc), os.environ["PATH"])),
            "ARC_HOME": str(folder / "arc-home"),
            "GIT_PAGER": "cat",
        }

    def show(self, *words: str) -> None:
        shown = " ".join(word if word == "|" else shlex.quote(word) for word in words)
        shown = shown.replace(str(self.folder), "$DEMO").replace(str(HERE), "demo")
        print(paint(f"$ {shown}", "1"), flush=True)

    def run(self, *words: str, status: int = 0) -> None:
        """Show a command and run it, its output on the terminal."""
        self.show(*words)
        done = subprocess.run(words, cwd=self.project, env=self.environment, check=False)
        if done.returncode != status:
            sys.exit(f"demo: `{shlex.join(words)}` ended with status {done.returncode}, not {status}; everything is in {self.folder}")

    def output(self, *words: str) -> str:
        """The output of a command that is not shown."""
        done = subprocess.run(words, cwd=self.project, env=self.environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def shell(self, line: str) -> None:
        """Show a line of shell and run it."""
        print(paint(f"$ {line}", "1"), flush=True)
        subprocess.run(["sh", "-c", line], cwd=self.project, env=self.environment, check=True)


def pip(python: str, verb: str, *words: str) -> None:
    """Run pip; its output is shown only if it fails."""
    done = subprocess.run([python, "-m", "pip", verb, "--disable-pip-version-check", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"demo: pip could not {verb} {' '.join(words)}:\n{done.stderr}")


def fetch(cache: Path) -> tuple[Path, str]:
    """(source distribution, python with the test tools), fetched once."""
    cache.mkdir(parents=True, exist_ok=True)
    name, version = PROJECT.split("==")
    source = cache / f"{name}-{version}.tar.gz"
    lock = open(cache / "lock", "w")  # noqa: SIM115 - held until this process ends: two demonstrations may start at once
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not source.exists():
        say(f"fetching {PROJECT} from the package index")
        with tempfile.TemporaryDirectory(dir=cache) as fresh:
            pip(sys.executable, "download", "--no-deps", "--no-binary", name, "-d", fresh, PROJECT)
            (Path(fresh) / source.name).replace(source)
    python = cache / "venv" / "bin" / "python"
    ready = cache / "venv" / "ready"
    if not ready.exists() or ready.read_text() != " ".join(TOOLS):
        say(f"installing {', '.join(TOOLS)} for its tests")
        subprocess.run([sys.executable, "-m", "venv", "--clear", cache / "venv"], check=True)
        pip(str(python), "install", *TOOLS)
        ready.write_text(" ".join(TOOLS))
    return source, str(python)


def prepare(demo: Demo, source: Path) -> None:
    """The project as a Git repository with one commit."""
    if source.is_dir():
        shutil.copytree(source, demo.project)
    else:
        with tarfile.open(source) as archive:
            if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and newer
                archive.extraction_filter = staticmethod(tarfile.data_filter)
            archive.extractall(demo.folder)
        next(path for path in demo.folder.iterdir() if path.name.startswith("click-")).rename(demo.project)
    (demo.project / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
    person = ["-c", "user.name=You", "-c", "user.email=you@example.org"]
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        [*person, "commit", "-q", "-m", f"{PROJECT.replace('==', ' ')} as released"],
    ):
        demo.output("git", *words)


def wait_for_node(demo: Demo, process: subprocess.Popen[bytes], node: str) -> tuple[str, Path]:
    """Wait until `node` runs and has said something; returns run id and run folder."""
    deadline = time.monotonic() + DEADLINE
    runs = demo.folder / "arc-home" / "runs"
    while time.monotonic() < deadline and process.poll() is None:
        for folder in runs.glob("*"):
            if any(log.stat().st_size for log in folder.glob(f"nodes/*-{node}/stdout*")):
                return folder.name, folder
        time.sleep(0.02)
    process.kill()
    sys.exit(f"demo: the run did not come to the node `{node}`; everything is in {demo.folder}")


def untouched(demo: Demo) -> tuple[str, str, str, str]:
    """What the person has: HEAD, status, stash, and the index byte for byte."""
    index = (demo.project / ".git" / "index").read_bytes()
    return (
        demo.output("git", "rev-parse", "HEAD"),
        demo.output("git", "status", "--porcelain"),
        demo.output("git", "stash", "list"),
        index.hex(),
    )


def tell(demo: Demo) -> None:
    """The whole story."""
    start = ["arc", "run", "start", str(HERE / "feature.dot"), "--script", str(HERE / "replies.toml")]
    before = untouched(demo)

    heading(1, "A workflow is a graph in a file. Check it, then run it")
    demo.run("arc", "validate", str(HERE / "feature.dot"))
    print()
    demo.show(*start)
    process = subprocess.Popen(start, cwd=demo.project, env=demo.environment)
    run, folder = wait_for_node(demo, process, KILL_IN)

    heading(2, f"Kill it in the middle of the node `{KILL_IN}`")
    demo.show("kill", "-9", str(process.pid))
    process.send_signal(signal.SIGKILL)
    process.wait()
    demo.run("arc", "run", "list")

    heading(3, "Resume it: finished nodes do not run again")
    demo.run("arc", "run", "resume", run)

    heading(4, "Look at it with plain git")
    demo.run("git", "log", "--graph", "--format=%h %s", f"main..arc/run/{run}")
    print()
    demo.run("git", "log", "-1", f"arc/run/{run}")
    print()
    demo.run("git", "diff", "--stat", f"main..arc/run/{run}")
    print()
    demo.shell(f"git show refs/arc/{run}:checkpoint.json | head -n 24")
    print()
    demo.run("arc", "run", "log", run, "--oneline")

    heading(5, "Fork it: the same run again from `merge`, beside the first")
    demo.run("arc", "run", "fork", run, "merge")
    fork = json.loads(demo.output("arc", "run", "list", "--json"))
    newest = next(item["run_id"] for item in _runs(fork) if item["run_id"] != run)
    demo.run("arc", "run", "resume", newest)
    print()
    demo.run("arc", "run", "list")

    heading(6, "Draw it")
    picture = demo.folder / "run.svg"
    demo.run("arc", "graph", run, "-o", str(picture))

    heading(7, "Your checkout was not touched")
    demo.run("git", "status", "--short", "--branch")
    if untouched(demo) != before:
        sys.exit("demo: the checkout, index or stash changed; that is a bug in arc")
    say("HEAD, index, files and stash are byte for byte what they were")
    print(
        f"\n{paint('Done.', '1;32')} Everything is still there to look at:\n\n"
        f"   project   {demo.project}   (branch arc/run/{run})\n"
        f"   run       {folder}\n"
        f"   picture   {picture}\n\n"
        f"   export ARC_HOME={demo.folder / 'arc-home'}\n"
        f"   {Path(sys.executable).parent / 'arc'} run show {run}\n"
        f"\n   To remove it: rm -rf {demo.folder}\n"
    )


def _runs(document: object) -> list[dict[str, str]]:
    runs = document["runs"] if isinstance(document, dict) else document
    assert isinstance(runs, list)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description="Show arc on a real project")
    parser.add_argument("--project", type=Path, help="a source tree of click to use instead of fetching one")
    parser.add_argument("--python", help="a python that has pytest, with --project")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="arc-demo-"))
    try:
        perform(folder, options.project, options.python or sys.executable)
    except KeyboardInterrupt:
        clean_up(folder)
        print(f"\ndemo: stopped; {folder} is removed", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


def perform(folder: Path, project: Path | None, python: str) -> None:
    """Fetch what is needed, then tell the story."""
    started = time.monotonic()
    if project is not None:
        source = project
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arc-demo"
        source, python = fetch(cache)
    demo = Demo(folder, python)
    prepare(demo, source)
    print(f"{paint('arc', '1')} on {PROJECT.replace('==', ' ')}, in {folder} ($DEMO below)")
    tell(demo)
    say(paint(f"{time.monotonic() - started:.0f} seconds", "2"))


def clean_up(folder: Path) -> None:
    """After Ctrl-C: wait for arc, which got it too, end what the killed arc had left running, remove the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"ARC_HOME={folder}/".encode() in environment.read_bytes():
                os.kill(int(environment.parent.name), signal.SIGKILL)
        except OSError:
            continue  # ended meanwhile, or not ours
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
