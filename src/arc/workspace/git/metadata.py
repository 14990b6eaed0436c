"""The metadata branch: an orphan history at the ref `refs/arc/{run_id}` itself, written object by object with libgit2.

It has no working tree and no index. `prepare` writes a commit that keeps the files it was not given; the ref moves later, in the same
transaction as the run branch. Sub-directories (`sources/`, `artifacts/`) are ordinary trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pygit2
from pygit2.enums import ObjectType

from arc.workspace.git.errors import UnreadableCheckpointError
from arc.workspace.git.objects import DIRECTORY, FILE, Entry, edit_tree, read_tree, tree_of, walk_tree, write_commit
from arc.workspace.git.refs import RefUpdate
from arc.workspace.git.repository import Repository

METADATA_PREFIX = "refs/arc/"


@dataclass(frozen=True)
class MetadataCommit:
    """One commit of the metadata branch: id, subject line, Unix time."""

    commit: str
    subject: str
    time: int


class MetadataBranch:
    """The files of one run's metadata branch, at its tip or at any of its commits."""

    def __init__(self, repository: Repository, run_id: str) -> None:
        self._repository = repository
        self.ref = f"{METADATA_PREFIX}{run_id}"

    def head(self) -> str | None:
        """The newest metadata commit; None if the run has no metadata branch."""
        return self._repository.ref(self.ref)

    def read(self, name: str, commit: str | None = None) -> bytes | None:
        """A file's content at `commit` (default: the tip); None if there is no such file or no branch.

        Raises:
            UnreadableCheckpointError: the commit or an object of it is missing or damaged.
        """
        commit = commit or self.head()
        if commit is None:
            return None
        entry = Entry(DIRECTORY, tree_of(self._repository, commit))
        for part in name.encode().split(b"/"):
            found = read_tree(self._repository, entry.id).get(part) if entry.mode == DIRECTORY else None
            if found is None:
                return None
            entry = found
        try:
            blob = self._repository.pygit2[entry.id]
        except (KeyError, pygit2.GitError) as error:
            raise UnreadableCheckpointError(f"`{name}` of the metadata commit {commit} cannot be read: {error}") from error
        return blob.data if isinstance(blob, pygit2.Blob) else None

    def names(self, prefix: str = "", commit: str | None = None) -> tuple[str, ...]:
        """Paths of all files at `commit` (default: the tip) that start with `prefix`, sorted."""
        commit = commit or self.head()
        if commit is None:
            return ()
        paths = (path.decode(errors="surrogateescape") for path, _ in walk_tree(self._repository, tree_of(self._repository, commit)))
        return tuple(sorted(path for path in paths if path.startswith(prefix)))

    def prepare(self, files: Mapping[str, bytes], message: str, *, keep: bool = True) -> RefUpdate:
        """Write a metadata commit on top of the tip and return the ref update that publishes it.

        `keep`: files not given stay as they are; otherwise the commit holds exactly `files`. Always a new commit.
        """
        head = self.head()
        base = tree_of(self._repository, head) if head is not None and keep else None
        edits = {name.encode(): Entry(FILE, self._repository.write(ObjectType.BLOB, data)) for name, data in files.items()}
        tree = edit_tree(self._repository, base, edits)
        commit = write_commit(self._repository, tree, [head] if head is not None else [], message)
        return RefUpdate(self.ref, commit, head)

    def log(self) -> tuple[MetadataCommit, ...]:
        """All metadata commits, newest first (first parents only)."""
        commits: list[MetadataCommit] = []
        current = self.head()
        while current is not None:
            commit = self._repository.pygit2[current]
            if not isinstance(commit, pygit2.Commit):
                raise UnreadableCheckpointError(f"`{self.ref}` does not point to a commit")
            commits.append(MetadataCommit(str(commit.id), commit.message.split("\n", 1)[0], commit.commit_time))
            current = str(commit.parent_ids[0]) if commit.parent_ids else None
        return tuple(commits)
