"""The head of a record: its fixed fields, wherever the hosts' lengths put them. No topic, no properties, no proof.

For whoever looks at one record by its place (a peer's answer, the log's first bytes); what walks a log has its own
loops, in `scan` for columns and in `fewscan` and `recordplace` for what is done for each message.
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


def read_head(data: bytes | memoryview, at: int = 0) -> RecordHead | None:
    """The head at byte `at`, if all of it is there. Only the magic says that it's one: see MAGICS."""
    if len(data) - at < layout.BODY_AT:
        return None
    (sys_flag,) = _INT.unpack_from(data, at + layout.SYS_FLAG_AT)
    fields = layout.FIXED_FIELDS[sys_flag >> 4 & 3]
    if len(data) - at < fields.size:
        return None
    size, magic, _, queue_id, _, queue_offset, physical_offset, *rest = fields.unpack_from(data, at)
    return RecordHead(
        size=size,
        magic=magic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        store_timestamp=rest[4],
        body_length=rest[-1],
        body_at=fields.size,
    )


_INT: Final = struct.Struct(">i")
