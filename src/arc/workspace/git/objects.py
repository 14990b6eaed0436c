"""Trees and commits made in this process: raw tree objects, edited where something changed and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pygit2
from pygit2.enums import ObjectType

from arc.workspace.git.errors import UnreadableCheckpointError
from arc.workspace.git.repository import Repository
from arc.workspace.protocol import Change

DIRECTORY = 0o040000
LINK = 0o120000
GITLINK = 0o160000
FILE = 0o100644
EXECUTABLE = 0o100755


@dataclass(frozen=True)
class Entry:
    """What stands at a name in a tree: mode and object id (hex)."""

    mode: int
    id: str


Edits = Mapping[bytes, Entry | None]
"""Path -> what stands there from now on; None = nothing."""


@dataclass(frozen=True)
class TreeChange:
    """One path (never a directory) that differs between two trees."""

    path: bytes
    old: Entry | None
    new: Entry | None


def read_tree(repository: Repository, tree: str | None) -> dict[bytes, Entry]:
    """The names directly in a tree (None = the empty tree)."""
    if tree is None:
        return {}
    try:
        kind, data = repository.pygit2.odb.read(pygit2.Oid(hex=tree))[:2]
    except (KeyError, pygit2.GitError) as error:
        raise UnreadableCheckpointError(f"the tree {tree} cannot be read: {error}") from error
    if kind != ObjectType.TREE:
        raise UnreadableCheckpointError(f"{tree} is not a tree")
    size = len(tree) // 2
    entries: dict[bytes, Entry] = {}
    place = 0
    while place < len(data):
        space = data.index(b" ", place)
        end = data.index(b"\0", space)
        entries[data[space + 1 : end]] = Entry(int(data[place:space], 8), data[end + 1 : end + 1 + size].hex())
        place = end + 1 + size
    return entries


def write_tree(repository: Repository, entries: Mapping[bytes, Entry]) -> str:
    """Write a tree object with these names, in Git's order."""
    ordered = sorted(entries.items(), key=lambda item: item[0] + b"/" if item[1].mode == DIRECTORY else item[0])
    data = b"".join(b"%o %s\0%s" % (entry.mode, name, bytes.fromhex(entry.id)) for name, entry in ordered)
    return repository.write(ObjectType.TREE, data)


def edit_tree(repository: Repository, tree: str | None, edits: Edits) -> str:
    """The tree that results from `edits`: a removed directory's last name removes the directory, a file takes a directory's place."""
    return _edit(repository, tree, edits) or write_tree(repository, {})


def _edit(repository: Repository, tree: str | None, edits: Edits) -> str | None:
    entries = read_tree(repository, tree)
    below: dict[bytes, dict[bytes, Entry | None]] = {}
    here: dict[bytes, Entry | None] = {}
    for path, entry in edits.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            below.setdefault(name, {})[rest] = entry
        else:
            here[name] = entry
    for name, edits_below in below.items():
        present = entries.get(name)
        if present is not None and present.mode != DIRECTORY and all(entry is None for entry in edits_below.values()):
            continue
        old = present.id if present is not None and present.mode == DIRECTORY else None
        new = _edit(repository, old, edits_below)
        if new is None:
            entries.pop(name, None)
        else:
            entries[name] = Entry(DIRECTORY, new)
    for name, entry in here.items():
        if entry is not None:
            entries[name] = entry
        elif name not in below:
            entries.pop(name, None)
        elif (present := entries.get(name)) is not None and present.mode != DIRECTORY:
            del entries[name]
    return write_tree(repository, entries) if entries else None


def entries_at(repository: Repository, tree: str, paths: Iterable[bytes]) -> dict[bytes, Entry]:
    """What stands in a tree at these paths; those that are not there are left out. Each folder is read once."""
    folders: dict[bytes, dict[bytes, Entry]] = {b"": read_tree(repository, tree)}

    def names_in(folder: bytes) -> dict[bytes, Entry]:
        if folder not in folders:
            above, _, name = folder.rpartition(b"/")
            entry = names_in(above).get(name)
            folders[folder] = read_tree(repository, entry.id) if entry is not None and entry.mode == DIRECTORY else {}
        return folders[folder]

    found: dict[bytes, Entry] = {}
    for path in paths:
        folder, _, name = path.rpartition(b"/")
        if (entry := names_in(folder).get(name)) is not None:
            found[path] = entry
    return found


def walk_tree(repository: Repository, tree: str | None, prefix: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
    """All paths below a tree that are not directories, with what stands there."""
    for name, entry in read_tree(repository, tree).items():
        if entry.mode == DIRECTORY:
            yield from walk_tree(repository, entry.id, prefix + name + b"/")
        else:
            yield prefix + name, entry


def walk_folders(repository: Repository, tree: str, prefix: bytes = b"") -> Iterator[bytes]:
    """All folders below a tree."""
    for name, entry in read_tree(repository, tree).items():
        if entry.mode == DIRECTORY:
            yield prefix + name
            yield from walk_folders(repository, entry.id, prefix + name + b"/")


def compare_trees(repository: Repository, old: str | None, new: str | None, prefix: bytes = b"") -> Iterator[TreeChange]:
    """The paths that differ, directories that are equal never opened. Unordered."""
    if old == new:
        return
    before, after = read_tree(repository, old), read_tree(repository, new)
    for name in before.keys() | after.keys():
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        path = prefix + name
        old_tree = was.id if was is not None and was.mode == DIRECTORY else None
        new_tree = now.id if now is not None and now.mode == DIRECTORY else None
        old_file = was if old_tree is None else None
        new_file = now if new_tree is None else None
        if old_file is not None or new_file is not None:
            yield TreeChange(path, old_file, new_file)
        if old_tree is not None or new_tree is not None:
            yield from compare_trees(repository, old_tree, new_tree, path + b"/")


def tree_of(repository: Repository, state: str) -> str:
    """The tree of a commit or of a tree id.

    Raises:
        UnreadableCheckpointError: there is no such object, or it is neither.
    """
    try:
        return str(repository.pygit2[state].peel(pygit2.Tree).id)
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise UnreadableCheckpointError(f"the commit or tree {state} cannot be read: {error}") from error


def write_commit(repository: Repository, tree: str, parents: Sequence[str], message: str) -> str:
    """Write a commit object by arc, now. Moves no ref."""
    signature = repository.signature()
    return repository.written(str(repository.pygit2.create_commit(None, signature, signature, message, tree, list(parents))))


def describe_changes(changes: Iterator[TreeChange] | Sequence[TreeChange]) -> tuple[Change, ...]:
    """Tree changes as the workspace protocol's values; a file that went and came back elsewhere with equal content is a rename."""
    changes = sorted(changes, key=lambda change: change.path)
    gone = {(change.old.id, change.old.mode): change.path for change in changes if change.old is not None and change.new is None}
    renamed: dict[bytes, bytes] = {}
    for change in changes:
        if change.old is None and change.new is not None:
            source = gone.pop((change.new.id, change.new.mode), None)
            if source is not None:
                renamed[change.path] = source
    sources = set(renamed.values())
    result: list[Change] = []
    for change in changes:
        if change.path in sources:
            continue
        if change.path in renamed:
            result.append(Change(change.path, "renamed", renamed[change.path]))
        elif change.old is None:
            result.append(Change(change.path, "added"))
        elif change.new is None:
            result.append(Change(change.path, "deleted"))
        elif change.old.mode & 0o170000 != change.new.mode & 0o170000:
            result.append(Change(change.path, "kind"))
        elif change.old.id == change.new.id:
            result.append(Change(change.path, "mode"))
        else:
            result.append(Change(change.path, "modified"))
    return tuple(result)
