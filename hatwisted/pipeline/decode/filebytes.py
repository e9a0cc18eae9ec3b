"""One open log file by physical offsets, as `logcodec` reads logs, into a buffer that is used again and again."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from hatwisted.pipeline.decode.storebytes import LogBytes, read
from hatwisted.wire import layout

PREFIX: Final = 16
"""Bytes before every buffer's contents: zeros, and the end of a property as the last."""


def new_buffer(size: int) -> npt.NDArray[np.uint8]:
    """Room for `size` bytes after a prefix."""
    octets = np.empty(PREFIX + size, np.uint8)
    octets[:PREFIX] = 0
    octets[PREFIX - 1] = layout.PAIR_END
    return octets


class FileBytes:
    """One file as bytes of the log.

    - file: open
    - base: its first byte's physical offset
    - file_size: bytes per file of this log
    """

    def __init__(self, file: LogBytes, base: int, file_size: int) -> None:
        self._file = file
        self._base = base
        self._octets = new_buffer(0)
        self.file_size = file_size
        self.capacity_end = base + file_size

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the file's end."""
        return read(self._file, offset - self._base, size)

    def data_from(self, offset: int) -> int:
        """See LogBytes; an object store has no holes."""
        return offset

    def fill(self, offset: int, size: int) -> tuple[memoryview, int]:
        """The same in the buffer, after its prefix; valid until the next call."""
        if len(self._octets) - PREFIX < size:
            self._octets = new_buffer(size)
        target = self._octets.data[PREFIX : PREFIX + size]
        return self._octets.data[: PREFIX + self._file.read_into(target, offset - self._base)], PREFIX
