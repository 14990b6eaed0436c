"""Named failure points in product code, so that a test can kill the process at each of them.

`fault("checkpoint.disk.renamed")` is a no-op unless the environment variable `ARC_FAULT` names
the point: `ARC_FAULT=NAME` or `ARC_FAULT=NAME:N` (the N-th time it is reached, from 1) kills this
process with SIGKILL; `ARC_FAULT_ACTION=raise` raises `OSError(ENOSPC)` there instead. The variable is read
once, at import. Every name stands in `FAULT_POINTS`; `fault` with another name is a programming error (asserted).
"""

from __future__ import annotations

import errno
import os
import signal

FAULT_POINTS: dict[str, str] = {}
"""name -> what has just happened at that point. Rooms add theirs with `declare_faults`."""

_armed, _, _nth = os.environ.get("ARC_FAULT", "").partition(":")
_remaining = int(_nth) if _nth else 1


def declare_faults(points: dict[str, str]) -> None:
    """Register a room's failure points (at import of the module that holds them)."""
    FAULT_POINTS.update(points)


def fault(name: str) -> None:
    """Die here if this point is armed; otherwise do nothing (one string comparison)."""
    global _remaining
    if name != _armed:
        return
    assert name in FAULT_POINTS, name
    _remaining -= 1
    if _remaining == 0:
        if os.environ.get("ARC_FAULT_ACTION") == "raise":
            raise OSError(errno.ENOSPC, f"injected at {name}")
        os.kill(os.getpid(), signal.SIGKILL)
