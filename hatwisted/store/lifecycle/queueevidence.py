"""What consume queues know of a log: an entry is only ever made for a record that the chain has led to."""

from __future__ import annotations

from hatwisted.logcodec.queueentry import BLANK_RECORD_SIZE, PLACE, place
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire.storedrecord import Record


class QueueEvidence:
    """See logcodec's Evidence. queues: loaded and recovered; None if there are none."""

    def __init__(self, queues: ConsumeQueueTable | None) -> None:
        self._queues = queues

    def was_cut_before(self, record: Record, end: int, last_timestamp: int) -> bool:
        """Is the record's place in its queue taken by a record before `end`, or is the record older than the
        last of those?

        - record: found after damage
        - end: where the log would be cut
        - last_timestamp: storeTimestamp (ms) of the last record before `end`
        """
        queue = self._queues.find(record.topic, record.queue_id) if self._queues is not None else None
        entry = queue.read(record.queue_offset, 1) if queue is not None else b""
        if entry:
            holder, size = PLACE.unpack_from(entry)
            if holder == record.physical_offset:
                return False
            if size != BLANK_RECORD_SIZE and holder + size <= end:
                return True
        return 0 < record.store_timestamp < last_timestamp

    def reaches_over(self, offset: int) -> bool:
        """Does an entry name a record that begins before `offset` and ends after it?"""
        return any(_reaches_over(queue, offset) for queue in self._queues or ())


def _reaches_over(queue: ConsumeQueue, offset: int) -> bool:
    if queue.max_physical <= offset:
        return False
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        if place(queue.read(middle, 1))[0] < offset:
            low = middle + 1
        else:
            high = middle
    if low == queue.min_offset:
        return False
    begin, end = place(queue.read(low - 1, 1))
    return begin < offset < end
