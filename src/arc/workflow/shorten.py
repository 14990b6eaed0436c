"""Shorten texts for people and models."""

from __future__ import annotations


def shortened(text: str, size: int) -> str:
    """At most `size` characters: beginning and end of what is longer, with a mark between."""
    if len(text) <= size:
        return text
    mark = " [...] "
    if size <= len(mark) + 2:
        return text[:size]
    head = (size - len(mark)) * 2 // 3
    return text[:head] + mark + text[len(text) - (size - len(mark) - head) :]


def one_line(text: str, size: int) -> str:
    """White space collapsed to single spaces, then shortened. Looks only at the parts of a long text that can be shown."""
    if len(text) > 16 * size:
        text = text[: 8 * size] + " [...] " + text[-8 * size :]
    return shortened(" ".join(text.split()), size)
