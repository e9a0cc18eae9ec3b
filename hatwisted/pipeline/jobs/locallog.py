"""The files of one store's log as a stream of bytes, for tasks: opened where they run, a few at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from hatwisted.logcodec.recordsearch import RecordSearch
from hatwisted.pipeline.decode.storefolder import LogFile
from hatwisted.pipeline.errors import PipelineError

OPEN_FILES: Final = 4
"""Descriptors kept by one reader: a task goes through the files in order, and now and then looks back."""


class LocalLog:
    """Reads a store's log. Not thread-safe; close it.

    Files are opened by path on the machine that runs the task. PipelineError for paths with a scheme: comparing
    and rebuilding read everything, which is to be done where the files are.
    """

    def __init__(self, files: Sequence[LogFile]) -> None:
        if "://" in files[0].path:
            raise PipelineError(f"{files[0].path}: give a path that all workers have mounted")
        self._paths = {file.base: file.path for file in files}
        self._fds: dict[int, int] = {}
        self.file_size = files[0].size
        self.capacity_end = files[-1].base + files[-1].size

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at a file's end; b"" where there's no file."""
        base = offset - offset % self.file_size
        fd = self._fd(base)
        return os.pread(fd, size, offset - base) if fd >= 0 else b""

    def data_from(self, offset: int) -> int:
        """See LogBytes."""
        return offset

    def read_into(self, target: memoryview, offset: int) -> int:
        """Fill `target` with the bytes at `offset`; how many there were, fewer only at a file's end."""
        base = offset - offset % self.file_size
        fd = self._fd(base)
        return os.preadv(fd, [target], offset - base) if fd >= 0 else 0

    def search(self, offset: int, end: int) -> RecordSearch:
        """What finds records in the file that `offset` is in; end: of the log."""
        return RecordSearch(self, offset, min(end, offset - offset % self.file_size + self.file_size))

    def _fd(self, base: int) -> int:
        fd = self._fds.get(base)
        return self._open(base) if fd is None else fd

    def _open(self, base: int) -> int:
        path = self._paths.get(base)
        if path is None:
            return -1
        if len(self._fds) >= OPEN_FILES:
            os.close(self._fds.pop(next(iter(self._fds))))
        try:
            fd = self._fds[base] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise PipelineError(f"{path}: {error.strerror}; it was there when the job began") from error
        return fd

    def close(self) -> None:
        """Close all files."""
        while self._fds:
            os.close(self._fds.popitem()[1])
