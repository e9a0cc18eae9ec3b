"""Times of records, and places in queues by time: what look-ups, resets and statistics ask a store."""

from __future__ import annotations

from hatwisted.logcodec import onerecord
from hatwisted.logcodec.onerecord import NO_TIME
from hatwisted.logcodec.queueentry import BLANK_RECORD_SIZE, ENTRY_SIZE, PLACE
from hatwisted.store.interfaces import IReplicatedLog
from hatwisted.store.queue.consumequeue import ConsumeQueue


def raw_record_at(log: IReplicatedLog, offset: int) -> bytes | None:
    """The whole record that begins at `offset` (physical bytes), or None if none does."""
    return onerecord.raw_record_at(log, offset) if _is_held(log, offset) else None


def store_timestamp_at(log: IReplicatedLog, offset: int) -> int:
    """storeTimestamp (ms) of the record that begins at `offset`, NO_TIME if none does."""
    return onerecord.store_timestamp_at(log, offset) if _is_held(log, offset) else NO_TIME


def _is_held(log: IReplicatedLog, offset: int) -> bool:
    return bool(log.min_offset <= offset < log.max_offset)


def earliest_time(log: IReplicatedLog) -> int:
    """storeTimestamp (ms) of the oldest whole record; NO_TIME if the log holds none.

    A slave's log may begin in mid-stream, but always with a file, and a file begins with a record.
    """
    return store_timestamp_at(log, log.min_offset)


def offset_by_time(log: IReplicatedLog, queue: ConsumeQueue, timestamp: int) -> int:
    """Queue offset of the first message stored at or after a time. After all of them it's the last one, in an
    empty queue 0, as RocketMQ answers.

    - log: where the records are
    - queue: whose messages
    - timestamp: ms
    """
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
    """storeTimestamp (ms) of a message, NO_TIME if it isn't there.

    - log: where the records are
    - queue: whose message
    - index: its queue offset
    """
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
