"""Consume queues: per topic and queue id the places of its records in the log, in log order.

Entry i names the record with queue offset i, so it sits at byte 20*i of the queue's stream. Everything here
is built from the log alone and can be built again, which decides what may fail: an append that doesn't fit on
the disk changes nothing and is repeated by the dispatcher, and what a crash has lost is dispatched again.

Files are sparse as RocketMQ's are, for most queues never fill one. A queue keeps its bounds in memory; all queues
of a store are in `queuetable`.

What is appended gathers in memory first, the tail, and goes to the file when the tail is full or when the table
says so. Where thousands of queues take turns, every record would otherwise cost a write to a file of its own,
some 11 us, ten times what all the rest of dispatching it costs. A pull reads the tail as it reads the file; a
crash loses it, and recovery dispatches it again like everything else that wasn't synced.

Cutting zeroes what is cut. RocketMQ only moves its write position and leaves the stale entries, which a later
scan takes for entries of the queue. A cut is a change like any other: until it's synced, a power failure may
bring back what was cut, so it counts as unsynced by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from twisted.logger import Logger

from hatwisted.kernel import QueueTail
from hatwisted.logcodec.queueentry import (
    ENTRY_SIZE,
    GAP_LIMIT,
    PHYSICAL_LIMIT,
    PLACE,
    blank_entry,
    first_reaching,
    place,
)
from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.store.errors import StoreError
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.queuescan import entries_end, scan_begin, zero_entries

READ_AT_ONCE = 200
"""Entries (4 KB) that a search reads at once: one by one, a read each would cost more."""


class SyncMark(NamedTuple):
    """What a queue's files hold at one moment: end (bytes), changes of names, lives and cuts so far."""

    end: int
    names: int
    life: int
    cuts: int


class ConsumeQueue(QueueTail):
    """One queue. Belongs to the reactor thread, except for `datasync`.

    - files: its entries
    - topic: of the queue
    - queue_id: of the queue
    - read_only: for inspecting a store in use
    - on_tail: called with the queue when entries begin to wait in memory

    `min_offset` is the index of the first entry whose record the log still has; where it ends, and what waits in
    memory, QueueTail says.
    """

    _log = Logger()

    def __init__(
        self,
        files: FileQueue,
        topic: str,
        queue_id: int,
        *,
        read_only: bool = False,
        on_tail: Callable[[ConsumeQueue], None] = lambda queue: None,
    ) -> None:
        if files.file_size % ENTRY_SIZE:
            raise ValueError(f"a queue file of {files.file_size} bytes doesn't hold whole entries")
        super().__init__(topic, queue_id, on_tail)
        self._files = files
        self._read_only = read_only
        self._flushed = 0
        self._cuts = self._cuts_synced = 0
        """How often bytes were zeroed or files removed, and how many of these times are on the disk."""
        self._life = 0
        """Counts how often the queue began again: a sync under way then says nothing of the new files."""
        self.records = QueueRecords(topic, queue_id)
        """Tells whether a record is this queue's."""
        self.min_offset = 0

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}/{self.queue_id} [{self.min_offset}, {self.max_offset})>"

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, index: int, count: int) -> bytes:
        """Up to `count` entries from `index`, as bytes; b"" outside of what the queue holds."""
        at = index * ENTRY_SIZE
        end = min(at + count * ENTRY_SIZE, self._end)
        if index < self.min_offset or at >= end:
            return b""
        return self._bytes(at, end)

    def _bytes(self, at: int, end: int) -> bytes:
        """Bytes [at, end) of the stream, out of as many files as it takes, and the tail."""
        written = self._written
        if at >= written:
            return bytes(self._tail[at - written : end - written])
        chunk = self._files.read(at, min(end, written) - at)
        if chunk and len(chunk) < end - at:
            chunk += self._bytes(at + len(chunk), end)
        return chunk

    def _place(self, index: int) -> tuple[int, int]:
        return place(self._bytes(index * ENTRY_SIZE, (index + 1) * ENTRY_SIZE))

    def _search(self, low: int, high: int, which: int, least: int) -> int:
        """First index in [low, high) whose record's offset (which = 0) or end (1) is >= `least`; else
        high."""
        while high - low > READ_AT_ONCE:
            middle = (low + high) // 2
            if self._place(middle)[which] >= least:
                high = middle
            else:
                low = middle + 1
        entries = self._bytes(low * ENTRY_SIZE, high * ENTRY_SIZE) if low < high else b""
        return low + first_reaching(entries, which, least)

    # -- appending -------------------------------------------------------------------------------------------

    def append(self, first_index: int, entries: bytes) -> None:
        """Add entries of consecutive records in the log, the first for `first_index`. Indexes skipped
        before a queue's first entry are filled with blank ones; entries the queue already has are passed
        over.

        Raises StoreFull or another OSError; whatever got in by then is skipped when the call is repeated.
        """
        if self.gather(first_index, entries, self.max_physical):
            return
        if first_index * ENTRY_SIZE != self._end:
            entries = self._fit(first_index, entries)
        self._append_to_files(entries)

    def write_out(self) -> None:
        """Write what waits in memory. Raises StoreFull or another OSError; it goes on waiting then."""
        if self._tail:
            # Of its own: who keeps the error of a failed write keeps what was to be written from growing.
            self._files.write(self._written, (bytes(self._tail),))
            self._written = self._end
            self._tail.clear()

    def _append_to_files(self, entries: bytes) -> None:
        """As `append`, past the tail, and over the end of the last file if need be."""
        self.write_out()
        while entries:
            self._make_room()
            piece = entries[: self._file_end - self._end]
            self._files.write(self._end, (piece,))
            self._written = self._end + len(piece)
            self._advance(self._written, piece)
            entries = entries[len(piece) :]

    def _fit(self, first_index: int, entries: bytes) -> bytes:
        """Make the queue end at `first_index`, or else cut from `entries` what it already has."""
        if self.starts_over(first_index, entries):
            self.destroy()
            return entries
        if first_index < self.max_offset:
            repeated = min(self.max_offset - first_index, len(entries) // ENTRY_SIZE)
            self._log.warn(
                "{queue} already has the {count} entries from index {index} on; skipping them",
                queue=self,
                count=repeated,
                index=first_index,
            )
            return entries[repeated * ENTRY_SIZE :]
        empty = self.min_offset == self.max_offset
        if empty and (not self.max_physical or first_index - self.max_offset > GAP_LIMIT):
            self._begin_at(first_index)
        else:
            self._bridge(first_index)
        return entries

    def starts_over(self, first_index: int, entries: bytes) -> bool:
        """Are these of another life of the topic, which was deleted and created again?"""
        return first_index == 0 < self._end and PLACE.unpack_from(entries)[0] >= self.max_physical

    def begin_at(self, index: int) -> None:
        """Number the next message `index`: those before it aren't in this log. Only for a queue that has never
        had one. Raises OSError."""
        if not self.max_offset:
            self._begin_at(index)

    def _begin_at(self, index: int) -> None:
        """There's no entry that matters: let the queue begin in mid-stream."""
        at = index * ENTRY_SIZE
        if at >= PHYSICAL_LIMIT:
            raise StoreError(f"{self.topic}/{self.queue_id}: no queue has an index as high as {index}")
        start = at - at % self._files.file_size
        if self.max_physical or not self._files.has(start):
            self.destroy()
            self._files.create(start)
            self._end = self._written = self._flushed = start
            self._file_end = self._files.capacity_end
            self.max_offset = start // ENTRY_SIZE
        try:
            self._fill(at)
        finally:
            self.min_offset = self.max_offset

    def _bridge(self, index: int) -> None:
        """Records of this queue are missing in the log: entry i stays the one of queue offset i."""
        missing = index - self.max_offset
        if missing > GAP_LIMIT:
            raise StoreError(
                f"{self.topic}/{self.queue_id} ends at index {self.max_offset}, but the log's next record of "
                f"it has queue offset {index}: that record doesn't belong to this queue"
            )
        self._log.warn(
            "{queue}: the log has no records for {count} indexes up to {index}; they are left blank",
            queue=self,
            count=missing,
            index=index,
        )
        self._fill(index * ENTRY_SIZE)

    def _fill(self, end: int) -> None:
        """Blank entries up to `end` (bytes); the newest record named stays what it is."""
        self.write_out()
        blank = blank_entry(self.max_physical)
        while self._end < end:
            self._make_room()
            size = min(end, self._file_end) - self._end
            self._files.write(self._end, (blank * (size // ENTRY_SIZE),))
            self._end += size
            self._written = self._end
            self.max_offset = self._end // ENTRY_SIZE

    def _make_room(self) -> None:
        if self._end == self._file_end:
            self._files.create(self._end)
            self._file_end = self._files.capacity_end

    def datasync(self) -> None:
        """Make all entries durable that are in files by now. Blocks, may run in another thread."""
        mark = self.unsynced
        if mark is not None:
            cut = mark.cuts > self._cuts_synced
            self._files.datasync(self._flushed, self._file_end if cut else mark.end)
            self.synced(mark)

    @property
    def unsynced(self) -> SyncMark | None:
        """What `synced` is to be called with once everything in files now is durable; None if it already is."""
        if self._written <= self._flushed and self._cuts == self._cuts_synced:
            return None
        return SyncMark(self._written, self._files.names_changed, self._life, self._cuts)

    def synced(self, mark: SyncMark) -> None:
        """All that there was at this mark is durable."""
        if mark.life == self._life:
            self._flushed = max(self._flushed, mark.end)
        self._cuts_synced = max(self._cuts_synced, mark.cuts)
        self._files.names_synced(mark.names)

    # -- recovery --------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Take stock of the queue's folder, see FileQueue.load; how far it's filled is for `recover` to
        find."""
        self._files.load()

    def recover(self, synced: int | None = None) -> None:
        """Find the end by a scan of the last files; drop files after it, and stale entries. synced: see
        `scan_begin`."""
        if not self._files.starts:
            return
        # Whether what a killed process wrote has reached the disk isn't known: the next datasync covers it.
        begin = self._flushed = scan_begin(self._files, synced)
        end, dirty = entries_end(self._files, begin)
        if not self._read_only:
            self._files.delete_from(end + 1)
        self._settle(end)
        if dirty and not self._read_only:
            self._log.warn("{queue}: stale entries after the end are cleared", queue=self)
            self._cuts += 1
            zero_entries(self._files, end, self._file_end)

    def _settle(self, end: int) -> None:
        """Take `end` (bytes) as the queue's end and look up all bounds again."""
        self._end = self._written = end
        self._file_end = self._files.capacity_end
        self._flushed = min(self._flushed, end)
        first, self.max_offset = self._files.min_offset // ENTRY_SIZE, end // ENTRY_SIZE
        self.min_offset = self._search(first, self.max_offset, 0, 0)
        last = self._place(self.max_offset - 1)[1] if self.max_offset > first else 0
        self.max_physical = min(max(last, 0), PHYSICAL_LIMIT)

    def truncate(self, physical_end: int) -> None:
        """Cut entries of records that don't end at or below `physical_end` (log offset). A queue that is cut
        to nothing goes on at the same index, unless that is 0: then its files go."""
        if self.max_physical <= physical_end:
            return
        self.write_out()
        old_end = self._end
        first = self._files.min_offset // ENTRY_SIZE
        end = ENTRY_SIZE * self._search(first, self.max_offset, 1, physical_end + 1)
        self._cuts += 1
        self._files.delete_from(end + 1 if end else 0)
        self._settle(end)
        zero_entries(self._files, end, min(old_end, self._file_end))

    def write_again(self, physical: int) -> None:
        """Write the entries of records that end after `physical` (log offset) again: a sync of them may have
        failed. The last one is cut instead: a process that was killed may have written half of it."""
        if self.max_physical > physical:
            self.truncate(max(physical, self.max_physical - 1))
            begin = ENTRY_SIZE * self._search(self.min_offset, self.max_offset, 1, physical + 1)
            self.write_unsynced(begin)
            self._flushed = min(self._flushed, begin)

    def write_unsynced(self, begin: int | None = None) -> None:
        """Write what no sync has covered, or all from `begin` (bytes) on, again: one that fails leaves it out."""
        at = max(self._flushed if begin is None else begin, self._files.min_offset)
        while at < self._written:
            at += self._files.write(at, (self._files.read(at, self._written - at),))

    # -- expiry ----------------------------------------------------------------------------------------------

    def expire(self, min_physical: int) -> list[str]:
        """The log now begins at `min_physical`: raise `min_offset`, forget files without a live entry (never
        the last one) and give their paths, oldest first, to be removed in that order."""
        size = self._files.file_size
        dead = self._files.min_offset
        while dead + size < self._file_end and self._place((dead + size) // ENTRY_SIZE - 1)[0] < min_physical:
            dead += size
        paths = self._files.detach_before(dead)
        low = max(self.min_offset, self._files.min_offset // ENTRY_SIZE)
        self.min_offset = self._search(low, self.max_offset, 0, min_physical)
        return paths

    def restore(self, paths: Sequence[str]) -> None:
        """Take back the last of the paths that `expire` gave: removing later files would leave a gap."""
        self._files.restore(paths)

    def destroy(self) -> None:
        """Remove all files: there's no log any more that they could name records of."""
        self._cuts += 1
        self._files.delete_from(0)
        self._begin_again()

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def abandon(self) -> None:
        """The files belong to another queue from now on: what still holds this one finds it empty."""
        self._files.detach_before(self._file_end)
        self._begin_again()

    def _begin_again(self) -> None:
        self._tail.clear()
        self._end = self._written = self._file_end = self._flushed = 0
        self._life += 1
        self.min_offset = self.max_offset = self.max_physical = 0

    @property
    def folder(self) -> str:
        """Where the files are."""
        return self._files.directory
