"""Log files in memory, as `logcodec` reads them."""

from __future__ import annotations

BLOCK = 64
"""Bytes of which holes are made, as file systems make them of whole blocks."""


class LogOfBytes:
    """A log from offset 0 on.

    - data: what is written
    - file_size: bytes of a file
    - capacity_end: where the last one ends
    """

    def __init__(self, data: bytes, file_size: int, capacity_end: int) -> None:
        self._data = data[:capacity_end].ljust(capacity_end, b"\0")
        self.file_size = file_size
        self.capacity_end = capacity_end

    def read(self, offset: int, size: int) -> bytes:
        """See LogBytes."""
        return self._data[offset : min(offset + size, offset - offset % self.file_size + self.file_size)]

    def data_from(self, offset: int) -> int:
        """See LogBytes."""
        end = offset - offset % self.file_size + self.file_size
        while offset < end and not any(self._data[offset : min(_following(offset), end)]):
            offset = _following(offset)
        return min(offset, end)


def _following(offset: int) -> int:
    """Where the next block begins."""
    return offset - offset % BLOCK + BLOCK
