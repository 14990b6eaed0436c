"""Capturing a worktree as a tree, through its private index.

Four steps: `git status` on the private index (with untracked cache and preloading: the whole cost of a large repository), the list of
new files, `git update-index` for the paths that differ (filters, attributes and modes are git's), and the tree, edited in this process from
the previous checkpoint's. The worktree's own index is neither read nor written.

Where the files could be hashed in this process, the tree does not depend on the index: `git update-index` then runs beside the commit.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pygit2

from arc.base.faults import declare_faults, fault
from arc.base.git import GitError
from arc.workspace.git.coverage import DEFAULT_LIMITS, Coverage, Limits, is_special
from arc.workspace.git.errors import StageError
from arc.workspace.git.filters import ATTRIBUTES, attribute_files, filter_notice, undefined_filters
from arc.workspace.git.hashing import hash_files
from arc.workspace.git.nested import expand_untracked, ignored_paths, is_nested_repository
from arc.workspace.git.objects import DIRECTORY, GITLINK, Edits, Entry, edit_tree, entries_at, tree_of, walk_folders
from arc.workspace.git.private_index import PrivateIndex
from arc.workspace.git.special import SpecialFiles
from arc.workspace.git.status import StatusEntry, parse_status
from arc.workspace.notices import NoticeSink
from arc.workspace.plan import Gap

MANY_CHANGES = 2_000
"""Above this many changed paths git hashes them (it then costs less than doing it here)."""
NAMED_PATHS = 200
"""So many of the differing paths are named: they end up in the outcome of the node, and so in every later checkpoint."""
WRITE_BACK_EVERY = 16
SPECIAL = "a pipe, socket or device cannot be stored"

declare_faults(
    {
        "git.stage.status": "the differing paths are known, the private index is as before",
        "git.stage.indexed": "the blobs are written; the private index holds them or is being brought in step",
        "git.stage.tree": "the tree is written",
    }
)


@dataclass(frozen=True)
class Captured:
    """A captured state: its tree, how many paths differ from the base, the first `NAMED_PATHS` of them, nested repositories found, what
    could not be captured."""

    tree: str
    changes: int
    paths: tuple[bytes, ...] = ()
    nested: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass
class Stager:
    """Captures one worktree."""

    index: PrivateIndex
    notices: NoticeSink
    limits: Limits = DEFAULT_LIMITS
    _captures: int = 0

    def __post_init__(self) -> None:
        self._repository = self.index.repository
        self._top = self.index.worktree.path
        self._coverage = Coverage(self.notices, self.limits)
        self._special = SpecialFiles(self._top)
        self._filters: set[str] | None = None
        self._last: tuple[str, tuple[bytes, float]] | None = None

    def capture(self, base: str, *, whole: bool = False) -> Captured:
        """The tree of the files as they are now. `base` is the commit or tree that the private index was last in step with.

        The private index may still be on its way to that state afterwards: `settle`. `whole`: look for new files in any case.

        Raises:
            StageError: git could not capture them; nothing older is reused.
        """
        gaps: dict[bytes, str] = {}
        try:
            self.settle(base)
            self.index.prepare(base)
            special = self._find_special(base)
            only_known = not whole and self._all_known(base)
            self._last = None
            entries = self._status(base, gaps, only_known)
            fault("git.stage.status")
            changed = self._changed(entries, special, gaps)
            edits = self._hash_here(base, entries, changed)
            if edits is None:
                self.index.update(changed, gaps)
            elif changed:
                self.index.update_beside(changed)
            fault("git.stage.indexed")
            tree, edits = self._tree_from(base, edits) if edits is not None else self._tree(base)
        except GitError as error:
            raise StageError(f"the files in `{self._top}` could not be captured: {error.message}", details=error.details) from error
        except pygit2.GitError as error:
            raise StageError(f"the files in `{self._top}` could not be captured: {error}") from error
        fault("git.stage.tree")
        nested = self._coverage.nested_above(self._top, changed, self.index.git_links())
        self._tell_filters(changed)
        self._last = None if gaps else (tree, self.index.ignore_rules())
        paths = tuple(heapq.nsmallest(NAMED_PATHS, edits))
        return Captured(tree, len(edits), paths, nested, tuple(Gap(path, reason) for path, reason in sorted(gaps.items())))

    def settle(self, base: str) -> None:
        """Wait until the private index is in step with the last capture (or made anew from `base`, if that failed)."""
        if not self.index.settle(base):
            self._last = None

    def look_everywhere(self, base: str) -> tuple[tuple[bytes, ...], tuple[Gap, ...]]:
        """All folders of the worktree that are not ignored, looked at afresh, and the special files in them."""
        self._special = SpecialFiles(self._top)
        gaps = tuple(Gap(path, SPECIAL) for path in self._find_special(base))
        return self._special.folders, gaps

    def _all_known(self, base: str) -> bool:
        """Whether there can be no file that git does not know yet, so that it need not look for any.

        The last capture found all there were and is committed as `base`; since then no ignore rule has changed, and each folder whose time
        has holds only names of `base`.
        """
        base_tree = tree_of(self._repository, base)
        if self._last != (base_tree, self.index.ignore_rules()) or self._special.grown or self._special.closed:
            return False
        listed = self._special.listed.items()
        paths = [folder + b"/" + name if folder else name for folder, names in listed for name in names.files]
        known = entries_at(self._repository, base_tree, paths)
        return all(path in known and known[path].mode != DIRECTORY for path in paths)

    def _status(self, base: str, gaps: dict[bytes, str], only_known: bool) -> tuple[StatusEntry, ...]:
        """What git says has changed; with `only_known` it does not look for new files, unless a `.gitignore` has changed."""
        if only_known and self._captures % WRITE_BACK_EVERY != 0:
            entries = self._ask_status(base, gaps, "no")
            if not any(os.path.basename(entry.path) == b".gitignore" for entry in entries):
                return entries
        return self._ask_status(base, gaps, "normal")

    def _ask_status(self, base: str, gaps: dict[bytes, str], untracked: str) -> tuple[StatusEntry, ...]:
        command = (
            "status",
            "--porcelain=v2",
            "-z",
            f"--untracked-files={untracked}",
            "--no-renames",
            "--no-ahead-behind",
            "--ignore-submodules=none",
        )
        # Now and then git may write its untracked cache back into the index; each time would cost more than the folders it looks at again.
        write = self._captures % WRITE_BACK_EVERY == 0
        self._captures += 1
        result = self.index.git().finish(*command, check=False, read_only=not write)
        if result.returncode != 0 and any(word in result.stderr for word in (b"index file", b"bad signature", b"index uses")):
            self.index.rebuild(base)  # torn by a power loss: it holds nothing that cannot be made again
            result = self.index.git().finish(*command, check=False)
        if result.returncode != 0:
            message = os.fsdecode(result.stderr)
            first = next((line for line in message.splitlines() if line.strip()), "no message")
            raise GitError(f"`git status` failed: {first}", command=command, exit_code=result.returncode, stderr=message)
        for line in result.stderr.split(b"\n"):
            if line.startswith(b"warning: could not open directory '"):
                name, _, reason = line.removeprefix(b"warning: could not open directory '").rpartition(b"': ")
                gaps[name.rstrip(b"/")] = f"the folder cannot be read ({os.fsdecode(reason).lower()})"
        return parse_status(result.stdout)

    def _changed(self, entries: Sequence[StatusEntry], special: Sequence[bytes], gaps: dict[bytes, str]) -> list[bytes]:
        """The paths to hand to `git update-index`."""
        for entry in entries:
            if entry.is_submodule and entry.submodule[2:] != "..":
                gaps[entry.path] = "the submodule has uncommitted work, which is not in this checkpoint"
        moved = {entry.path for entry in entries if entry.submodule[1:2] == "C"}
        changed = [entry.path for entry in entries if not entry.untracked and entry.unstaged != "."]
        changed = [path for path in changed if path not in gaps or path in moved]
        changed += self._new(entries)
        gaps.update(dict.fromkeys(special, SPECIAL))
        for name in self._special.closed:
            gaps.setdefault(name, "the folder cannot be read (permission denied)")
        self._coverage.submodules(self.index.git_links(), self._top, gaps)
        return [path for path in changed if path not in gaps or not is_special(os.fsencode(self._top) + b"/" + path)]

    def _new(self, entries: Sequence[StatusEntry]) -> list[bytes]:
        """Files that git does not know yet, folders expanded."""
        untracked = [entry.path for entry in entries if entry.untracked]
        # A folder where a tracked file was: git reports the file as deleted and says nothing of the folder.
        untracked += [entry.path + b"/" for entry in entries if entry.unstaged == "D" and _is_folder(self._top, entry.path)]
        if not untracked:
            return []
        submodules = self.index.registered_submodules() if any(name.endswith(b"/") for name in untracked) else frozenset()
        links = [name.rstrip(b"/") for name in untracked if name.rstrip(b"/") in submodules]
        rest = [name for name in untracked if name.rstrip(b"/") not in submodules]
        found = expand_untracked(self.index.git(), self._top, self.index.scratch_repository(), rest, self.index.excludes_file)
        new = self.index.without_excluded(found.files)
        self._coverage.nested(found.nested)
        self._coverage.size(self._top, new)
        return links + new

    def _find_special(self, base: str) -> tuple[bytes, ...]:
        def folders() -> Iterable[bytes]:
            return walk_folders(self._repository, tree_of(self._repository, base))

        def ignored(candidates: list[bytes]) -> Iterable[bytes]:
            links = self.index.git_links() | self.index.registered_submodules()
            own = [folder for folder in candidates if folder not in links]
            return {*links, *(ignored_paths(self.index.git(), own) if own else ())}

        return self._special.find(folders, ignored)

    def _hash_here(self, base: str, entries: Sequence[StatusEntry], changed: Sequence[bytes]) -> Edits | None:
        """The changes as tree edits, hashed in this process; None if git itself must say what it stored.

        That is so when index and base differ (after a crash, or HEAD is elsewhere), for submodules and where attributes may apply.
        """
        plain = all(entry.untracked or (entry.staged == "." and not entry.is_submodule) for entry in entries)
        if not plain or len(changed) > MANY_CHANGES or self._repository.head_of(self.index.worktree.admin) != base:
            return None
        if any(is_nested_repository(self._top / os.fsdecode(path)) for path in changed):
            return None  # a new submodule
        return hash_files(self._repository, self._top, changed)

    def _tree_from(self, base: str, edits: Edits) -> tuple[str, Edits]:
        base_tree = tree_of(self._repository, base)
        return edit_tree(self._repository, base_tree, edits) if edits else base_tree, edits

    def _tree(self, base: str) -> tuple[str, Edits]:
        """The tree of the private index, made from the base's tree and the entries that differ (these are returned too)."""
        base_tree = tree_of(self._repository, base)
        edits = index_changes(self.index, base_tree)
        if any(entry is not None and entry.mode != GITLINK and entry.id not in self._repository.pygit2 for entry in edits.values()):
            # Somebody pruned what no ref named yet (`git gc --prune=now` after a checkpoint that failed): the files are stored again.
            self.index.rebuild(base)
            gaps: dict[bytes, str] = {}
            self.index.update(self._changed(self._ask_status(base, gaps, "normal"), self._find_special(base), gaps), gaps)
            edits = index_changes(self.index, base_tree)
        for path, entry in edits.items():
            if entry is not None and entry.mode == GITLINK:
                self.index.note_link(path)
        return self._tree_from(base, edits)

    def _tell_filters(self, changed: Sequence[bytes]) -> None:
        """Say once of each filter that it is asked for and not defined."""
        if self._filters is None:
            self._filters = set()
            files: Sequence[bytes] = attribute_files(self.index.git())
        else:
            files = [path for path in changed if os.path.basename(path) == ATTRIBUTES]
        found = undefined_filters(self._repository, self._top, files) if files else {}
        new = {name: path for name, path in found.items() if name not in self._filters}
        self._filters |= new.keys()
        if new:
            self.notices(filter_notice(new))


def index_changes(index: PrivateIndex, tree: str) -> Edits:
    """How the private index differs from a tree."""
    git = index.git()
    command = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", tree)
    return parse_changes(git.run(*command, read_only=True))


def parse_changes(output: bytes) -> Edits:
    """The output of `git diff-index --raw -z` as tree edits."""
    fields = output.split(b"\0")
    edits: dict[bytes, Entry | None] = {}
    for header, path in zip(fields[0:-1:2], fields[1::2], strict=True):
        _, mode, _, new, letter = header.split(b" ")
        edits[path] = None if letter == b"D" else Entry(int(mode, 8), new.decode())
    return edits


def _is_folder(top: Path, path: bytes) -> bool:
    place = os.fsencode(top) + b"/" + path
    return os.path.isdir(place) and not os.path.islink(place)
