"""From the log to consume queues and index: one pass over its records, in order, on master and slave alike.

A step takes at most `STEP` bytes of what came over the link and is in memory still, or else reads at most `CHUNK`
of the log. Usual records are dispatched by the kernel where that is compiled. All others are walked over, and
then there are two ways: up to `FEW` records one by one (some 12 us each, nothing to set up), more of them as
columns (about 1 us each, some 250 us to set up), grouped by topic and queue with one sort, so that every queue
gets one write. Nothing here waits: what may block (making an index file) is left to the index's worker, and the
step's rest is kept until it's there.

The one position, `reput_offset`, is after everything that has reached queues *and* index. Repeating is
always safe: queues and index know where they end, and what they have is skipped. So the same code serves
a running broker, recovery, and a rebuild from nothing; as long as a chunk holds nothing new, its properties
aren't even looked at.

What isn't skipped: bytes that are no record. RocketMQ's master jumps over the rest of what it has read then;
here the dispatch stops at that offset and says so, since what is after it isn't known.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, Protocol

import numpy as np
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.kernel import usual_records
from hatwisted.logcodec.dispatchscan import DispatchColumns, dispatch_columns
from hatwisted.logcodec.fewscan import FEW, Entry, decode_few
from hatwisted.logcodec.queueruns import queue_codes, queue_entries, sorted_by_queue
from hatwisted.logcodec.recordsearch import begins_record
from hatwisted.logcodec.scan import MAX_RECORDS, Records, ScanEnd, Stop, gather, walk
from hatwisted.store.dispatch.indexing import Indexing
from hatwisted.store.errors import NoRecord, OtherFileSize, StoreError, StoreFull
from hatwisted.store.index.indexfile import Item
from hatwisted.store.index.indexservice import IndexService
from hatwisted.store.interfaces import ArrivalListener, Buffer, GrownQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.store.queue.reading import ReadableLog
from hatwisted.wire import layout

CHUNK: Final = 1 << 20
"""Bytes of log read at once: some 900 records of 1 KiB, where the columns have paid for their set-up, and a
step of about 1 ms. A longer record is read whole."""

STEP: Final = 2 << 20
"""Bytes taken from memory at once: more share a step's own cost, and it takes about 1 ms as well."""


class DispatchedLog(ReadableLog, Protocol):
    """The part of the commit log that dispatch needs; see CommitLog."""

    def take_recent(self, offset: int, limit: int) -> list[Buffer]: ...


class Dispatcher:
    """Builds queues and index from the log, from `reput_offset` on. Belongs to one thread.

    - log: what is dispatched
    - queues: the consume queues
    - index: None if messages aren't indexed
    - delay_levels: ms by level, from level 1 on
    - clock: bounds the time of `dispatch_some`
    - arrival: called once per step with the queues that grew
    """

    _log = Logger()

    def __init__(
        self,
        log: DispatchedLog,
        queues: ConsumeQueueTable,
        index: IndexService | None,
        delay_levels: Sequence[int],
        clock: IReactorTime,
        arrival: ArrivalListener = lambda grown: None,
    ) -> None:
        self._source = log
        self._queues = queues
        self._index = Indexing(index)
        self._delay_levels = delay_levels
        self._clock = clock
        self._arrival = arrival
        self._grown: list[GrownQueue] = []
        self._next_offset = 0
        self._incomplete_until = 0
        self._known_below = 0
        self._under_way: Generator[None, None, None] | None = None
        self.reput_offset = 0
        """Physical offset up to which queues and index are built."""
        self.logics_timestamp = 0
        """Store timestamp (ms) of the last record that got a queue entry, for the checkpoint."""
        self.dispatched_timestamp = 0
        """Store timestamp (ms) of the last record dispatched."""
        self.records_total = 0
        """Records met, known ones included."""

    def begin_at(self, offset: int) -> None:
        """Start dispatching at a record's offset; queues and index may know some of what follows."""
        self.reput_offset = self._next_offset = offset
        self._index.forget()
        self._under_way = None
        self._incomplete_until = 0
        queued = max(self._queues.max_physical, self._queues.deleted.max_physical)
        self._known_below = max(queued, self._index.end_physical + 1)

    @property
    def behind_bytes(self) -> int:
        """Bytes of log not yet dispatched."""
        return max(0, self._source.max_offset - self.reput_offset)

    @property
    def under_way(self) -> bool:
        """Has the last step stopped in its midst, for want of time?"""
        return self._under_way is not None

    @property
    def index_waits(self) -> bool:
        """Items wait for the next index file: nothing is dispatched before `when_index_ready`."""
        return self._index.waits

    def when_index_ready(self) -> Deferred[None]:
        """See IndexService.when_ready."""
        return self._index.when_ready()

    def dispatch_some(self, max_bytes: int, max_seconds: float) -> int:
        """Dispatch until `max_bytes` or `max_seconds` are used up, or there is nothing more to do now;
        returns the bytes consumed. A step passes both limits at most by what has no costly part: what makes files
        stops in its midst.

        Raises StoreFull or another OSError (the same bytes come again next time), and NoRecord where the
        log holds no valid record.
        """
        deadline = self._clock.seconds() + max_seconds
        start = self.reput_offset
        while self.reput_offset - start < max_bytes:
            before = self.reput_offset
            try:
                self._step_on(deadline)
            finally:
                self._tell()
            if self._under_way or self.reput_offset == before or self.reput_offset >= self._source.max_offset:
                break
            if self._clock.seconds() >= deadline:
                break
        return self.reput_offset - start

    def _tell(self) -> None:
        """Of the queues that have grown, also of those that did before something failed."""
        if self._grown:
            grown, self._grown = self._grown, []
            self._arrival(grown)

    # -- one step --------------------------------------------------------------------------------------------

    def _step_on(self, deadline: float) -> None:
        """Begin a step, or go on with the one under way, until it's done or it's late."""
        steps, self._under_way = self._under_way or self._step(), None
        for _ in steps:
            if self._clock.seconds() >= deadline:
                self._under_way = steps
                break

    def _step(self) -> Generator[None, None, None]:
        """One step, which stops after each part that may have been costly."""
        if self._index.waits:
            if not self._index.go_on():
                return
            self.reput_offset = self._next_offset
        pieces = self._next_pieces()
        if not pieces or (yield from self._dispatch_usual(pieces)):
            return
        chunk, positions, end = self._next_records(b"".join(pieces))
        base = self.reput_offset
        if len(positions) <= FEW:
            entries, end = decode_few(chunk, base, positions, end, self._delay_levels)
            self._next_offset = self._behind(base, end)
            self.records_total += len(entries)
            done = yield from self._dispatch_few(entries)
        else:
            scan = gather(chunk, base, positions, end)
            self._next_offset = self._behind(base, scan.end)
            self.records_total += len(scan)
            done = yield from self._dispatch_columns(scan)
        if done:
            self.reput_offset = self._next_offset

    def _next_records(self, chunk: bytes) -> tuple[bytes, list[int], ScanEnd]:
        """The next bytes of the log and the walk over them.

        chunk: what is at hand of them; more is read where it's less than one record.
        """
        positions, end = walk(chunk, 0, MAX_RECORDS)
        if not positions and end.stop is Stop.NEED_DATA and end.size > len(chunk) >= CHUNK:
            chunk = self._source.read(self.reput_offset, end.size)
            positions, end = walk(chunk, 0, MAX_RECORDS)
        return chunk, positions, end

    def _next_pieces(self) -> list[Buffer]:
        """Bytes at `reput_offset`, within one file; none if a whole record can't be there yet."""
        source = self._source
        if self.reput_offset < source.min_offset:
            if self.reput_offset:
                self._log.warn(
                    "dispatch was at offset {offset}, but the log now begins at {begin}: continuing there",
                    offset=self.reput_offset,
                    begin=source.min_offset,
                )
            self.reput_offset = source.min_offset
        if source.max_offset < self._incomplete_until or self.reput_offset >= source.max_offset:
            return []
        return source.take_recent(self.reput_offset, STEP) or [source.read(self.reput_offset, CHUNK)]

    def _behind(self, base: int, end: ScanEnd) -> int:
        """Where the log continues after a scanned chunk at `base`."""
        at = base + end.position
        file_end = base - base % self._source.file_size + self._source.file_size
        if end.stop is Stop.LIMIT:
            return at
        if end.stop is Stop.NEED_DATA:
            if end.size and at + end.size > file_end:
                self._refuse(at, f"a record of {end.size} bytes would cross the file's end", at == base)
            elif at == base:
                # Half a record at the log's end: it waits there for the rest (B94), without being read again
                # at every append.
                self._incomplete_until = at + end.size
            return at
        if end.stop is Stop.BLANK and at + end.size == file_end:
            self._incomplete_until = file_end
            return file_end if file_end <= self._source.max_offset else at
        if end.stop is Stop.BLANK and at == base and at + end.size < file_end:
            # What is after it tells whether that's the end of a smaller file.
            self._incomplete_until = at + end.size + layout.FIXED_SIZE
            if self._source.max_offset < self._incomplete_until:
                return at
            if self._record_at(at + end.size):
                raise OtherFileSize(at + end.size, self._source.file_size)
        self._refuse(at, end.reason or f"{end.stop.value}, {end.size} bytes", at == base)
        return at

    def _record_at(self, offset: int) -> bool:
        """Does a record begin there, by its magic and the offset it carries?"""
        head = self._source.read(offset, layout.FIXED_SIZE)
        return len(head) == layout.FIXED_SIZE and begins_record(head, offset)

    def _refuse(self, offset: int, reason: str, first: bool) -> None:
        """Stop at bytes that are no record, once everything before them is dispatched."""
        if first:
            raise NoRecord(offset, reason)

    # -- usual records, compiled -----------------------------------------------------------------------------

    def _dispatch_usual(self, pieces: list[Buffer]) -> Generator[None, None, bool]:
        """Dispatch the usual records that the pieces begin with. False if there are none, or queues or index may
        know some of what follows: then the ordinary ways have to look at each record."""
        base, index = self.reput_offset, self._index
        if usual_records is None or base < self._known_below or base <= index.end_physical:
            return False
        found = usual_records(pieces, base, index.wanted, self._queues.map, self._grown)
        if found is None:
            return False
        self._next_offset = end = base + found.size
        if end % self._source.file_size + found.needed <= self._source.file_size:
            # As in `_behind`, which otherwise tells what is wrong with it.
            self._incomplete_until = end + found.needed
        self.records_total += found.records
        self.dispatched_timestamp = found.stored
        for topic, queue_id, first, physical, run in found.runs:
            self._append(topic, queue_id, first, run, physical)
            yield
        if found.queued:
            self.logics_timestamp = found.queued
        hashes = np.frombuffer(found.hashes, np.int32)
        offsets, stamps = (np.frombuffer(each, np.int64) for each in (found.physical, found.timestamps))
        if found.records <= FEW:
            columns = (column.tolist() for column in (hashes, offsets, stamps))
            taken = index.take_few(list(zip(*columns, strict=True)))
        else:
            taken = index.take(hashes, offsets, stamps)
        if taken:
            self.reput_offset = self._next_offset
        return True

    # -- record by record ------------------------------------------------------------------------------------

    def _dispatch_few(self, entries: list[Entry]) -> Generator[None, None, bool]:
        """Queues first, then index; whether the index took everything."""
        items: list[Item] = []
        for entry in entries:
            if not entry.sys_flag & layout.SYS_UNQUEUED:
                self._queue_one(entry)
                yield
            for key_hash in entry.key_hashes:
                items.append((key_hash, entry.physical_offset, entry.store_timestamp))
        if entries:
            self.dispatched_timestamp = entries[-1].store_timestamp
        return self._index.take_few(items)

    def _queue_one(self, entry: Entry) -> None:
        packed = layout.QUEUE_ENTRY.pack(entry.physical_offset, entry.size, entry.tags_code)
        if self._append(entry.topic, entry.queue_id, entry.queue_offset, packed, entry.physical_offset):
            self.logics_timestamp = entry.store_timestamp

    # -- by columns ------------------------------------------------------------------------------------------

    def _dispatch_columns(self, scan: Records) -> Generator[None, None, bool]:
        """As `_dispatch_few`."""
        if len(scan):
            self.dispatched_timestamp = int(scan.store_timestamps[-1])
        if scan.base < self._known_below:
            scan = self._without_known(scan)
        if not len(scan):
            return True
        columns = dispatch_columns(scan, self._delay_levels, keys=self._index.wanted)
        yield from self._append_to_queues(scan, columns)
        rows = columns.item_rows
        return self._index.take_new(
            columns.item_hashes, scan.physical_offsets[rows], scan.store_timestamps[rows]
        )

    def _without_known(self, scan: Records) -> Records:
        """Only the records that their queue or the index doesn't have yet: a dispatch after a restart mostly
        meets known ones, and those cost no look at their properties then."""
        ends = scan.physical_offsets + scan.sizes
        codes = queue_codes(scan)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        reached = [
            self._queues.complete_to(scan.topics[int(scan.topic_rows[row])], int(scan.queue_ids[row]))
            for row in first.tolist()
        ]
        queued = ends <= np.array(reached, np.int64)[inverse]
        queued |= (scan.sys_flags & layout.SYS_UNQUEUED) != 0
        if self._index.wanted:
            queued &= scan.physical_offsets < self._index.end_physical
        return scan.take(~queued)

    def _append_to_queues(self, scan: Records, columns: DispatchColumns) -> Generator[None, None, None]:
        """One append for every run of consecutive entries of a queue."""
        rows, firsts = sorted_by_queue(scan)
        if not len(rows):
            return
        blob = queue_entries(scan, rows, columns.tags_codes).tobytes()
        lasts = [*firsts[1:], len(rows)]
        heads = rows[firsts]
        runs = zip(
            *(firsts, lasts, scan.topic_rows[heads].tolist(), scan.queue_ids[heads].tolist()),
            *(scan.queue_offsets[heads].tolist(), scan.physical_offsets[heads].tolist()),
            strict=True,
        )
        find, grown, topics = self._queues.find, self._grown, scan.topics
        fresh = scan.base >= self._known_below
        for first, last, topic_row, queue_id, index, offset in runs:
            run = blob[first * layout.QUEUE_ENTRY_SIZE : last * layout.QUEUE_ENTRY_SIZE]
            topic = topics[topic_row]
            queue = find(topic, queue_id)
            # Many queues: runs of one entry, whose cost is that of the calls they make.
            if fresh and queue is not None and queue.gather(index, run, offset):
                grown.append(queue)
            else:
                self._append(topic, queue_id, index, run, offset)
                yield
        self.logics_timestamp = int(scan.store_timestamps[rows.max()])

    def _append(self, topic: str, queue_id: int, index: int, run: bytes, offset: int) -> bool:
        """Append consecutive entries to their queue, without those it has; whether that was possible.

        offset: physical offset of the first. A record that can't be in any queue is logged and left out: it
        must not keep all others from their consumers.
        """
        try:
            known = self._queues.known(topic, queue_id, index, run)
            if known * layout.QUEUE_ENTRY_SIZE == len(run):
                return True
            run, index = run[known * layout.QUEUE_ENTRY_SIZE :], index + known
            queue = self._queues.append(topic, queue_id, index, run)
        except StoreFull:
            raise
        except StoreError as error:
            self._log.error(
                "{count} record(s) from commit log offset {offset} on get no queue entry: {error}",
                count=len(run) // layout.QUEUE_ENTRY_SIZE,
                offset=offset,
                error=error,
            )
            return False
        self._grown.append(queue)
        return True
