"""The JSON value type, and typed encoding and decoding of arc's state files (msgspec)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from arc.base.errors import CorruptError

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
else:
    JsonValue = Any  # msgspec decodes untyped places to exactly these kinds; it cannot resolve a recursive alias

JsonObject: TypeAlias = dict[str, JsonValue]

T = TypeVar("T")


def encode(value: object) -> bytes:
    """Encode dataclasses and plain values as indented UTF-8 JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def encode_line(value: object) -> bytes:
    """Encode as one line (for append-only logs), newline included."""
    return msgspec.json.encode(value) + b"\n"


def decode(data: bytes, kind: type[T], source: str | Path) -> T:
    """Decode and validate `data` as `kind`.

    Raises:
        CorruptError: not JSON, or not of that type; names `source` and the place in it.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise CorruptError(f"`{source}` is not a valid {kind.__name__}: {error}") from error


def name_fields(key: str, name: bytes) -> JsonObject:
    """A file's name for a JSON document: as text, and where it is not UTF-8, whole in base64 under `{key}_b64`."""
    try:
        return {key: name.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {key: name.decode(errors="replace"), f"{key}_b64": b64encode(name).decode()}
