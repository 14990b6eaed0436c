"""Names of parallel branches: their refs and folders, distinct for distinct keys on every file system."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9_-]|\.(?!\.)){0,58}[a-z0-9]|[a-z0-9]")


def safe_name(name: str) -> str:
    """A name for a ref and a folder. Plain lower-case names stay; any other gets a hash, so that no two names share one.

    (`A-b`, `a_b` and `a-b` stay apart also where case does not count.)
    """
    if _PLAIN.fullmatch(name) and not name.endswith(".lock") and "~" not in name:
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "branch"
    return f"{plain}-{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:10]}"


def branch_ref(run_id: str, ordinal: int, node_id: str, key: str) -> str:
    """Full name of the Git branch of one branch of a parallel block."""
    return f"refs/heads/arc/branch/{run_id}/{ordinal}-{safe_name(node_id)}/{safe_name(key)}"


def branch_path(home: Path, ordinal: int, node_id: str, key: str) -> Path:
    """Folder of its worktree."""
    return home / "branches" / f"{ordinal}-{safe_name(node_id)}" / safe_name(key) / "worktree"


def ref_of_path(run_id: str, home: Path, path: Path) -> str | None:
    """The Git branch whose worktree lies at `path`, None if that is no branch's place in the run folder `home` (nested blocks included).

    The place tells it also where HEAD does not: git registers a worktree detached before it puts it on its branch, and a node may have
    moved HEAD.
    """
    parts = Path(os.path.realpath(path)).parts
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(home)) or len(parts) < 4:
        return None
    folder, block, key, name = parts[-4:]
    return f"refs/heads/arc/branch/{run_id}/{block}/{key}" if (folder, name) == ("branches", "worktree") else None
