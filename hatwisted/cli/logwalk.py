"""Walking a whole log, over damage as well: what recovery refuses, because it must not lose anything.

Records are found by the store's vectorised scan, chunk by chunk. Where there is no valid record the rest of
the log is searched for the next one: a record that carries the very offset it lies at and whose checksum is
right. If there is none, the log ends here: cleanly when only zeros follow, with a torn tail otherwise. If
there is one, this is damage, and the walk goes on behind it.

One more case looks like damage and is none. RocketMQ's recovery only moves its write position back and leaves
the bytes behind it; new records then overwrite them piece by piece, and what is left of the old ones still
carries the right offsets. Such leftovers are older than the record in front of the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple

from hatwisted.store.filequeue import FileQueue
from hatwisted.store.scan import ScanResult, Stop, scan_records
from hatwisted.wire import layout
from hatwisted.wire.record import CorruptRecord, Record, decode_record

CHUNK: Final = 8 << 20
"""Bytes read at once: large enough to make the per-read costs vanish, small enough for any machine."""
LARGEST_RECORD: Final = 64 << 20
"""Bytes; a size field above this is taken for damage rather than read into memory. RocketMQ's default limit
is 4 MiB and 64 KiB."""
SEARCH_OVERLAP: Final = 8
"""Bytes of a chunk seen again with the next one, so that no record head is missed between them."""
_MAGIC_COMMON: Final = b"\xda\xa3\x20"
"""What both message magics begin with."""


class Damage(NamedTuple):
    """No valid records in [offset, resumes_at)."""

    offset: int
    resumes_at: int
    reason: str


class LogEnd(NamedTuple):
    """Where valid records end for good. torn: bytes from there to the last one that isn't zero (0: clean
    end); leftovers: some of these are older records that were cut off before."""

    offset: int
    torn: int
    reason: str
    leftovers: bool


class LogWalk:
    """Iterate to get the valid records; look at `damages` and `end` afterwards.

    start, stop: file starts or record starts; the walk ends with the first valid record behind `stop`.
    check_crc: compare body checksums, which makes damage inside bodies visible; progress: told the offset
    reached after each chunk.
    """

    def __init__(
        self,
        log: FileQueue,
        start: int | None = None,
        *,
        stop: int | None = None,
        check_crc: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._log = log
        self._stop = log.capacity_end if stop is None else stop
        self._check_crc = check_crc
        self._progress = progress or (lambda offset: None)
        self._last_timestamp = 0
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
        self.end = LogEnd(self.at, 0, "the last file is full", False)

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
        offset = self.at
        found = find_record(self._log, offset + 1, not_before=self._last_timestamp)
        if found.record is not None:
            self.damages.append(Damage(offset, found.record, reason))
            self.at = found.record
            return True
        written_end = found.written_end or offset + len(self._log.read(offset, 1).rstrip(b"\0"))
        torn = written_end - offset
        self.end = LogEnd(offset, torn, reason, found.leftovers)
        return False


class Found(NamedTuple):
    """Result of a search: offset of the next valid record, if any; end of the last byte that isn't zero (if
    there's no record; 0 for none); were records passed over for being older than allowed?"""

    record: int | None
    written_end: int
    leftovers: bool


def find_record(log: FileQueue, start: int, *, not_before: int = 0) -> Found:
    """The first valid record at or behind `start` that was stored at or after `not_before` (ms)."""
    at, written_end, leftovers = start, 0, False
    while at < log.capacity_end:
        room = log.capacity_end_of(at) - at
        chunk = log.read(at, min(CHUNK, room))
        for candidate in _candidates(chunk, at):
            record = _record_at(log, candidate) if candidate >= start else None
            if record is not None and record.store_timestamp >= not_before:
                return Found(candidate, written_end, leftovers)
            leftovers = leftovers or record is not None
        used = len(chunk.rstrip(b"\0"))
        written_end = at + used if used else written_end
        at += len(chunk) if len(chunk) == room else len(chunk) - SEARCH_OVERLAP
    return Found(None, written_end, leftovers)


def _candidates(chunk: bytes, base: int) -> Iterator[int]:
    """Offsets at which a record might begin, by their magic."""
    at = chunk.find(_MAGIC_COMMON)
    while at >= 0:
        yield base + at - layout.MAGIC_AT
        at = chunk.find(_MAGIC_COMMON, at + 1)


def _record_at(log: FileQueue, offset: int) -> Record | None:
    """The valid record at `offset`, if there is one."""
    if offset < log.min_offset:
        return None
    head = log.read(offset, layout.BODY_AT)
    room = log.capacity_end_of(offset) - offset
    try:
        size = int.from_bytes(head[:4], "big", signed=True)
        if not layout.FIXED_SIZE <= size <= min(room, LARGEST_RECORD):
            return None
        found = decode_record(log.read(offset, size), at=offset)
    except CorruptRecord:
        return None
    return found if isinstance(found, Record) else None
