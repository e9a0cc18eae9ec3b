"""A reused buffer that moves along one log file."""

from __future__ import annotations

from typing import Final

from hatwisted.pipeline.decode.logbytes import LogBytes
from hatwisted.pipeline.decode.ragged import PREFIX, new_buffer
from hatwisted.pipeline.decode.records import ChainEnd, Chunk, Records, Stop, frame

READ_SIZE: Final = 4 << 20
"""Bytes read at once, at most, unless a single record has more."""
READ_RECORDS: Final = 8192
"""Records read at once, roughly: so many that what is done once a read doesn't count, and not more, because small
records pass through the CPU's cache several times."""
BEYOND: Final = 64 << 10
"""Bytes read beyond a limit, where the last record may go on."""


class LogWindow:
    """Reads the file that begins at physical offset `base`, a chunk at a time; each chunk replaces the last."""

    def __init__(self, file: LogBytes, base: int, file_size: int, read_size: int = READ_SIZE) -> None:
        self._file = file
        self._base = base
        self.file_end = base + file_size
        self._read_size = read_size
        self._octets = new_buffer(0)
        self._mean = 0.0

    def chain(self, offset: int, limit: int) -> tuple[Records, ChainEnd]:
        """Records of the chain from `offset` on that start below `limit`: as many as one read gives, at least one
        unless the chain ends at `offset`. NEED_DATA only ever comes with records; asking on from its offset goes
        on. The records are valid until the next call."""
        ahead = max(limit - offset, 0) + BEYOND
        size = min(self._read_size, ahead, int(self._mean) * READ_RECORDS or self._read_size)
        while True:
            chunk = self._fill(offset, size)
            records, end = frame(chunk, limit, self._mean)
            if len(records):
                self._mean = int(records.ends[-1] - records.starts[0]) / len(records)
                return records, end
            if end.stop is Stop.BLANK and offset + end.size != self.file_end:
                reason = f"a blank of {end.size} bytes that doesn't end with its file"
                return records, ChainEnd(offset, Stop.CORRUPT, 0, reason)
            if end.stop is not Stop.NEED_DATA:
                return records, end
            wanted = max(end.size, 2 * size if not end.size else 0)
            if offset + end.size > self.file_end or chunk.stop - PREFIX < size:
                return records, ChainEnd(offset, Stop.CORRUPT, end.size, _cut(end.size))
            size = wanted

    def _fill(self, offset: int, size: int) -> Chunk:
        size = min(size, self.file_end - offset)
        if len(self._octets) - PREFIX < size:
            self._octets = new_buffer(max(size, min(self._read_size, self.file_end - self._base)))
        target = self._octets.data[PREFIX : PREFIX + size]
        return Chunk(self._octets, offset, PREFIX + self._file.read_into(target, offset - self._base))


def _cut(size: int) -> str:
    return f"a record of {size} bytes that goes on behind its file" if size else "the file breaks off"
