"""The body of a batch send (code 320): messages back to back, without topic, hosts or queue.

Per message: int32 size, int32 magic (0), int32 CRC (0, the broker computes it), int32 flag, int32 b, body,
int16 p, properties. The broker turns each into an ordinary record; nothing of this framing is stored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct(">iiiii")
_PROPERTIES_LENGTH: Final = struct.Struct(">h")
_FIXED: Final = _HEAD.size + _PROPERTIES_LENGTH.size
MAX_ENTRIES: Final = 65536
"""Messages per batch; with 22 bytes of framing each, more would only be an attack on the broker's memory."""


class CorruptBatch(ValueError):
    """The sender's batch body can't be split into messages; `position` is the byte of the bad one."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"batch body: {reason} at {position}")
        self.reason = reason
        self.position = position


class BatchEntry(NamedTuple):
    """One message of a batch; `body` and `properties` are bytes of their own, not views."""

    flag: int
    body: bytes
    properties: bytes


def decode_batch(body: bytes) -> list[BatchEntry]:
    """Split a whole batch body; CorruptBatch when a length is wrong or bytes are left over."""
    entries: list[BatchEntry] = []
    position, end = 0, len(body)
    while position < end:
        if end - position < _FIXED:
            raise CorruptBatch(f"{end - position} bytes left over", position)
        size, _magic, _crc, flag, body_size = _HEAD.unpack_from(body, position)
        body_at = position + _HEAD.size
        if body_size < 0 or size < _FIXED + body_size or size > end - position:
            raise CorruptBatch(f"size {size} with a body of {body_size}", position)
        (properties_size,) = _PROPERTIES_LENGTH.unpack_from(body, body_at + body_size)
        properties_at = body_at + body_size + _PROPERTIES_LENGTH.size
        if properties_size < 0 or properties_at + properties_size != position + size:
            raise CorruptBatch(f"size {size} with properties of {properties_size}", position)
        if len(entries) == MAX_ENTRIES:
            raise CorruptBatch(f"more than {MAX_ENTRIES} messages", position)
        position += size
        entries.append(BatchEntry(flag, body[body_at : body_at + body_size], body[properties_at:position]))
    return entries


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """The body a client sends for these messages."""
    parts = []
    for flag, body, properties in entries:
        size = _FIXED + len(body) + len(properties)
        parts += [_HEAD.pack(size, 0, 0, flag, len(body)), body]
        parts += [_PROPERTIES_LENGTH.pack(len(properties)), properties]
    return b"".join(parts)
