"""Open files of a simulated disk: what reaches its inodes, and what a strike leaves of it."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from zope.interface import implementer

from hatwisted.sim.diskstrike import Torn
from hatwisted.sim.simclock import PowerLoss
from hatwisted.sim.siminode import Inode
from hatwisted.sim.trace import Trace
from hatwisted.store.interfaces import Buffer, Cells, IFile, ILock, IPages, Longs, Outlet

FEW = 1 << 12
"""Bytes that are as cheap to copy twice as to look at."""


class Disk(Protocol):
    """Where files are; see `SimDisk`."""

    seconds: Callable[[], float]
    trace: Trace
    open_files: set[SimFile]
    locked: set[str]

    def check_power(self) -> None:
        """Raise PowerLoss if there is none."""

    def meet(self, operation: str, path: str, needed: int = 0) -> None:
        """An operation begins.

        - operation: its name, as strikes have it
        - path: of the file
        - needed: new bytes
        """

    def set_length(self, path: str, inode: Inode, size: int) -> None:
        """Cut a file, or add zeros.

        - path: its name
        - inode: the file itself
        - size: its new one, in bytes
        """


@implementer(IPages)
class SimPages:
    """A file's pages in memory."""

    def __init__(self, disk: Disk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._writable = memoryview(inode.data)
        self.view = self._writable.toreadonly()

    def write(self, at: int, data: Buffer) -> None:
        """See IPages."""
        self._disk.check_power()
        self._writable[at : at + len(data)] = data
        self._inode.note(at, at + len(data))

    def pack(self, layout: struct.Struct, at: int, *values: int) -> None:
        """See IPages."""
        self._disk.check_power()
        layout.pack_into(self._writable, at, *values)
        self._inode.note(at, at + layout.size)

    def write_cells(self, at: int, numbers: Longs, values: Cells) -> None:
        """See IPages."""
        self._disk.check_power()
        width = values.dtype.itemsize
        count = (len(self._writable) - at) // width
        cells = np.frombuffer(self._writable, values.dtype, offset=at, count=count)
        cells[numbers] = values
        for first in (at + numbers * width).tolist():
            self._inode.note(first, first + width)


@implementer(IFile)
class SimFile:
    """One open file of a SimDisk.

    - disk: that it's on
    - path: by which it was opened
    - inode: the file itself
    - read_only: are writes refused?
    """

    def __init__(self, disk: Disk, path: str, inode: Inode, read_only: bool) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._read_only = read_only
        self._pages: SimPages | None = None

    def pread(self, size: int, offset: int) -> bytes:
        """See IFile."""
        self._disk.meet("pread", self.path)
        data = self._inode.data
        if size < FEW:
            return bytes(data[offset : offset + size])
        with memoryview(data) as view:  # one copy less
            return bytes(view[offset : offset + size])

    def send(self, socket: Outlet, offset: int, size: int) -> int:
        """See IFile."""
        return socket.send(self.pread(size, offset))

    def data_from(self, offset: int) -> int:
        """See IFile."""
        self._disk.meet("pread", self.path)
        return offset

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        """See IFile."""
        self._check_writable()
        blob = b"".join(buffers)
        inode = self._inode
        try:
            self._disk.meet("pwrite", self.path, needed=offset + len(blob) - inode.allocated)
        except (OSError, PowerLoss) as error:
            if isinstance(error.__cause__, Torn):
                self._write(blob[: int(len(blob) * error.__cause__.share)], offset)
            raise
        self._write(blob, offset)
        return len(blob)

    def _write(self, blob: bytes, offset: int) -> None:
        if not blob:
            return
        disk, inode, end = self._disk, self._inode, offset + len(blob)
        if end > len(inode.data):
            inode.grow(end)
        inode.data[offset:end] = blob
        inode.note(offset, end)
        inode.mtime = disk.seconds()
        if end > inode.allocated:
            inode.allocated = end
        disk.trace.note(f"write {self.path} {offset}", blob)

    def reserve(self, size: int) -> None:
        """See IFile."""
        self._check_writable()
        inode = self._inode
        self._disk.meet("reserve", self.path, needed=size - inode.allocated)
        inode.allocated = max(inode.allocated, size)
        if size > len(inode.data):
            self._disk.set_length(self.path, inode, size)

    def extend(self, size: int) -> None:
        """See IFile."""
        self._check_writable()
        self._disk.meet("extend", self.path)
        if size != len(self._inode.data):
            self._disk.set_length(self.path, self._inode, size)
            self._inode.allocated = min(self._inode.allocated, size)

    def datasync(self) -> None:
        """See IFile."""
        try:
            self._disk.meet("datasync", self.path)
        except OSError as error:
            if error.errno == errno.EIO:
                self._inode.sync_failed()
            raise
        self._inode.sync()
        self._disk.trace.note(f"sync {self.path}")

    def pages(self) -> SimPages:
        """See IFile."""
        if self._pages is None:
            self._disk.meet("pages", self.path)
            self._pages = SimPages(self._disk, self._inode)
        return self._pages

    def close(self) -> None:
        """See IFile."""
        self._pages = None
        self._disk.open_files.discard(self)

    def _check_writable(self) -> None:
        if self._read_only:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)


@implementer(ILock)
class SimLock:
    """A held lock."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        """See ILock."""
        self._disk.locked.discard(self._path)
