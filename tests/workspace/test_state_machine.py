"""Any sequence of file operations, checkpoints, returns and set-asides: the commit's tree equals the files, and every way back is exact."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.workspace.made import git, make_repository, start

NAMES = st.sampled_from(["a", "b", "A", "ü", "x.txt", "d", "e", "n\nl"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.binary(max_size=12)
Model = dict[str, tuple[str, bytes]]


class Worktree(RuleBasedStateMachine):
    """The model is a walk over the files; git is asked only for what a commit holds."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="arc-machine-"))
        self.run = start(make_repository(self.folder / "repo"), self.folder / "logs")
        self.commits: list[tuple[str, Model]] = [(self.run.workspace.tip, self.run.tree())]

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def place(self, path: str) -> Path | None:
        """Where to write; None if a file or link stands where a folder would be."""
        place = self.run.files / path
        for folder in reversed(place.relative_to(self.run.files).parents):
            above = self.run.files / folder
            if above.is_symlink() or above.is_file():
                return None
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def remove(self, place: Path) -> None:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif os.path.lexists(place):
            place.unlink()

    @rule(path=PATHS, data=CONTENTS, executable=st.booleans())
    def write(self, path: str, data: bytes, executable: bool) -> None:
        if (place := self.place(path)) is not None:
            self.remove(place)
            place.write_bytes(data)
            place.chmod(0o755 if executable else 0o644)

    @rule(path=PATHS, to=PATHS)
    def link(self, path: str, to: str) -> None:
        if (place := self.place(path)) is not None:
            self.remove(place)
            os.symlink(to, place)

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        if (place := self.place(path)) is not None:
            self.remove(place)

    @rule(path=PATHS)
    def repository_inside(self, path: str) -> None:
        place = self.place(path)
        if place is not None and not os.path.lexists(place):
            place.mkdir()
            git(place, "init", "-q")

    @rule()
    def checkpoint(self) -> None:
        model = self.model()
        commit = self.run.checkpoint()
        assert self.run.tree(commit) == model
        self.commits.append((commit, model))

    @rule(which=st.integers(min_value=0, max_value=1000))
    def go_back(self, which: int) -> None:
        commit, model = self.commits[which % len(self.commits)]
        plan = self.run.workspace.plan(commit)
        if not plan.conflicts:  # a nested repository's `.git` in the way stays
            self.run.workspace.apply(plan)
            assert self.model() == model

    @rule()
    def set_aside(self) -> None:
        model = self.model()
        ref = self.run.workspace.set_aside("x", "test")
        if ref is not None:
            assert self.run.tree(ref) == model
        else:
            assert model == self.commits[-1][1]

    @rule()
    def node_commits_itself(self) -> None:
        git(self.run.files, "commit", "-q", "--allow-empty", "-m", "own")

    @invariant()
    def the_worktree_is_a_worktree(self) -> None:
        if hasattr(self, "run"):
            assert (self.run.files / ".git").is_file()

    def model(self) -> Model:
        """Everything in the worktree that a commit must hold."""
        found: Model = {}
        for root, folders, files in os.walk(self.run.files):
            links = [name for name in folders if os.path.islink(os.path.join(root, name))]
            folders[:] = [name for name in folders if name != ".git" and name not in links]
            for name in [*files, *links]:
                place = Path(root, name)
                if name == ".git":
                    continue
                path = str(place.relative_to(self.run.files))
                if place.is_symlink():
                    found[path] = ("120000", os.fsencode(os.readlink(place)))
                else:
                    found[path] = ("100755" if place.stat().st_mode & 0o100 else "100644", place.read_bytes())
        return found


TestWorktree = Worktree.TestCase
TestWorktree.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
