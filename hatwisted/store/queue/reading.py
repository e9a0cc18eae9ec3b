"""Reading messages of one queue: consume queue entries choose, the commit log delivers.

Strategy: choose first, read second. The queue's 20-byte entries alone decide what a pull gets (limits, tag
codes, what retention has removed); only then is the log read, and records that lie close together in it share
one read. A queue of a topic with 8 queues has its records 7 foreign ones apart, so a little foreign data is
read along and cut away: copying 16 KiB out of the page cache costs less than another call.

No entry is taken at its word: what is handed out names this topic, queue and offset itself. A bad page in a
queue's file must not give a consumer another topic's bytes.

Rejected: a read per record (the calls, not the bytes, are what a pull of 32 small records costs), and handing
out views of a mapped file (a file that retention deletes would stay, and a page fault holds up everyone).

Pure functions over the log and a queue; status names and every number are RocketMQ 4.9.7's GetMessageStatus
and DefaultMessageStore.getMessage.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from hatwisted.kernel import choose_entries, own_bytes
from hatwisted.logcodec.entrychoice import EntryChoice, ReadBounds, ReadRun
from hatwisted.logcodec.queueentry import ENTRY_SIZE, PLACE
from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.store.errors import WrongEntry
from hatwisted.store.interfaces import Buffer
from hatwisted.wire.layout import QUEUE_ENTRY

MAX_SCAN = 800
"""Entries looked at in one call. A filter that matches nothing must not hold up the reactor for a whole
queue; the consumer pulls again at the next offset. (4.9.7: 16000 bytes of entries.)"""

SIFT_COUNT = 64
SIFT_BYTES = 256 * 1024
"""Records, and bytes of records, that are read together to look into them: more would be read in vain when the
answer is full."""

MAX_FILTER_READ = 4 * 1024 * 1024
"""Bytes read in one call to look into them, some ms of work; the consumer pulls again where this ended."""

LONG_READ = 1024 * 1024
"""Bytes from which on a read begins with the length that its first record has itself: an entry that's wrong may
claim up to 2 GiB."""


class RecordTest(msgspec.Struct, frozen=True):
    """A filter that looks into records. passes: is this whole record wanted?; effort: how long that takes, a
    simple test being 1. The number of entries looked at in one call falls with it."""

    passes: Callable[[Buffer], bool]
    effort: int = 1


Wanted: TypeAlias = frozenset[int] | RecordTest | None
"""Which records a read gives: those with one of these tags codes as int32, those that pass, or all."""


class GetStatus(enum.Enum):
    """How a read ended; the name travels as the remark of the pull's answer."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    MESSAGE_WAS_REMOVING = enum.auto()
    OFFSET_FOUND_NULL = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    NO_MATCHED_LOGIC_QUEUE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()


class GetResult(msgspec.Struct, frozen=True, gc=False):
    """What one read of a queue gave.

    buffers: whole records back to back, in queue order, cut into as many pieces as the reading made;
    count: how many records they hold; next_begin_offset: where the next read should start (queue offset);
    behind_bytes: distance from the last entry looked at to the log's end.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    buffers: list[Buffer] = []
    count: int = 0
    behind_bytes: int = 0


class ReadLimits(NamedTuple):
    """Most messages and bytes of one read; a first message is returned however long it is."""

    max_count: int
    max_bytes: int

    def within(self, cold: ColdLimits) -> ReadLimits:
        """The smaller of both."""
        return ReadLimits(min(self.max_count, cold.max_count), min(self.max_bytes, cold.max_bytes))


class ColdLimits(msgspec.Struct, frozen=True):
    """Smaller limits for records too old to be in the page cache, because reading them waits for the disk.

    distance: bytes before the log's end from which a record counts as cold (4.9.7: 40 % of the memory).
    """

    distance: int
    max_count: int = 8
    max_bytes: int = 64 * 1024


class ReadableLog(Protocol):
    """The part of the commit log that reading needs; see IReplicatedLog."""

    @property
    def min_offset(self) -> int: ...

    @property
    def max_offset(self) -> int: ...

    @property
    def file_size(self) -> int: ...

    def read(self, offset: int, limit: int) -> bytes: ...


class ReadableQueue(Protocol):
    """The part of a consume queue that reading needs: entries [min_offset, max_offset)."""

    @property
    def min_offset(self) -> int: ...

    @property
    def max_offset(self) -> int: ...

    @property
    def records(self) -> QueueRecords: ...

    def read(self, index: int, count: int) -> bytes: ...


def get_messages(
    log: ReadableLog,
    queue: ReadableQueue | None,
    offset: int,
    limits: ReadLimits,
    wanted: Wanted = None,
    cold: ColdLimits | None = None,
) -> GetResult:
    """Records of a queue, for a pull. Raises WrongEntry at an entry whose place in the log holds another
    record or none.

    - log: where the records are
    - queue: whose messages
    - offset: queue offset of the first
    - limits: of what is returned
    - wanted: which tags, and which records
    - cold: the limits for messages that have left the page cache
    """
    if queue is None:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
    low, high = queue.min_offset, queue.max_offset
    outside = _outside(offset, low, high)
    if outside is not None:
        status, next_offset = outside
        return GetResult(status, next_offset, low, high)
    entries = queue.read(offset, min(_scan_limit(limits.max_count, wanted), high - offset))
    entries = entries[: len(entries) - len(entries) % ENTRY_SIZE]  # a file that was cut ends anywhere
    if not entries:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, offset, low, high)
    reading = _Reading(log, queue.records, entries, offset, _bounds(log, limits, cold))
    if isinstance(wanted, RecordTest):
        reading.sift(wanted)
    else:
        reading.take(wanted)
    behind = log.max_offset - reading.last_position
    next_offset = offset + reading.scanned
    return GetResult(reading.status, next_offset, low, high, reading.buffers, reading.count, behind)


def _scan_limit(max_count: int, wanted: Wanted) -> int:
    """How many entries may be looked at."""
    if wanted is None:
        return max_count
    return max(MAX_SCAN // wanted.effort if isinstance(wanted, RecordTest) else MAX_SCAN, max_count)


def _bounds(log: ReadableLog, limits: ReadLimits, cold: ColdLimits | None) -> ReadBounds:
    """What limits the choice: the cold limits are never wider than the others."""
    if cold is None:
        return ReadBounds(log.min_offset, log.file_size, 0, *limits, *limits)
    cold_below = log.max_offset - cold.distance
    return ReadBounds(log.min_offset, log.file_size, cold_below, *limits, *limits.within(cold))


def _outside(offset: int, low: int, high: int) -> tuple[GetStatus, int] | None:
    """Status and corrected offset for an offset that has no entry."""
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        return GetStatus.OFFSET_OVERFLOW_BADLY, high
    return None


class _Reading:
    """What a read delivers, and why nothing.

    - records: the queue's
    - entries: those that are looked at
    - offset: queue offset of the first
    - bounds: of what is delivered
    """

    def __init__(
        self, log: ReadableLog, records: QueueRecords, entries: bytes, offset: int, bounds: ReadBounds
    ) -> None:
        self.buffers: list[Buffer] = []
        self.count = 0
        self.scanned = 0
        """Entries that are dealt with."""
        self.last_position = log.max_offset
        """Of the last of them, in the log."""
        self._removing = False
        self._log = log
        self._records = records
        self._entries = entries
        self._offset = offset
        self._bounds = bounds

    @property
    def status(self) -> GetStatus:
        """How it ended."""
        if self.buffers:
            return GetStatus.FOUND
        return GetStatus.MESSAGE_WAS_REMOVING if self._removing else GetStatus.NO_MATCHED_MESSAGE

    def take(self, tags_codes: frozenset[int] | None) -> None:
        """Choose by the entries alone."""
        choice = choose_entries(self._entries, self._bounds, tags_codes)
        self.scanned, self.count, self._removing = choice.scanned, choice.chosen, choice.removing
        self.last_position = choice.last_position
        self.buffers = [
            self._run_bytes(run, self._entries, choice.taken, self._offset) for run in choice.runs
        ]

    def sift(self, test: RecordTest) -> None:
        """Choose by looking into the records, piece by piece, so that little more is read than is delivered."""
        total = read = 0
        whole = ReadBounds(self._bounds.first_byte, self._bounds.file_size, 0, *(SIFT_COUNT, SIFT_BYTES) * 2)
        while self.scanned * ENTRY_SIZE < len(self._entries) and read < MAX_FILTER_READ:
            entries = self._entries[self.scanned * ENTRY_SIZE :]
            piece = choose_entries(entries, whole, None)
            found = self._cut(piece, entries, self._offset + self.scanned)
            for number, (position, length, _) in enumerate(
                QUEUE_ENTRY.iter_unpack(entries[: piece.scanned * ENTRY_SIZE])
            ):
                if self.buffers and self._is_full(position, total + length):
                    return
                self.scanned += 1
                self.last_position = position
                if piece.taken and not piece.taken[number]:
                    self._removing = True
                    continue
                record = next(found)
                read += length
                if test.passes(record):
                    self.buffers.append(record)
                    self.count += 1
                    total += length

    def _cut(self, piece: EntryChoice, entries: bytes, offset: int) -> Iterator[memoryview]:
        """The records of a piece, one after the other; each run is read when its first one is asked for."""
        for run in piece.runs:
            view, at = memoryview(self._run_bytes(run, entries, piece.taken, offset)), 0
            _, _, first, stop = run
            for number in range(first, stop):
                if not piece.taken or piece.taken[number]:
                    _, length = _place(entries, number)
                    yield view[at : at + length]
                    at += length

    def _is_full(self, position: int, total: int) -> bool:
        bounds = self._bounds
        if position < bounds.cold_below:
            return self.count >= bounds.cold_count or total > bounds.cold_bytes
        return self.count >= bounds.max_count or total > bounds.max_bytes

    def _run_bytes(self, run: ReadRun, entries: bytes, taken: bytes, offset: int) -> bytes:
        """The chosen records of one read. Raises WrongEntry for the first one that isn't the queue's.

        - run: of a choice
        - entries, taken: what it was made of
        - offset: queue offset of the first of the entries
        """
        base, size, first, _ = run
        found: bytes | int = first
        if size < LONG_READ or self._length_at(base) == _place(entries, first)[1]:
            found = own_bytes(self._log.read(base, size), run, entries, taken, offset, self._records)
        if isinstance(found, bytes):
            return found
        position, _ = _place(entries, found)
        raise WrongEntry(self._records.topic, self._records.queue_id, offset + found, position)

    def _length_at(self, position: int) -> int:
        """Of the record there, by itself."""
        return int.from_bytes(self._log.read(position, 4), "big")


def _place(entries: bytes, number: int) -> tuple[int, int]:
    """Physical offset and length of the record, by its entry."""
    position, length = PLACE.unpack_from(entries, number * ENTRY_SIZE)
    return position, length
