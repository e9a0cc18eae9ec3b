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
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from hatwisted.kernel import own_records
from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.store.errors import WrongEntry
from hatwisted.store.interfaces import Buffer
from hatwisted.wire.layout import PRE_BLANK_SIZE, QUEUE_ENTRY

MAX_SCAN = 800
"""Entries looked at in one call. A filter that matches nothing must not hold up the reactor for a whole
queue; the consumer pulls again at the next offset. (4.9.7: 16000 bytes of entries.)"""

MAX_GAP = 16 * 1024
"""Bytes of foreign data read along between two chosen records before a second read is cheaper."""

SIFT_COUNT = 64
SIFT_BYTES = 256 * 1024
"""Records, and bytes of records, that are read together to look into them: more would be read in vain when the
answer is full."""

MAX_FILTER_READ = 4 * 1024 * 1024
"""Bytes read in one call to look into them, some ms of work; the consumer pulls again where this ended."""

_LOW_32 = 0xFFFFFFFF
"""Tags are compared as Java's `(int) long`: delay queues keep a deliver time where others keep a tag's
hash."""


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
    if not entries:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, offset, low, high)
    choice = _Choice(log, queue.records, offset, limits, cold)
    if isinstance(wanted, RecordTest):
        scanned, buffers = choice.filter_by_record(entries, wanted)
    else:
        scanned = choice.take(entries, wanted)
        buffers = choice.read()
    status = GetStatus.FOUND if buffers else choice.nothing
    behind = log.max_offset - choice.last_position
    return GetResult(status, offset + scanned, low, high, buffers, len(choice.chosen), behind)


def _scan_limit(max_count: int, wanted: Wanted) -> int:
    """How many entries may be looked at."""
    if wanted is None:
        return max_count
    return max(MAX_SCAN // wanted.effort if isinstance(wanted, RecordTest) else MAX_SCAN, max_count)


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


class _Choice:
    """Which entries a read delivers: (physical offset, size) of each, and why there are none.

    records: the queue's; offset: of the first entry looked at.
    """

    def __init__(
        self,
        log: ReadableLog,
        records: QueueRecords,
        offset: int,
        limits: ReadLimits,
        cold: ColdLimits | None,
    ) -> None:
        self.chosen: list[tuple[int, int]] = []
        self._indexes: list[int] | range = []
        """Queue offsets of the chosen."""
        self._records = records
        self._offset = offset
        self.nothing = GetStatus.NO_MATCHED_MESSAGE
        self.last_position = log.max_offset
        self._log = log
        self._first_byte = log.min_offset
        self._hot = limits
        self._cold = limits if cold is None else limits.within(cold)
        self._cold_below = -1 if cold is None else log.max_offset - cold.distance

    def take(self, entries: bytes, tags_codes: frozenset[int] | None) -> int:
        """Choose among `entries`; returns how many were dealt with."""
        if tags_codes is None and self._take_all(entries):
            return len(self.chosen)
        chosen, total, scanned = self.chosen, 0, 0
        indexes = self._indexes = []
        wanted = None if tags_codes is None else {code & _LOW_32 for code in tags_codes}
        for position, size, tags_code in QUEUE_ENTRY.iter_unpack(entries):
            if chosen:
                max_count, max_bytes = self._cold if position < self._cold_below else self._hot
                if len(chosen) >= max_count or total + size > max_bytes:
                    break
            scanned += 1
            self.last_position = position
            if position < self._first_byte or size == PRE_BLANK_SIZE:
                self.nothing = GetStatus.MESSAGE_WAS_REMOVING
            elif wanted is None or tags_code & _LOW_32 in wanted:
                chosen.append((position, size))
                indexes.append(self._offset + scanned - 1)
                total += size
        return scanned

    def _take_all(self, entries: bytes) -> bool:
        """Choose all of `entries` at once, if nothing is to be said against any: what most pulls come to. (A
        pre-blank's size is beyond every limit.)"""
        fields = struct.unpack(">" + "qiq" * (len(entries) // QUEUE_ENTRY.size), entries)
        positions, sizes = fields[::3], fields[1::3]
        max_count, max_bytes = self._hot
        if (
            len(sizes) > max_count
            or sum(sizes) > max_bytes
            or min(positions) < max(self._first_byte, self._cold_below)
        ):
            return False
        self.chosen = list(zip(positions, sizes, strict=True))
        self._indexes = range(self._offset, self._offset + len(sizes))
        self.last_position = positions[-1]
        return True

    def read(self) -> list[Buffer]:
        """The chosen records' bytes, one log read for each run of neighbours."""
        buffers: list[Buffer] = []
        done = 0
        for run in _runs(self._log, self.chosen):
            data, base = self._run_bytes(run), run[0][0]
            self._check(data, base, run, list(self._indexes[done : done + len(run)]))
            done += len(run)
            if sum(size for _, size in run) == len(data):
                buffers.append(data)
            else:
                view = memoryview(data)
                buffers += [view[position - base : position - base + size] for position, size in run]
        return buffers

    def _check(self, data: bytes, base: int, run: list[tuple[int, int]], indexes: list[int]) -> None:
        """Raises WrongEntry for the first record that isn't the queue's. indexes: the records' queue offsets."""
        records = self._records
        known = 0 if own_records is None else own_records(data, base, run, indexes, records)
        for (position, size), index in zip(run[known:], indexes[known:], strict=True):
            if not records.has(data, position - base, size, index, position):
                raise WrongEntry(records.topic, records.queue_id, index, position)

    def _run_bytes(self, run: list[tuple[int, int]]) -> bytes:
        """What the log has there; less than the entries say if they are wrong."""
        base = run[0][0]
        return self._log.read(base, run[-1][0] + run[-1][1] - base)

    def filter_by_record(self, entries: bytes, test: RecordTest) -> tuple[int, list[Buffer]]:
        """Choose by looking into the records; returns how many were dealt with and those that passed. Piece
        by piece, so that little more is read than the answer holds."""
        buffers: list[Buffer] = []
        total = scanned = read = 0
        for piece in _pieces(entries):
            records = dict(self._read_piece(piece, self._offset + scanned))
            for position, size in piece:
                if buffers and self._is_full(position, total + size):
                    return scanned, buffers
                scanned += 1
                self.last_position = position
                record = records.get(position)
                if record is None:
                    self.nothing = GetStatus.MESSAGE_WAS_REMOVING
                elif test.passes(record):
                    self.chosen.append((position, size))
                    buffers.append(record)
                    total += size
            read += sum(map(len, records.values()))
            if read >= MAX_FILTER_READ:
                break
        return scanned, buffers

    def _is_full(self, position: int, total: int) -> bool:
        max_count, max_bytes = self._cold if position < self._cold_below else self._hot
        return len(self.chosen) >= max_count or total > max_bytes

    def _read_piece(self, piece: list[tuple[int, int]], first: int) -> Iterator[tuple[int, Buffer]]:
        """(physical offset, record) of those that are still there. first: the piece's first queue offset."""
        first_byte = self._first_byte
        there = {
            entry: index
            for index, entry in enumerate(piece, first)
            if entry[0] >= first_byte and entry[1] != PRE_BLANK_SIZE
        }
        for run in _runs(self._log, list(there)):
            data, base = self._run_bytes(run), run[0][0]
            self._check(data, base, run, [there[entry] for entry in run])
            view = memoryview(data)
            for position, size in run:
                yield position, view[position - base : position - base + size]


def _pieces(entries: bytes) -> Iterator[list[tuple[int, int]]]:
    """(physical offset, size) of neighbouring entries, as many as are read together."""
    piece: list[tuple[int, int]] = []
    total = 0
    for position, size, _ in QUEUE_ENTRY.iter_unpack(entries):
        if piece and (len(piece) >= SIFT_COUNT or total + size > SIFT_BYTES):
            yield piece
            piece, total = [], 0
        piece.append((position, size))
        total += size
    if piece:
        yield piece


def _runs(log: ReadableLog, chosen: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    start = 0
    while start < len(chosen):
        stop = _run_end(chosen, start, log.file_size)
        yield chosen[start:stop]
        start = stop


def _run_end(chosen: list[tuple[int, int]], start: int, file_size: int) -> int:
    """Index after the last record that one read together with chosen[start] should bring."""
    position, size = chosen[start]
    file_end = position - position % file_size + file_size
    end, index = position + size, start + 1
    while index < len(chosen):
        position, size = chosen[index]
        if not 0 <= position - end <= MAX_GAP or position >= file_end:
            break
        end, index = position + size, index + 1
    return index
