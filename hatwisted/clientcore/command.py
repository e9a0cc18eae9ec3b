"""Requests from plain values, and plain values out of answers."""

from __future__ import annotations

from collections.abc import Mapping

from hatwisted.clientcore.errors import BadAnswer
from hatwisted.wire.remoting import RemotingCommand


def command(code: int, ext: Mapping[str, object] | None = None, body: bytes = b"") -> RemotingCommand:
    """A request; None is left out, booleans and numbers become text as Java writes them."""
    texts = {
        name: value
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in (ext or {}).items()
        if value is not None
    }
    return RemotingCommand(code, ext=texts, body=body)


def number_in(address: str, answer: RemotingCommand, name: str) -> int:
    """A number out of the answer's fields. BadAnswer if it isn't there."""
    try:
        return int(answer.ext[name])
    except (KeyError, ValueError):
        raise BadAnswer(
            f"{address}: its answer's field {name} is {answer.ext.get(name)!r}, not a number"
        ) from None
