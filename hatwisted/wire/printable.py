"""Text of others for a log or a terminal: one line, and nothing that a terminal obeys."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """`text` with line breaks, control characters and marks that turn the direction of writing as escapes. keep:
    characters that may stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )
