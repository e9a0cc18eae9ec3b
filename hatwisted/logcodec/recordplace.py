"""Is a record the one that a queue's entry says it is? Each names its topic, queue and both its offsets itself.

Checked for each message that is read for a consumer, so it's one unpack and a few comparisons, or a loop of the
compiled kernel. The body's checksum isn't part of it: consumers check that themselves.
"""

from __future__ import annotations

import struct
from typing import Final

from hatwisted.wire import layout

_HEAD: Final = struct.Struct(">iI4xi4xqqi44xi")
"""Size, magic, queue id, queue offset, physical offset, sysFlag and, with IPv4 hosts, body length."""
_LENGTH: Final = struct.Struct(">i")
_WIDE: Final = layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6


class QueueRecords:
    """The fields that all records of one queue share."""

    __slots__ = ("_topic_fields", "queue_id", "raw_topic", "topic")

    def __init__(self, topic: str, queue_id: int) -> None:
        raw = self.raw_topic = topic.encode()
        self.topic = topic
        self.queue_id = queue_id
        self._topic_fields = {
            layout.MAGIC_V1: bytes((len(raw) & 0xFF,)) + raw,
            layout.MAGIC_V2: layout.TOPIC_LENGTH[2].pack(len(raw)) + raw,
        }

    def has(self, data: bytes, at: int, size: int, queue_offset: int, physical_offset: int) -> bool:
        """Does this record belong to the queue, and at this offset?

        - data: holds it
        - at: position of its first byte
        - size: its bytes, by the entry that names it
        - queue_offset: of that entry
        - physical_offset: by that entry
        """
        if size < layout.FIXED_SIZE or at + size > len(data):
            return False
        total, magic, queue_id, index, offset, flags, body = _HEAD.unpack_from(data, at)
        body_at = at + layout.BODY_AT
        if flags & _WIDE:
            wide = bool(flags & layout.SYS_BORN_HOST_V6) + bool(flags & layout.SYS_STORE_HOST_V6)
            if size < layout.FIXED_SIZE + wide * layout.IPV6_EXTRA:
                return False
            body_at = at + layout.BODY_AT + wide * layout.IPV6_EXTRA
            (body,) = _LENGTH.unpack_from(data, body_at - _LENGTH.size)
        field = self._topic_fields.get(magic)
        return (
            index == queue_offset
            and offset == physical_offset
            and queue_id == self.queue_id
            and total == size
            and field is not None
            and body >= 0
            and data.startswith(field, body_at + body, at + size)
        )
