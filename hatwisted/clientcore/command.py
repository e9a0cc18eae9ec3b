"""Requests from plain values."""

from __future__ import annotations

from collections.abc import Mapping

from hatwisted.wire.remoting import RemotingCommand


def command(code: int, ext: Mapping[str, object] | None = None, body: bytes = b"") -> RemotingCommand:
    """A request.

    - code: a RequestCode
    - ext: its fields; None is left out, booleans and numbers become text as Java writes them
    - body: its bytes
    """
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
