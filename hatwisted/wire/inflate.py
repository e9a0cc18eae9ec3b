"""zlib streams from a peer, inflated up to a limit."""

from __future__ import annotations

from typing import Final

from isal import isal_zlib

MAX_INFLATED: Final = 64 * 1024 * 1024
"""Bytes one body may grow to: far above a broker's maxMessageSize and any registration, so only an attack is
stopped."""


class NotInflated(ValueError):
    """Not a zlib stream, not a complete one, or one that exceeds the limit; str() says which."""


def inflate(data: bytes | memoryview, limit: int = MAX_INFLATED) -> bytes:
    """What the stream holds, at most `limit` bytes. NotInflated."""
    stream = isal_zlib.decompressobj()
    try:
        plain: bytes = stream.decompress(data, limit + 1)
    except isal_zlib.error as error:  # type: ignore[misc]
        raise NotInflated(f"not zlib: {error}") from None
    if len(plain) > limit:
        raise NotInflated(f"more than {limit} bytes when decompressed")
    if not stream.eof:
        raise NotInflated("not zlib: it breaks off")
    return plain
