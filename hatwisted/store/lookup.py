"""Single records by their place or their time: what look-ups, resets and statistics ask a store.

Nothing here trusts the offset it is given: a consumer may send any number, and a wrong one lands in the middle
of a record. Magic, physical offset and size have to agree before bytes are handed out as a message.
"""

from __future__ import annotations

import struct

from hatwisted.logcodec.queueentry import BLANK_RECORD_SIZE, ENTRY_SIZE, PLACE
from hatwisted.store.consumequeue import ConsumeQueue
from hatwisted.store.interfaces import IReplicatedLog
from hatwisted.wire import layout

NO_TIME = -1
"""RocketMQ's answer where there is no record to take a time from."""

_I64 = struct.Struct(">q")
_HEAD_BYTES = layout.BODY_AT + layout.IPV6_EXTRA
"""Enough of a record to see its store timestamp, however its born host is written."""


def record_at(log: IReplicatedLog, offset: int) -> bytes | None:
    """The whole record that begins at `offset` (physical bytes), or None if none does."""
    head = _head_at(log, offset)
    if head is None:
        return None
    size, _ = layout.RECORD_HEAD.unpack_from(head)
    record = log.read(offset, size)
    return record if len(record) == size else None


def store_timestamp_at(log: IReplicatedLog, offset: int) -> int:
    """storeTimestamp (ms) of the record that begins at `offset`, NO_TIME if none does."""
    head = _head_at(log, offset)
    if head is None:
        return NO_TIME
    at = layout.STORE_TIMESTAMP_AT
    if head[layout.SYS_FLAG_AT + 3] & layout.SYS_BORN_HOST_V6:
        at += layout.IPV6_EXTRA
    timestamp: int = _I64.unpack_from(head, at)[0]
    return timestamp


def _head_at(log: IReplicatedLog, offset: int) -> bytes | None:
    if not log.min_offset <= offset < log.max_offset:
        return None
    head = log.read(offset, _HEAD_BYTES)
    if len(head) < layout.BODY_AT:
        return None
    size, magic = layout.RECORD_HEAD.unpack_from(head)
    (physical,) = _I64.unpack_from(head, layout.PHYSICAL_OFFSET_AT)
    known = magic in (layout.MAGIC_V1, layout.MAGIC_V2)
    return head if known and physical == offset and size >= layout.FIXED_SIZE else None


def earliest_time(log: IReplicatedLog) -> int:
    """storeTimestamp (ms) of the oldest whole record; NO_TIME if the log holds none.

    A slave's log may begin in mid-stream, but always with a file, and a file begins with a record.
    """
    return store_timestamp_at(log, log.min_offset)


def offset_by_time(log: IReplicatedLog, queue: ConsumeQueue, timestamp: int) -> int:
    """Queue offset of the first message stored at or after `timestamp` (ms); after all of them the last one,
    and 0 for an empty queue, as RocketMQ answers."""
    low, high = queue.min_offset, queue.max_offset
    if low >= high:
        return 0
    last = high - 1
    while low < high:
        middle = (low + high) // 2
        if entry_time(log, queue, middle) >= timestamp:
            high = middle
        else:
            low = middle + 1
    return min(low, last)


def entry_time(log: IReplicatedLog, queue: ConsumeQueue, index: int) -> int:
    """storeTimestamp (ms) of the message at a queue offset, NO_TIME if there is none."""
    entry = queue.read(index, 1)
    if len(entry) < ENTRY_SIZE:
        return NO_TIME
    physical, size = PLACE.unpack_from(entry)
    return NO_TIME if size == BLANK_RECORD_SIZE else store_timestamp_at(log, physical)


def queue_earliest_time(log: IReplicatedLog, queue: ConsumeQueue | None) -> int:
    """storeTimestamp (ms) of a queue's first message, NO_TIME without one."""
    if queue is None or queue.min_offset >= queue.max_offset:
        return NO_TIME
    return entry_time(log, queue, queue.min_offset)
