"""A Git repository as arc sees it: where its parts are, what HEAD is, whether the checkout is dirty. Changes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pygit2
from pygit2 import Signature
from pygit2.enums import ConfigLevel, ObjectType, Option

from arc.base.errors import NotFoundError
from arc.base.git import IDENTITY_EMAIL, IDENTITY_NAME, Git, person_settings
from arc.workspace.git.durable import sync_files
from arc.workspace.git.errors import BareRepositoryError, BrokenRepositoryError, ObjectsVanishedError, UntrustedRepositoryError
from arc.workspace.git.status import DirtyReport, parse_status


@dataclass(frozen=True)
class Repository:
    """A checkout of a Git repository (main or linked worktree).

    `git_dir` is this checkout's own administrative folder, `common_dir` the repository's, `top` the root of its files, `prefix` the
    posix path from `top` to where the search began ("." = the top). `trusted`: the owner check was answered by the person's configuration.
    """

    git_dir: Path
    common_dir: Path
    top: Path
    prefix: str = "."
    trusted: bool = False

    @classmethod
    def discover(cls, path: Path) -> Repository | None:
        """The checkout that holds `path`, None if there is none.

        Raises:
            BareRepositoryError: it is bare, or `path` is inside the repository's own folder.
            UntrustedRepositoryError: it belongs to somebody else.
            BrokenRepositoryError: git cannot read it.
        """
        trusted = False
        question = ("rev-parse", "--is-inside-work-tree", "--absolute-git-dir", "--path-format=absolute", "--git-common-dir")
        result = Git(path).finish(*question, check=False)
        if b"dubious ownership" in result.stderr:
            trusted = _person_trusts(path)
            if not trusted:
                raise UntrustedRepositoryError(
                    f"the repository at `{path}` belongs to another user",
                    hints=("to trust it: `git config --global --add safe.directory DIRECTORY`", "or start arc as its owner"),
                )
            result = Git(path, trusted=True).finish(*question, check=False)
        if result.returncode != 0:
            stderr = result.stderr.decode(errors="replace")
            if "not a git repository (or any" in stderr:
                return None
            raise BrokenRepositoryError(f"git cannot read the repository at `{path}`", details=tuple(stderr.splitlines()[:5]))
        git = Git(path, trusted=trusted)
        inside, *folders = os.fsdecode(result.stdout).removesuffix("\n").split("\n")
        if inside != "true":
            raise BareRepositoryError(
                f"`{path}` is a bare repository or a repository's own folder: there are no files to work on",
                hints=("make a worktree of it: `git worktree add DIRECTORY`, and start there",),
            )
        if len(folders) != 2:  # a line break in the path: one question at a time
            folders = [git.line("rev-parse", question[2]), git.line("rev-parse", *question[3:])]
        top = git.line("rev-parse", "--show-toplevel")
        prefix = git.line("rev-parse", "--show-prefix").rstrip("/") or "."
        found = cls(Path(folders[0]), Path(folders[1]).resolve(), Path(top), prefix, trusted)
        try:
            found.pygit2.references.get("HEAD")
        except (pygit2.GitError, pygit2.InvalidError) as error:
            raise BrokenRepositoryError(
                f"the repository at `{top}` uses something that arc cannot read: {error}",
                hints=("object format sha1 and the `files` ref format are supported",),
            ) from error
        return found

    @classmethod
    def at(cls, common_dir: Path) -> Repository:
        """The repository with this common folder, without a checkout of its own (for refs and objects)."""
        return cls(common_dir, common_dir, common_dir)

    @cached_property
    def pygit2(self) -> pygit2.Repository:
        """The objects and refs of the repository, in this process; no system, user or environment configuration applies."""
        isolate_libgit2()
        return pygit2.Repository(str(self.common_dir), pygit2.enums.RepositoryOpenFlag.NO_SEARCH)

    @cached_property
    def _unsynced(self) -> list[str]:
        return []

    def write(self, kind: ObjectType, data: bytes) -> str:
        """Write an object; it is durable after `sync_objects`."""
        name = str(self.pygit2.write(kind, data))
        self._unsynced.append(name)
        return name

    def written(self, name: str) -> str:
        """Note an object that was written by other means, for `sync_objects`."""
        self._unsynced.append(name)
        return name

    def sync_objects(self) -> None:
        """Bring all objects written since the last call to the disk: a ref must never outlive what it names.

        They are written back together and flushed by one fsync, which is git's own `core.fsyncMethod=batch`.

        Raises:
            ObjectsVanishedError: some are gone.
        """
        if not self._unsynced:
            return
        folder = self.common_dir / "objects"
        places = {folder / name[:2] / name[2:]: name for name in self._unsynced}
        packed_or_gone = sync_files(list(places))
        self._unsynced.clear()
        if any(places[place] not in self.pygit2 for place in packed_or_gone):
            raise ObjectsVanishedError(
                "what was to be committed has just been pruned from the repository; the next checkpoint stores it again",
                hints=("do not run `git gc --prune=now` or `git prune` while a run is under way",),
            )

    def git(self, *, settings: tuple[str, ...] = ()) -> Git:
        """The git program on the repository itself (no files, no index)."""
        return Git(self.common_dir, git_dir=self.common_dir, settings=("core.bare=true", *settings), trusted=self.trusted)

    def checkout_git(self, *, index: Path | None = None, settings: tuple[str, ...] = ()) -> Git:
        """The git program on this checkout, with another index if given."""
        return Git(self.top, git_dir=self.git_dir, work_tree=self.top, index=index, settings=settings, trusted=self.trusted)

    def head_commit(self) -> str | None:
        """The commit HEAD stands for; None while there is no commit yet."""
        result = self.checkout_git().finish("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False, read_only=True)
        return result.stdout.decode().strip() or None

    def resolve(self, revision: str) -> str:
        """The commit a revision stands for, as 40 (64) hex digits.

        Raises:
            NotFoundError: there is no such commit.
        """
        result = self.checkout_or_bare().finish(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", check=False, read_only=True
        )
        if result.returncode != 0:
            raise NotFoundError(f"there is no commit `{revision}` in the repository at `{self.common_dir}`")
        return result.stdout.decode().strip()

    def checkout_or_bare(self) -> Git:
        """The git program for questions about revisions, whether or not this object stands for a checkout."""
        return self.git() if self.git_dir == self.top else self.checkout_git()

    def ref(self, name: str) -> str | None:
        """The commit that a full ref name points to, None if there is no such ref. Read afresh from disk."""
        reference = self.pygit2.references.get(name)
        return None if reference is None else str(reference.resolve().target)

    def head_of(self, admin: Path) -> str | None:
        """The commit that the HEAD of a worktree (by its administrative folder) stands for; None if it is unborn or broken."""
        try:
            head = (admin / "HEAD").read_text(errors="replace").strip()
        except OSError:
            return None
        return self.ref(head[5:]) if head.startswith("ref: ") else head

    def config(self, name: str) -> str | None:
        """A value of the repository's own configuration; None if it is not set there."""
        try:
            return self.pygit2.config[name]
        except KeyError:
            return None

    def is_dirty(self) -> DirtyReport:
        """Uncommitted work here: tracked changes, untracked files; not what is ignored, also by the person's own ignore file."""
        ignore = person_settings(self.top, "core.excludesFile").get("core.excludesFile") or (str(Path.home() / ".config/git/ignore"),)
        local = self.checkout_git().finish("config", "--local", "core.excludesFile", check=False)
        settings = () if local.returncode == 0 else (f"core.excludesFile={ignore[-1]}",)
        output = self.checkout_git(settings=settings).run(
            "status", "--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=none", read_only=True
        )
        return DirtyReport.from_status(parse_status(output))

    def signature(self) -> Signature:
        """arc's identity with the present time; never the person's."""
        return Signature(IDENTITY_NAME, IDENTITY_EMAIL)


def isolate_libgit2() -> None:
    """Turn off everything libgit2 would read from outside the repository. Idempotent; it holds for the whole process."""
    for level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL, ConfigLevel.PROGRAMDATA):
        pygit2.option(Option.SET_SEARCH_PATH, level, "")
    pygit2.option(Option.SET_OWNER_VALIDATION, False)
    pygit2.option(Option.SET_EXTENSIONS, ["partialclone"], 1)


def _person_trusts(path: Path) -> bool:
    """Whether the person's configuration names this directory (or `*`, or a parent with `/*`) as safe."""
    place = path.resolve()
    trusted: set[str] = set()
    for value in person_settings(Path("/"), "safe.directory").get("safe.directory", ()):
        trusted = set() if value == "" else trusted | {value}
    parents = [str(parent) for parent in (place, *place.parents)]
    return "*" in trusted or any(parent in trusted or f"{parent}/*" in trusted for parent in parents)
