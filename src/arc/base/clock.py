"""The clock and the source of ids, handed to rooms as values so that tests can fix them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall-clock and monotonic time."""

    def now(self) -> datetime:
        """The current time, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long; cancellable."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import asyncio  # not needed by commands that only read

        await asyncio.sleep(seconds)


class Ids(Protocol):
    """Source of new identifiers."""

    def run_id(self) -> str:
        """A new ULID (26 characters, Crockford base 32, sorts by time)."""
        ...


@dataclass(frozen=True)
class SystemIds:
    """ULIDs from the machine's clock and randomness."""

    clock: Clock = field(default_factory=SystemClock)

    def run_id(self) -> str:
        from ulid import ULID  # 15 ms that commands which only read do not need

        return str(ULID.from_datetime(self.clock.now()))


def rfc3339(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds and `Z`, as in every file and `--json` output of arc."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
