"""The one way to read along a log: consecutive records from an offset on, a piece at a time.

Everything that follows a log (recovery, the tools, Arrow readers, audits) asks for the records at an offset and
continues after them; how a piece ends is decided here and nowhere else. A record longer than a piece is read
whole. A blank counts only if it ends with its file, and a record only if it doesn't reach beyond that end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from hatwisted.logcodec.octets import Buffer
from hatwisted.logcodec.plaincolumns import PlainColumns, plain_records
from hatwisted.logcodec.scan import Records, ScanEnd, Stop, scan_records
from hatwisted.wire import layout

READ_SIZE: Final = 4 << 20
"""Bytes read at once, at most, unless a single record has more."""
READ_RECORDS: Final = 8192
"""Records read at once, roughly: enough that what is done once per read doesn't matter, and no more, because
small records pass through the CPU's cache several times."""
BEYOND: Final = 64 << 10
"""Bytes read beyond a limit, where the last record may continue."""

BREAKS: Final = (Stop.CORRUPT, Stop.END)
"""Where the chain of records ends for one of these reasons, it may continue elsewhere."""


class LogBytes(Protocol):
    """Log files as one stream of bytes; offsets are physical."""

    @property
    def file_size(self) -> int:
        """Bytes of each file."""

    @property
    def capacity_end(self) -> int:
        """Where the last file ends."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at a file's end."""

    def data_from(self, offset: int) -> int:
        """The first place from `offset` on that may have been written, its file's end at most. What is passed over
        reads as zeros; `offset` itself is always a true answer."""


Fill = Callable[[int, int], tuple[Buffer, int]]
"""Bytes of a log: takes an offset and a size, gives a buffer and the position in it where that offset is. Fewer
bytes come only at a file's end; they may be gone with the next call."""


def filled_from(log: LogBytes) -> Fill:
    """A buffer of its own for each read."""
    return lambda offset, size: (log.read(offset, size), 0)


def file_end(offset: int, file_size: int) -> int:
    """Where the file that holds `offset` ends."""
    return offset - offset % file_size + file_size


class LogWindow:
    """Moves along a log.

    - fill: reads it
    - file_size: bytes of its files
    - read_size: bytes read at once
    - check_crc: is a record with a wrong body checksum invalid?
    - plain: a quicker way for plain records, unless checksums are compared
    """

    def __init__(
        self,
        fill: Fill,
        file_size: int,
        read_size: int = READ_SIZE,
        *,
        check_crc: bool = False,
        plain: PlainColumns | None = None,
    ) -> None:
        self._fill = fill
        self._file_size = file_size
        self._read_size = read_size
        self._check_crc = check_crc
        self._plain = None if check_crc else plain
        self._mean = 0.0

    def records(self, offset: int, limit: int) -> Records:
        """Records of the chain from `offset` on that start below `limit`: as many as one read gives, at least one
        unless the chain ends at `offset`. NEED_DATA only ever comes with records; ask again from their end.
        BLANK is the rest of a file. Valid until the next call."""
        end = file_end(offset, self._file_size)
        ahead = max(limit - offset, 0) + BEYOND
        size = min(self._read_size, ahead, int(self._mean) * READ_RECORDS or self._read_size)
        while True:
            size = min(size, end - offset)
            buf, start = self._fill(offset, size)
            records = self._scanned(buf, offset - start, start, limit - offset + start)
            records.end = _judged(records, end, len(buf) - start < size)
            if len(records):
                self._mean = (records.end_offset - offset) / len(records)
            elif records.end.stop is Stop.NEED_DATA:
                size = records.end.size or 2 * size
                continue
            return records

    def _scanned(self, buf: Buffer, base: int, start: int, before: int) -> Records:
        if self._plain is not None:
            records = plain_records(self._plain, buf, base, range(start, before))
            if records is not None:
                return records
        return scan_records(
            buf, base, start=start, before=before, mean_size=self._mean, check_crc=self._check_crc
        )


def _judged(records: Records, file_end: int, is_cut: bool) -> ScanEnd:
    """What a scan's end means to a log whose file ends at `file_end`; is_cut: before it should."""
    end, room = records.end, file_end - records.end_offset
    if end.stop is Stop.BLANK and end.size != room:
        reason = f"a blank of {end.size} bytes where the file has {room} left"
    elif end.stop is Stop.NEED_DATA and room < max(end.size, layout.BLANK_MIN_SIZE):
        reason = f"a record of {end.size} bytes where the file has {room} left" if end.size else "no blank"
    elif end.stop is Stop.NEED_DATA and is_cut:
        reason = "the file breaks off"
    else:
        return end
    return ScanEnd(end.position, Stop.CORRUPT, end.size, reason)
