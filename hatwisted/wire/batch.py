"""The body of a batch send (code 320): messages back to back, without topic, hosts or queue.

Per message: int32 size, int32 magic (0), int32 CRC (0, the broker computes it), int32 flag, int32 b, body,
int16 p, properties. The broker turns each into an ordinary record; nothing of this framing is stored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from hatwisted.wire.layout import MAX_PROPERTIES_LENGTH

_HEAD: Final = struct.Struct(">iiiii")
_LENGTHS: Final = struct.Struct(">i8xii")
"""The fields of the head that matter: size, flag and body size."""
_BODY_AT: Final = _HEAD.size
_PROPERTIES_LENGTH: Final = struct.Struct(">h")
BATCH_ENTRY_FIXED: Final = _HEAD.size + _PROPERTIES_LENGTH.size
"""Bytes of an entry in addition to its body and properties."""
MAX_ENTRIES: Final = 7_900
"""Messages per batch. The answer has an id of 33 characters for each (57 of a store with an IPv6 address), and
hatwisted's clients up to 0.1.0 take a header of 256 KiB; and a batch is one append, some 20 ms of it for as many
tiny messages."""


class CorruptBatch(ValueError):
    """The sender's batch body can't be split into messages; `position` is the byte of the bad one."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"batch body: {reason} at {position}")
        self.reason = reason
        self.position = position


BatchEntry = tuple[int, bytes, bytes]
"""One message of a batch: flag, body, raw properties; bytes of their own, not views. A plain tuple, because a
broker makes hundreds of thousands of them a second."""


def decode_batch(body: bytes) -> list[BatchEntry]:
    """Split a whole batch body; CorruptBatch when a length is wrong or bytes are left over."""
    entries: list[BatchEntry] = []
    add, unpack = entries.append, _LENGTHS.unpack_from
    position, end = 0, len(body)
    last = end - BATCH_ENTRY_FIXED
    for _ in range(MAX_ENTRIES):
        if position > last:
            break
        size, flag, body_size = unpack(body, position)
        following = position + size
        properties_at = position + BATCH_ENTRY_FIXED + body_size
        if body_size < 0 or properties_at > following or following > end:
            raise CorruptBatch(f"size {size} with a body of {body_size}", position)
        properties_size = body[properties_at - 2] << 8 | body[properties_at - 1]
        if properties_at + properties_size != following or properties_size > MAX_PROPERTIES_LENGTH:
            raise CorruptBatch(f"size {size} with properties of {properties_size}", position)
        add((flag, body[position + _BODY_AT : properties_at - 2], body[properties_at:following]))
        position = following
    if position > last and position < end:
        raise CorruptBatch(f"{end - position} bytes left over", position)
    if position < end:
        raise CorruptBatch(f"more than {MAX_ENTRIES} messages", position)
    return entries


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """The body a client sends for these messages."""
    parts = []
    for flag, body, properties in entries:
        size = BATCH_ENTRY_FIXED + len(body) + len(properties)
        parts += [_HEAD.pack(size, 0, 0, flag, len(body)), body]
        parts += [_PROPERTIES_LENGTH.pack(len(properties)), properties]
    return b"".join(parts)
