"""The files of one store's log as a stream of bytes, for tasks: opened where they run, a file at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from hatwisted.pipeline.decode.storefolder import LogFile

OPEN_FILES: Final = 4
"""Descriptors kept by one reader: a task goes through the files in order, and now and then looks back."""


class StoreBytes:
    """Reads a store's log. Not thread-safe; close it."""

    def __init__(self, files: Sequence[LogFile]) -> None:
        self._paths = {file.base: file.path for file in files}
        self._fds: dict[int, int] = {}
        self.file_size = files[0].size
        self.capacity_end = files[-1].base + files[-1].size

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at a file's end; b"" where there's no file."""
        base = offset - offset % self.file_size
        fd = self._fds.get(base)
        if fd is None:
            fd = self._open(base)
        return os.pread(fd, size, offset - base) if fd >= 0 else b""

    def _open(self, base: int) -> int:
        path = self._paths.get(base)
        if path is None:
            return -1
        if len(self._fds) >= OPEN_FILES:
            os.close(self._fds.pop(next(iter(self._fds))))
        fd = self._fds[base] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return fd

    def close(self) -> None:
        """Close all files."""
        while self._fds:
            os.close(self._fds.popitem()[1])
