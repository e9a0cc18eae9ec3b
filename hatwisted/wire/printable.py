"""Text of others for a log or a terminal: one line, and nothing that a terminal obeys."""

from __future__ import annotations

import json


def printable(text: str, keep: str = "") -> str:
    """`text` with line breaks, control characters, marks that turn the direction of writing, and those without a
    width as escapes. keep: characters that may stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def printable_json(document: bytes) -> bytes:
    """A JSON document with the same as JSON's escapes: it means what it did. Breaks between its values stay."""
    text = document.decode()
    if text.isprintable():
        return document
    return "".join(
        char if char.isprintable() or char in "\n\t" else json.dumps(char)[1:-1] for char in text
    ).encode()
