"""Messages turned into records: sizes first, because they determine which file a put goes into, then bytes.

One loop per put packs the fixed fields and lists the parts; the bytes are joined once per run. Rejected: numpy
columns for the heads of a batch (slower below some hundred messages), and writing the parts with pwritev (the
joined run is what the HA link sends as well).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Protocol

from isal.isal_zlib import crc32

from hatwisted.wire import layout

_HOST_BITS: Final = layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6

Entry = tuple[int, bytes, bytes]
"""(flag, body, raw properties) of one message."""


class MessageBatch(Protocol):
    """The messages of one put, which are encoded together. The encoder sets the last five attributes."""

    sys_flag: int
    queue_id: int
    entries: Collection[Entry]
    born_host: bytes
    born_timestamp: int
    reconsume_times: int
    prepared_transaction_offset: int
    shared_properties: bytes
    content_size: int
    offset: int
    end: int
    queue_offset: int
    record_offsets: Sequence[int]


class RecordEncoder:
    """Encodes puts for one broker. store_host: 8 or 20 bytes (address, port as i32) that every record carries."""

    def __init__(self, store_host: bytes) -> None:
        self._store_host = store_host
        self._store_v6 = layout.SYS_STORE_HOST_V6 if len(store_host) == 20 else 0
        # Without the topic's length byte, which is part of its field.
        self._fixed = layout.FIXED_SIZE - 1 + (layout.IPV6_EXTRA if self._store_v6 else 0)
        self._topic_fields: dict[str, bytes] = {}

    def size(self, put: MessageBatch, topic_field: bytes) -> int:
        """Record bytes of a whole put; counts its content where the caller hasn't."""
        fixed = self._fixed + len(topic_field)
        if put.sys_flag & layout.SYS_BORN_HOST_V6:
            fixed += layout.IPV6_EXTRA
        if put.content_size < 0:
            put.content_size = len(put.entries) * len(put.shared_properties)
            put.content_size += sum(len(body) + len(properties) for _, body, properties in put.entries)
        return len(put.entries) * fixed + put.content_size

    def topic_field(self, topic: str) -> bytes:
        """The topic as stored in a record: a length byte and UTF-8."""
        field = self._topic_fields.get(topic)
        if field is None:
            raw = topic.encode()
            # An over-long topic is refused by its put's limits before the length byte matters.
            field = self._topic_fields[topic] = bytes([len(raw) & 0xFF]) + raw
        return field

    def encode(
        self,
        put: MessageBatch,
        topic_field: bytes,
        parts: list[bytes],
        at: int,
        timestamp: int,
        queue_offset: int,
    ) -> None:
        """Add the put's records to what is written later, and set the put's offsets.

        - put: its messages
        - topic_field: from `topic_field`
        - parts: joined later
        - at: physical offset of the first record
        - timestamp: ms
        - queue_offset: of the first message, -1 for messages that have none (prepared, rolled back)
        """
        sys_flag = put.sys_flag & ~layout.SYS_STORE_HOST_V6 | self._store_v6
        pack = layout.HEADS[sys_flag >> 4 & 3].pack
        fixed = self._fixed + len(topic_field)
        if sys_flag & layout.SYS_BORN_HOST_V6:
            fixed += layout.IPV6_EXTRA
        step = 1
        if queue_offset < 0:
            queue_offset = step = 0
        put.offset = at
        put.queue_offset = queue_offset
        # Locals: this loop runs once for every message stored.
        offsets = []
        shared, queue_id, magic, mask = put.shared_properties, put.queue_id, layout.MAGIC_V1, layout.CRC_MASK
        shared_size = len(shared)
        born_timestamp, born_host, store_host = put.born_timestamp, put.born_host, self._store_host
        reconsume_times, prepared = put.reconsume_times, put.prepared_transaction_offset
        for flag, body, properties in put.entries:
            body_size = len(body)
            properties_size = len(properties) + shared_size
            size = fixed + body_size + properties_size
            parts += (
                pack(
                    size,
                    magic,
                    crc32(body) & mask,
                    queue_id,
                    flag,
                    queue_offset,
                    at,
                    sys_flag,
                    born_timestamp,
                    born_host,
                    timestamp,
                    store_host,
                    reconsume_times,
                    prepared,
                    body_size,
                ),
                body,
                topic_field,
                properties_size.to_bytes(2, "big"),
                properties,
                shared,
            )
            offsets.append(at)
            at += size
            queue_offset += step
        put.record_offsets = offsets
        put.end = at
