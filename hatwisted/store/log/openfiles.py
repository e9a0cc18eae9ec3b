"""Open files by path, up to a limit; beyond it the least recently used one is closed."""

from __future__ import annotations

from collections import OrderedDict

from hatwisted.store.disk.sparedescriptors import OUT_OF_DESCRIPTORS
from hatwisted.store.interfaces import IFile, IFileSystem

OPEN_FILE_LIMIT = 512
"""Descriptors that one file queue keeps open by itself: half a terabyte of commit log within reach of a
pread, and half of the usual limit of 1024 descriptors per process left for sockets."""


class OpenFiles:
    """Open files by path. `get` belongs to one thread, `peek` may be called from others.

    - fs: the disk
    - limit: files open at a time
    - read_only: how they are opened
    """

    def __init__(self, fs: IFileSystem, limit: int = OPEN_FILE_LIMIT, read_only: bool = False) -> None:
        self._fs = fs
        self._limit = limit
        self._read_only = read_only
        self._files: OrderedDict[str, IFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> IFile:
        """The open file; opened if need be, and then the least recently used one may be closed."""
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        if len(self._files) >= self._limit:
            self._close_oldest(1)
        try:
            file = self._fs.open(path, read_only=self._read_only)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS or not self._files:
                raise
            self._close_oldest(len(self._files) // 2 + 1)
            file = self._fs.open(path, read_only=self._read_only)
        self._files[path] = file
        return file

    def peek(self, path: str) -> IFile | None:
        """The file if it happens to be open."""
        return self._files.get(path)

    def forget(self, path: str) -> None:
        """Close it if it's open."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def _close_oldest(self, count: int) -> None:
        for _ in range(count):
            _, file = self._files.popitem(last=False)
            file.close()
