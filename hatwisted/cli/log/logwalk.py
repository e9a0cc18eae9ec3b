"""Walking a whole log, over damage as well: what recovery refuses, because it must not lose anything.

Records are found by the store's vectorised scan, chunk by chunk. Where there is no valid record the rest of
the log is searched for the next one: a record that carries the very offset it lies at and whose checksum is
right. If there is none, the log ends here: cleanly when only zeros follow, with a torn tail otherwise. If
there is one, this is damage, and the walk goes on behind it.

One more case looks like damage and is none. RocketMQ's recovery only moves its write position back and leaves
the bytes behind it; new records then overwrite them piece by piece, and what is left of the old ones still
carries the right offsets. Such leftovers are told apart by their age and their place in the queues.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple

from hatwisted.logcodec.recordsearch import valid_records_behind, written_end
from hatwisted.logcodec.scan import ScanResult, Stop, scan_records
from hatwisted.store.filequeue import FileQueue
from hatwisted.store.queuetable import ConsumeQueueTable
from hatwisted.wire import layout
from hatwisted.wire.record import CorruptRecord, Record, decode_record

CHUNK: Final = 8 << 20
"""Bytes read at once: large enough to make the per-read costs vanish, small enough for any machine."""
LARGEST_RECORD: Final = 64 << 20
"""Bytes; a size field above this is taken for damage rather than read into memory. RocketMQ's default limit
is 4 MiB and 64 KiB."""


class Damage(NamedTuple):
    """No valid records in [offset, resumes_at)."""

    offset: int
    resumes_at: int
    reason: str


class LogEnd(NamedTuple):
    """Where valid records end for good. torn: bytes from there to the last one that isn't zero (0: clean
    end); leftovers: some of these are records that were cut off before; torn_record: offset of the last
    record if it passes every check but ends in zeros, as one that a crash broke off in its properties does."""

    offset: int
    torn: int
    reason: str
    leftovers: bool
    torn_record: int | None


class LogWalk:
    """Iterate to get the valid records; look at `damages` and `end` afterwards.

    start, stop: file starts or record starts; the walk ends with the first valid record behind `stop`.
    queues: loaded and recovered, if there are any; they help to tell leftovers.
    check_crc: compare body checksums, which makes damage inside bodies visible; progress: told the offset
    reached after each chunk.
    """

    def __init__(
        self,
        log: FileQueue,
        start: int | None = None,
        *,
        stop: int | None = None,
        queues: ConsumeQueueTable | None = None,
        check_crc: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._log = log
        self._stop = log.capacity_end if stop is None else stop
        self._queues = queues
        self._check_crc = check_crc
        self._progress = progress or (lambda offset: None)
        self._last_timestamp = 0
        self._last: ScanResult | None = None
        self._read_size = CHUNK
        self.at = log.min_offset if start is None else start
        """Offset reached: behind the last valid record or blank."""
        self.damages: list[Damage] = []
        self.end: LogEnd | None = None

    def __iter__(self) -> Iterator[ScanResult]:
        while self.at < self._stop:
            reason = yield from self._valid_records()
            if reason is None:
                continue
            if not self._pass_over(reason):
                return
        self.end = LogEnd(self.at, 0, "the last file is full", False, None)

    def _valid_records(self) -> Generator[ScanResult, None, str | None]:
        """The records of one chunk from `at` on, which moves behind them. Returns what is wrong with what
        follows them, None if it's only that the chunk ends."""
        base = self.at
        room = self._log.capacity_end_of(base) - base
        chunk = self._log.read(base, min(self._read_size, room))
        self._read_size = CHUNK
        result = scan_records(chunk, base, check_crc=self._check_crc)
        while True:
            if len(result):
                self._last_timestamp = int(result.store_timestamps[-1])
                self._last = result
                self.at = base + result.end.position
                yield result
            if result.end.stop is not Stop.LIMIT:
                break
            result = scan_records(chunk, base, start=result.end.position, check_crc=self._check_crc)
        self._progress(self.at)
        return self._what_follows(result, base + room - self.at)

    def _what_follows(self, result: ScanResult, room: int) -> str | None:
        """Judge the end of a scan; `room`: bytes left in the file."""
        end = result.end
        if end.stop is Stop.BLANK:
            if end.size != room:
                return f"blank of {end.size} bytes where the file has {room} left"
            self.at += room
            return None
        if end.stop is Stop.NEED_DATA:
            if end.size > min(room, LARGEST_RECORD) or room < layout.BLANK_MIN_SIZE:
                return f"record of {end.size} bytes where the file has {room} left"
            self._read_size = max(CHUNK, end.size)
            return None
        return "nothing written" if end.stop is Stop.END else end.reason

    def _pass_over(self, reason: str) -> bool:
        """Go on behind damage; False if there's nothing to go on to."""
        offset, leftovers = self.at, False
        written = written_end(self._log, offset)
        for record in valid_records_behind(self._log, offset + 1, written):
            if not was_cut_before(record, self._queues, offset, self._last_timestamp):
                self.damages.append(Damage(offset, record.physical_offset, reason))
                self.at = record.physical_offset
                return True
            leftovers = True
        self.end = LogEnd(offset, written - offset, reason, leftovers, self._torn_at())
        return False

    def _torn_at(self) -> int | None:
        """Offset of the last record if its properties or its topic break off in zeros."""
        if self._last is None:
            return None
        scan, position = self._last, int(self._last.positions[-1])
        try:
            record = decode_record(scan.buf, position, check_crc=False)
        except CorruptRecord:
            return scan.base + position
        whole = not isinstance(record, Record) or not record.topic.endswith("\0")
        return None if whole else scan.base + position


def was_cut_before(record: Record, queues: ConsumeQueueTable | None, end: int, last_timestamp: int) -> bool:
    """Is this valid record behind the log's end a leftover? By the rule recovery goes by: its place in its
    queue is held by a record in front of `end`, or else it's older than the last of these."""
    queue = queues.find(record.topic, record.queue_id) if queues is not None else None
    entry = queue.read(record.queue_offset, 1) if queue is not None else b""
    if entry:
        holder, size, _ = layout.QUEUE_ENTRY.unpack(entry)
        if holder == record.physical_offset:
            return False
        if holder + size <= end:
            return True
    return 0 < record.store_timestamp < last_timestamp
