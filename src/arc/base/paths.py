"""Where arc keeps its files, and small helpers about paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from arc.base.errors import UsageError

_UNSAFE = re.compile(r"[^A-Za-z0-9_.@+=-]+")


class NoHomeError(UsageError):
    """Neither ARC_HOME nor HOME says where arc's files go."""

    code = "home.unknown"


def arc_home(environ: Mapping[str, str]) -> Path:
    """`$ARC_HOME` (a relative one counts from the working directory), else `$HOME/.arc`. Nothing is created.

    Raises:
        NoHomeError: neither variable is set.
    """
    chosen = environ.get("ARC_HOME", "")
    if chosen:
        return Path(chosen).expanduser().absolute()
    home = environ.get("HOME", "")
    if not home:
        raise NoHomeError("neither `ARC_HOME` nor `HOME` is set, so there is no place for runs", hints=("export ARC_HOME=/some/folder",))
    return Path(home).absolute() / ".arc"


def tilde(path: Path | str, environ: Mapping[str, str]) -> str:
    """The path for display: the home directory is written `~`."""
    home = environ.get("HOME", "").rstrip("/")
    text = str(path)
    if home and (text == home or text.startswith(home + "/")):
        return "~" + text[len(home) :]
    return text


def safe_name(text: str, *, limit: int = 80) -> str:
    """`text` as one file name: letters, digits and `_.@+=-` stay, `/` becomes `.`, every other run of characters `-`.

    Not reversible: use it only behind something unique (an ordinal).
    """
    name = _UNSAFE.sub("-", text.replace("/", ".")).strip(".-")[:limit]
    return name or "x"
