"""Is what lies at an offset that a client names a record of this log?

A body may hold a whole record for the very offset that it lies at: answers tell producers where their messages
went, so they can foretell it. Magic, offset, lengths and checksum all fit then. What no client can write are queue
entries: the dispatcher makes them along the chain of records. So a record counts if the entry of its own place in
its own queue names its offset; and, while it isn't dispatched yet, if the chain from where the dispatch is leads
to it.

The starts met on that way are kept, so that each undispatched record is walked over once, however many are asked
about. Rejected: waiting for the dispatch (whoever asks about what lies far ahead is refused, and asks again), and
a search from a place near by (`logcodec.recordsearch`), which takes milliseconds each time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hatwisted.logcodec.queueentry import ENTRY_SIZE, PLACE
from hatwisted.logcodec.scan import Stop
from hatwisted.logcodec.window import LogWindow, file_end
from hatwisted.store.dispatch.dispatcher import Dispatcher
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.store.queue.reading import ReadableLog
from hatwisted.wire.storedrecord import Record

MOST_AHEAD: Final = 16 << 20
"""Bytes of log after the last dispatched record that are walked over: some 10 ms, if nobody has asked before. What
is further ahead isn't taken for a record before it's dispatched."""

STEP: Final = 1 << 20
"""Bytes read at once."""


class RecordProof:
    """Tells records from what only looks like one.

    - log: its bytes
    - queues: made from it
    - dispatcher: makes them
    """

    def __init__(self, log: ReadableLog, queues: ConsumeQueueTable, dispatcher: Dispatcher) -> None:
        self._log = log
        self._queues = queues
        self._dispatcher = dispatcher
        self._window = LogWindow(lambda offset, size: (log.read(offset, size), 0), log.file_size, STEP)
        self._starts = np.empty(0, np.int64)
        """Of undispatched records, one after another."""
        self._walked = 0
        """Where the chain from the last of them leads."""

    def holds(self, record: Record) -> bool:
        """Is this, read at its physical offset, a record that the broker has written there?"""
        offset = record.physical_offset
        if offset >= self._dispatcher.reput_offset:
            return self._is_ahead(offset)
        queue = self._queues.find(record.topic, record.queue_id)
        index = record.queue_offset
        if queue is None or not queue.min_offset <= index < queue.max_offset:
            return False
        entry = queue.read(index, 1)
        return len(entry) == ENTRY_SIZE and PLACE.unpack_from(entry)[0] == offset

    def _is_ahead(self, offset: int) -> bool:
        """Does the chain from the last dispatched record lead there?"""
        begin = self._dispatcher.reput_offset
        if offset - begin >= MOST_AHEAD:
            return False
        if not begin <= self._walked <= self._log.max_offset:
            self._starts, self._walked = self._starts[:0], begin
        self._starts = self._starts[np.searchsorted(self._starts, begin) :]
        self._walk(min(offset + 1, self._log.max_offset))
        at = int(np.searchsorted(self._starts, offset))
        return at < len(self._starts) and int(self._starts[at]) == offset

    def _walk(self, limit: int) -> None:
        met = [self._starts]
        while self._walked < limit:
            records = self._window.records(self._walked, limit)
            if len(records):
                met.append(records.physical_offsets.astype(np.int64))
                self._walked = records.end_offset
            elif records.end.stop is Stop.BLANK:
                self._walked = file_end(self._walked, self._log.file_size)
            else:
                break
        self._starts = np.concatenate(met)
