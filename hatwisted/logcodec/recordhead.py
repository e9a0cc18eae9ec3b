"""The head of a record: its fixed fields, whatever the hosts' lengths. No topic, no properties, no proof.

For reading one record at a known offset (a peer's answer, the log's first bytes); code that walks a log has
its own loops, in `scan` for columns and in `fewscan` and `recordplace` for work per message.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from hatwisted.wire import layout

MAGICS: Final = (layout.MAGIC_V1, layout.MAGIC_V2)

LARGEST_HEAD: Final = layout.FIXED_FIELDS[3].size
"""Bytes of a head with two IPv6 hosts."""


class RecordHead(NamedTuple):
    """Sizes and offsets in bytes, store_timestamp in ms; body_at: from the record's start."""

    size: int
    magic: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    store_timestamp: int
    body_length: int
    body_at: int


def _fields(born_host: int, store_host: int) -> struct.Struct:
    """RecordHead's, but for the last."""
    return struct.Struct(f">iI4xi4xqqi8x{born_host}xq{store_host}x4x8xi")


_FIELDS: Final = (_fields(8, 8), _fields(20, 8), _fields(8, 20), _fields(20, 20))


def read_head(data: bytes | memoryview, at: int = 0) -> RecordHead | None:
    """The head at byte `at`, if all of it is there. Only the magic says that it's one: see MAGICS."""
    room = len(data) - at
    if room < layout.BODY_AT:
        return None
    fields = _FIELDS[data[at + layout.SYS_FLAG_AT + 3] >> 4 & 3]
    if room < fields.size:
        return None
    return RecordHead._make((*fields.unpack_from(data, at), fields.size))
