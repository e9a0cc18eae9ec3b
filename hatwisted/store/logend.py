"""Where the commit log really ends, and whether anything valid lies behind that.

Nothing on disk records the end: files have their full length from the beginning and what was never written
reads as zeros. So the end is found by following the records, checking each, until something isn't one.

Three outcomes are kept apart. A *torn tail* (zeros, or a record broken off) is what a crash normally leaves.
*Damage* is when a valid record lies somewhere behind: cutting there would lose it, so nothing is cut. And a
*roll* is a file that was closed by its blank while the next one doesn't exist yet: the end is the next file's
start then. RocketMQ takes the blank's start instead, which lies below what a slave has already copied.

A record torn inside its properties passes every check of RocketMQ's, because only the body has a checksum and
missing bytes read as zeros. Properties never end in a zero byte, so a last record that does is torn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hatwisted.logcodec.recordsearch import CHUNK
from hatwisted.logcodec.scan import ScanEnd, ScanResult, Stop, scan_records
from hatwisted.store.filequeue import FileQueue
from hatwisted.wire.record import CorruptRecord, Record, decode_record

Tick = Callable[[int], None]
"""Told the offset reached, after every chunk."""


class LogFiles:
    """The files of a log up to a known end, for those that read a log which nobody appends to."""

    def __init__(self, files: FileQueue, end: int) -> None:
        self._files = files
        self.max_offset = end
        self.file_size = files.file_size

    @property
    def min_offset(self) -> int:
        """Offset of the first byte still held."""
        return self._files.min_offset

    def read(self, offset: int, limit: int) -> bytes:
        """See IReplicatedLog."""
        size = min(limit, self.max_offset - offset)
        return self._files.read(offset, size) if size > 0 else b""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What following the records from `start` on has found.

    end: offset behind the last valid record (or roll); stop, reason: what is there; records, store_timestamp
    (ms): how many are in front, and the last one's time; torn_at: offset of the last record if that looks
    torn, else None: whether it is must be decided by who knows more. blank_end: end of the blank that is there,
    None if it isn't one.
    """

    start: int
    end: int
    stop: Stop
    reason: str
    records: int
    store_timestamp: int
    torn_at: int | None
    blank_end: int | None = None


def find_end(
    files: FileQueue, start: int, *, check_crc: bool = True, tick: Tick = lambda offset: None
) -> LogEnd:
    """Follow the records from `start` (a record's offset) on. Changes nothing."""
    at, records, timestamp = start, 0, 0
    last: tuple[int, bytes] | None = None
    while True:
        if not files.has(at - at % files.file_size):
            return LogEnd(start, at, Stop.END, "no further file", records, timestamp, _torn(last))
        scan = _scan(files, at, check_crc)
        if len(scan):
            records += len(scan)
            timestamp = int(scan.store_timestamps[-1])
            last = _last_record(scan)
        at, end = at + scan.end.position, scan.end
        tick(at)
        file_end = at - at % files.file_size + files.file_size
        if end.stop is Stop.BLANK and at + end.size == file_end:
            at, last = file_end, None
        elif end.stop not in (Stop.LIMIT, Stop.NEED_DATA) or not len(scan):
            reason, blank_end = _reason(end), at + end.size if end.stop is Stop.BLANK else None
            return LogEnd(start, at, end.stop, reason, records, timestamp, _torn(last), blank_end)


def _scan(files: FileQueue, at: int, check_crc: bool) -> ScanResult:
    """One chunk's records; at least one, if there is a valid one."""
    chunk = files.read(at, CHUNK)
    scan = scan_records(chunk, at, limit=CHUNK, check_crc=check_crc)
    if not len(scan) and scan.end.stop is Stop.NEED_DATA and scan.end.size > len(chunk) == CHUNK:
        scan = scan_records(files.read(at, scan.end.size), at, check_crc=check_crc)
    return scan


def _last_record(scan: ScanResult) -> tuple[int, bytes]:
    """Offset and bytes of the last record of a scan."""
    at = int(scan.positions[-1])
    return scan.base + at, bytes(scan.buf[at : at + int(scan.sizes[-1])])


def _torn(last: tuple[int, bytes] | None) -> int | None:
    """The last record's offset if its topic or properties break off in zeros."""
    if last is None:
        return None
    offset, raw = last
    try:
        record = decode_record(raw, check_crc=False)
    except CorruptRecord:
        return offset
    return offset if isinstance(record, Record) and record.topic.endswith("\0") else None


def _reason(end: ScanEnd) -> str:
    if end.stop is Stop.BLANK:
        return f"a blank of {end.size} bytes that doesn't end with its file"
    if end.stop is Stop.NEED_DATA:
        return f"a record of {end.size} bytes that would cross its file's end" if end.size else "no blank"
    return end.reason or end.stop.value
