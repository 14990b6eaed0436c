"""Keep a command's output in memory within bounds: the beginning and the end of what is too long."""

from __future__ import annotations

from dataclasses import dataclass, field

CONTEXT_LIMIT = 10_000_000
"""Bytes of each stream that the context gets (the node's log has everything)."""


@dataclass
class Capture:
    """Collects the pieces of one stream; of more than `limit` bytes, the first and the last half of `limit` are kept."""

    limit: int = CONTEXT_LIMIT
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> None:
        """The next piece."""
        self.total += len(data)
        half = self.limit // 2
        room = half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Trimmed only now and then: cutting the front of a buffer at each piece would copy it each time.
        if len(self._tail) > 2 * half + 65_536:
            del self._tail[:-half]

    @property
    def kept(self) -> int:
        """How many bytes of the stream `text` shows."""
        return min(self.total, self.limit // 2 * 2)

    @property
    def truncated(self) -> bool:
        return self.kept < self.total

    def text(self) -> str:
        """What was collected, as UTF-8 with replacement characters; one line says how much is missing in the middle."""
        half = self.limit // 2
        if not self.truncated:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        head, tail = bytes(self._head).decode("utf-8", "replace"), bytes(self._tail[-half:]).decode("utf-8", "replace")
        return f"{head}\n[... {self.total - self.kept} bytes left out; the node's log has all of it ...]\n{tail}"
