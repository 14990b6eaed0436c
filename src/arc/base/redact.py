"""Replace secrets by `«redacted:NAME»` before anything is logged, checkpointed or committed.

Two kinds are known: the values of environment variables whose names say that they are secret (at least 8 characters; also in their
JSON-escaped and URL-quoted spelling), and tokens of well-known shapes. A secret that is neither is not found: a password of 7
characters, or one that was encoded in another way (base64, hex).
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from arc.base.json import JsonValue

Text = TypeVar("Text", str, bytes)

MINIMUM_LENGTH = 8
"""Shorter values are not redacted: they would hit ordinary words."""

_SECRET_WORDS = frozenset(
    {
        "KEY",
        "KEYS",
        "APIKEY",
        "APIKEYS",
        "ACCESSKEY",
        "SECRETKEY",
        "TOKEN",
        "TOKENS",
        "SECRET",
        "SECRETS",
        "PASSWORD",
        "PASSWORDS",
        "PASSWD",
        "PASSPHRASE",
        "PASS",
        "CREDENTIAL",
        "CREDENTIALS",
        "PAT",
    }
)
_PATH_VALUE = re.compile(r"(?:~|\.{0,2})/[^\s:]*/[^\s]*\Z")


@dataclass(frozen=True)
class _Shape:
    """A known kind of token. `hints`: one of them is in every match, so most text needs no regular expression. A group named `v` in
    the pattern marks the part that is replaced."""

    name: str
    hints: tuple[str, ...]
    pattern: str


_SHAPES = (
    _Shape("aws-access-key", ("AKIA", "ASIA"), r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _Shape("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{36,255}"),
    _Shape("github-token", ("github_pat_",), r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{22,255}"),
    _Shape("gitlab-token", ("glpat-",), r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,255}"),
    _Shape("slack-token", ("xox",), r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,255}"),
    _Shape("api-key", ("sk-",), r"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{20,512}"),
    _Shape("stripe-key", ("sk_live_", "rk_live_"), r"(?<![A-Za-z0-9])[rs]k_live_[A-Za-z0-9]{16,255}"),
    _Shape("google-key", ("AIza",), r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{35}"),
    _Shape("hugging-face-token", ("hf_",), r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,255}"),
    _Shape("npm-token", ("npm_",), r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _Shape("pypi-token", ("pypi-AgE",), r"(?<![A-Za-z0-9])pypi-AgE[A-Za-z0-9_-]{32,1024}"),
    _Shape("jwt", ("eyJ",), r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{0,2048}"),
    _Shape(
        "authorization",
        ("uthorization", "UTHORIZATION"),
        r"""(?:[Aa]uthorization|AUTHORIZATION)["']?[ \t]{0,8}[:=][ \t]{0,8}["']?(?i:bearer|basic|token)[ \t]{1,8}"""
        r"(?P<v>[A-Za-z0-9._~+/=-]{8,8192})",
    ),
    _Shape("url-password", ("://",), r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/@:?#]{0,256}:(?P<v>[^\s/@?#]{1,256})@"),
    _Shape(
        "private-key",
        ("PRIVATE KEY-----",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
        r"(?:(?:[^-]|-(?!-)){0,16384}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----"
        r"|(?:(?:[ \t\r\n]|\\n|\\r){1,8}[A-Za-z0-9+/=]{16,128}){0,256})",
    ),
)
_PRIVATE_KEY_BEGIN = b"-----BEGIN "
_LONGEST_SHAPE = 40_000
"""No match of any shape is longer (bytes)."""


@dataclass(frozen=True)
class _Secret(Generic[Text]):
    name: str
    hints: tuple[Text, ...]
    pattern: re.Pattern[Text]

    @property
    def group(self) -> str | int:
        """The group that is replaced."""
        return "v" if "v" in self.pattern.groupindex else 0


class Redactor:
    """Knows a set of secrets. Immutable; may be shared by threads. `Redactor()` knows the token shapes only."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        """`secrets` maps the name shown in the replacement to the value; values shorter than `MINIMUM_LENGTH` are left out."""
        values = {name: value for name, value in (secrets or {}).items() if len(value) >= MINIMUM_LENGTH}
        spellings = {spelling: name for name, value in values.items() for spelling in _spellings(value)}
        # The longest first: where one secret begins with another, the whole of it is replaced.
        literals = sorted(spellings.items(), key=lambda item: (-len(item[0]), item))
        self._text = (
            *(_Secret(name, (value,), re.compile(re.escape(value))) for value, name in literals),
            *(_Secret(shape.name, shape.hints, re.compile(shape.pattern, re.ASCII)) for shape in _SHAPES),
        )
        encoded = [(value.encode("utf-8", "surrogateescape"), name) for value, name in literals if _encodable(value)]
        self._data = (
            *(_Secret(name, (value,), re.compile(re.escape(value))) for value, name in encoded),
            *(_Secret(s.name, tuple(h.encode() for h in s.hints), re.compile(s.pattern.encode())) for s in _SHAPES),
        )
        self._across_lines = tuple(value for value, _ in encoded if b"\n" in value or b"\r" in value)
        self._longest = max([_LONGEST_SHAPE, *(len(value) for value, _ in encoded)])

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Redactor:
        """Know the values of all variables of `environ` that `names_a_secret`; values that are plainly file paths are not secrets."""
        return cls({name: value for name, value in environ.items() if names_a_secret(name) and not _PATH_VALUE.match(value)})

    def text(self, text: str) -> str:
        """`text` with every known secret replaced."""
        return _replace(self._text, text, lambda name: f"«redacted:{name}»")

    def data(self, data: bytes) -> bytes:
        """The same for bytes of any encoding; what is no secret is unchanged, byte for byte."""
        return _replace(self._data, data, _mark)

    def json(self, value: JsonValue) -> JsonValue:
        """The same for all strings (keys too) inside a JSON value; the value itself is not changed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.json(item) for key, item in value.items()}
        return value

    def stream(self) -> StreamRedactor:
        """A redactor for one stream that arrives in pieces."""
        return StreamRedactor(self)

    def _matches(self, data: bytes, begin: int) -> Iterator[_Match]:
        return _matches(self._data, data, begin)


@dataclass
class StreamRedactor:
    """Redacts a stream of chunks: the joined results are what `Redactor.data` makes of the joined chunks.

    Whole lines are handed out as soon as they end; an unfinished line is held back (at most some 40 kB of it, more only if a known
    secret is longer), a private key until its end. Not thread-safe; one per stream.
    """

    redactor: Redactor
    _buffer: bytes = field(default=b"", init=False)
    _context: int = field(default=0, init=False)
    """Bytes at the head of the buffer that were handed out already and are kept as context of the next match."""

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; return what can be handed out now (possibly nothing)."""
        self._buffer += chunk
        # Without a line end in the chunk, and far from the limit, nothing new can be handed out.
        if b"\n" not in chunk and b"\r" not in chunk and len(self._buffer) < 2 * self.redactor._longest:
            return b""
        return self._hand_out(max(len(self._buffer) - self.redactor._longest - 1, self._line_cut()))

    def close(self) -> bytes:
        """The rest. The redactor may be used again for a new stream afterwards."""
        rest = self._hand_out(len(self._buffer))
        self._buffer, self._context = b"", 0
        return rest

    def _line_cut(self) -> int:
        """Where the last finished line ends, or earlier if a secret that runs over lines may have begun before that."""
        buffer = self._buffer
        cut = max(buffer.rfind(b"\n"), buffer.rfind(b"\r")) + 1
        key = buffer.rfind(_PRIVATE_KEY_BEGIN, 0, cut)
        if key >= 0 and b"-----END " not in buffer[key:cut]:
            cut = key
        for secret in self.redactor._across_lines:
            for length in range(min(len(secret) - 1, len(buffer)), 0, -1):
                if buffer.endswith(secret[:length]):
                    cut = min(cut, len(buffer) - length)
                    break
        return cut

    def _hand_out(self, cut: int) -> bytes:
        if cut <= self._context:
            return b""
        found = list(self.redactor._matches(self._buffer, self._context))
        # A match that has begun is handed out whole, and with it whatever lies before its end.
        while (reached := max((end for begin, _, end, _ in found if begin < cut), default=cut)) > cut:
            cut = reached
        parts: list[bytes] = []
        position = self._context
        for _, begin, end, name in found:
            if begin >= cut:
                break
            parts += (self._buffer[position:begin], _mark(name))
            position = end
        if position < cut:
            parts.append(self._buffer[position:cut])
            position = cut
        self._context = min(position, 1)
        self._buffer = self._buffer[position - self._context :]
        return b"".join(parts)


def names_a_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret: one of its words is KEY, TOKEN, SECRET, PASSWORD or the like."""
    return not _SECRET_WORDS.isdisjoint(re.split(r"[^A-Z0-9]+", name.upper()))


def _spellings(value: str) -> set[str]:
    """The value as it is, as it stands in JSON, and as it stands in a URL."""
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        urllib.parse.quote(value, safe="", errors="replace"),
    }


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _mark(name: str) -> bytes:
    return f"«redacted:{name}»".encode("utf-8", "replace")


_Match: TypeAlias = tuple[int, int, int, str]
"""Where a match begins (its prefix included), where the part to replace begins and ends, the secret's name."""


def _matches(secrets: tuple[_Secret[Text], ...], text: Text, begin: int) -> Iterator[_Match]:
    """Matches whose parts to replace do not overlap, from the left; of those that begin together, the first kind.

    What a pattern only looks at (a URL's scheme, a header's name) is free: another secret may lie in it.
    """
    streams: list[tuple[_Secret[Text], re.Match[Text]]] = []
    for secret in secrets:
        if any(hint in text for hint in secret.hints):
            first = secret.pattern.search(text, begin)
            if first is not None:
                streams.append((secret, first))
    while streams:
        index = min(range(len(streams)), key=lambda i: (streams[i][1].start(streams[i][0].group), i))
        secret, match = streams[index]
        position = match.end(secret.group)
        yield match.start(), match.start(secret.group), position, secret.name
        following: list[tuple[_Secret[Text], re.Match[Text]]] = []
        for other, found in streams:
            later: re.Match[Text] | None = found
            while later is not None and later.start(other.group) < position:
                later = other.pattern.search(text, position if other.group == 0 else later.start() + 1)
            if later is not None:
                following.append((other, later))
        streams = following


def _replace(secrets: tuple[_Secret[Text], ...], text: Text, mark: Callable[[str], Text]) -> Text:
    parts: list[Text] = []
    position = 0
    for _, begin, end, name in _matches(secrets, text, 0):
        parts += (text[position:begin], mark(name))
        position = end
    if not parts:
        return text
    parts.append(text[position:])
    return text[:0].join(parts)
