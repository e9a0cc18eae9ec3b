"""The real disk behind `IFileSystem`: positional system calls on plain descriptors.

`pread` and `pwritev` carry their own offset, so a file has no position to share or to lose, and they run
without the interpreter lock. A memory mapping was rejected for data: a page fault holds the interpreter lock
while the disk works, and a full disk under a sparse mapping is a SIGBUS that kills the process instead of an
ENOSPC that one put can be answered with. `pages` are there for the index, whose blocks are reserved first.

Locks are POSIX record locks, because a JVM's `FileChannel.lock` is one and `flock` wouldn't see it. Such a
lock belongs to the process, not to the descriptor: a second lock of the same process succeeds, and closing
*any* descriptor of the file gives the lock up. Hence the registry of locked inodes, which is asked before the
file is even opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import stat
import struct
import sys
import threading
from collections.abc import Hashable, Sequence

import numpy as np
from zope.interface import implementer

from hatwisted.store.disk.sparedescriptors import SPARES
from hatwisted.store.errors import StoreLocked
from hatwisted.store.interfaces import Buffer, Cells, IFile, IFileSystem, ILock, IPages, Longs, Outlet
from hatwisted.wire.storenames import LOST_AND_FOUND

IOV_LIMIT = 1024
"""Buffers per pwritev: Linux's UIO_MAXIOV; more is EINVAL."""

ZERO_CHUNK = 1 << 20
"""Bytes per write when blocks must be reserved by writing zeros; bounds the memory that takes."""

FILE_MODE = 0o666
FOLDER_MODE = 0o777
PRIVATE = 0o077
"""The mask of both unless an operator says otherwise: messages and accounts are their owner's."""

LOCK_MARK = b"lock"
"""Content of a lock file, as RocketMQ writes it."""

_FLOCK = struct.Struct("hhqqi0q")
"""Linux's `struct flock` on 64 bits: type, whence, start, length, pid."""


@implementer(IPages)
class MappedPages:
    """A shared mapping of a whole file. Pages that are still looked at when it's closed (by a numpy array) go when
    the last look does."""

    def __init__(self, fd: int) -> None:
        self._mapping = mmap.mmap(fd, 0)
        self._writable = memoryview(self._mapping)
        self.view = self._writable.toreadonly()

    def write(self, at: int, data: Buffer) -> None:
        """See IPages."""
        self._writable[at : at + len(data)] = data

    def pack(self, layout: struct.Struct, at: int, *values: int) -> None:
        """See IPages."""
        layout.pack_into(self._writable, at, *values)

    def write_cells(self, at: int, numbers: Longs, values: Cells) -> None:
        """See IPages."""
        cells = np.frombuffer(self._writable, values.dtype, offset=at, count=self._whole_cells(at, values))
        cells[numbers] = values

    def _whole_cells(self, at: int, values: Cells) -> int:
        return (len(self._writable) - at) // values.dtype.itemsize

    def close(self) -> None:
        """Let go of it."""
        with contextlib.suppress(BufferError):
            self.view.release()
            self._writable.release()
            self._mapping.close()


@implementer(IFile)
class PosixFile:
    """One descriptor. Reads and writes belong to one thread; `datasync` may run in another, even while the
    file is being closed: the descriptor is then given back only when the sync has finished with it."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self._guard = threading.Lock()
        self._syncs = 0
        self._closed = False
        self._pages: MappedPages | None = None

    def pread(self, size: int, offset: int) -> bytes:
        """See IFile."""
        return os.pread(self._fd, size, offset)

    def send(self, socket: Outlet, offset: int, size: int) -> int:
        """See IFile."""
        number = socket.fileno()
        if number < 0:
            return socket.send(self.pread(size, offset))
        return os.sendfile(number, self._fd, offset, size)

    def data_from(self, offset: int) -> int:
        """See IFile."""
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return max(offset, os.fstat(self._fd).st_size)
            if error.errno == errno.EINVAL:
                return offset
            raise

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        """See IFile. Buffers are counted in bytes: a memoryview must have one-byte items."""
        total = sum(map(len, buffers))
        if total and len(buffers) <= IOV_LIMIT and os.pwritev(self._fd, buffers, offset) == total:
            return total
        # More than one call takes, or the kernel took only a part: the same bytes again, piece by piece.
        for first in range(0, len(buffers), IOV_LIMIT):
            offset += self._write_all(buffers[first : first + IOV_LIMIT], offset)
        return total

    def _write_all(self, buffers: Sequence[Buffer], offset: int) -> int:
        pending = [memoryview(buffer) for buffer in buffers if len(buffer)]
        done = 0
        while pending:
            written = os.pwritev(self._fd, pending, offset + done)
            if written == 0:
                raise OSError(errno.EIO, "a write made no progress", self._path)
            done += written
            while pending and written >= len(pending[0]):
                written -= len(pending.pop(0))
            if written:
                pending[0] = pending[0][written:]
        return done

    def reserve(self, size: int) -> None:
        """See IFile. Where the file system can't reserve, zeros are written from the present end on."""
        try:
            os.posix_fallocate(self._fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            self._fill(size)

    def _fill(self, size: int) -> None:
        offset = os.fstat(self._fd).st_size
        zeros = bytes(min(ZERO_CHUNK, max(0, size - offset)))
        while offset < size:
            offset += self.pwrite((memoryview(zeros)[: size - offset],), offset)

    def extend(self, size: int) -> None:
        """See IFile."""
        os.ftruncate(self._fd, size)

    def datasync(self) -> None:
        """See IFile. ValueError if the file was closed before."""
        fd = self._begin_sync()
        try:
            os.fdatasync(fd)
        finally:
            self._end_sync(fd)

    def _begin_sync(self) -> int:
        with self._guard:
            if self._closed:
                raise ValueError(f"{self._path} is closed")
            self._syncs += 1
            return self._fd

    def _end_sync(self, fd: int) -> None:
        with self._guard:
            self._syncs -= 1
            if self._closed and not self._syncs:
                os.close(fd)

    def pages(self) -> MappedPages:
        """See IFile."""
        if self._pages is None:
            self._pages = MappedPages(self._fd)
        return self._pages

    def close(self) -> None:
        """See IFile."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            # A number the kernel may have given to another file by then must not be used by mistake.
            fd, self._fd = self._fd, -1
            if not self._syncs:
                os.close(fd)
        if self._pages is not None:
            self._pages.close()
            self._pages = None


_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
"""Linux's syncfs(2), which the os module lacks; like every foreign call it's made without the interpreter
lock."""

_locks_guard = threading.Lock()
_locked_inodes: set[tuple[int, int]] = set()
"""(device, inode) of every lock this process holds: process-wide because the kernel's locks are."""


@implementer(ILock)
class PosixLock:
    """A held record lock on byte 0 of a file."""

    def __init__(self, fd: int, inode: tuple[int, int]) -> None:
        self._fd = fd
        self._inode = inode

    def release(self) -> None:
        """See ILock."""
        with _locks_guard:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
                _locked_inodes.discard(self._inode)


def lock_holder(fd: int) -> int | None:
    """Pid of the process whose record lock on byte 0 is in the way, if the system says."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        raw = fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        kind, _, _, _, pid = _FLOCK.unpack(raw)
    except (OSError, struct.error):
        return None
    # pid is 0 or -1 for a holder in another pid namespace or on another host.
    return int(pid) if kind != fcntl.F_UNLCK and pid > 0 else None


def _refuse(path: str, holder: str) -> StoreLocked:
    return StoreLocked(f"{path} is held by {holder}; one store folder serves one broker: stop that one first")


@implementer(IFileSystem)
class PosixFileSystem:
    """Files of this machine. Stateless but for the process-wide locks.

    umask: permissions that new files and folders don't get; the process's own mask counts as well
    """

    def __init__(self, umask: int = PRIVATE) -> None:
        self._file_mode = FILE_MODE & ~umask
        self._folder_mode = FOLDER_MODE & ~umask

    def open(self, path: str, create: bool = False, read_only: bool = False) -> IFile:
        """See IFileSystem. `read_only` wins over `create`: looking never makes a file."""
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        if create and not read_only:
            flags |= os.O_CREAT
        return PosixFile(os.open(path, flags, self._file_mode), path)

    def listdir(self, path: str) -> list[str]:
        """See IFileSystem."""
        try:
            return sorted(name for name in os.listdir(path) if name != LOST_AND_FOUND)
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        """See IFileSystem."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """See IFileSystem."""
        return os.stat(path).st_size

    def mtime(self, path: str) -> float:
        """See IFileSystem."""
        return os.stat(path).st_mtime

    def stamp(self, path: str) -> Hashable:
        """See IFileSystem. Size and time of writing can be those of before; the time of change can't be set."""
        found = os.stat(path)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def real_path(self, path: str) -> str:
        """See IFileSystem."""
        return os.path.realpath(path)

    def makedirs(self, path: str) -> None:
        """See IFileSystem."""
        try:
            os.mkdir(path, self._folder_mode)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        except FileNotFoundError:
            parent = os.path.dirname(path)
            if not parent or os.path.exists(parent):
                raise
            self.makedirs(parent)
            self.makedirs(path)

    def remove(self, path: str) -> None:
        """See IFileSystem."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            # Unlinking a folder is EISDIR on Linux and EPERM elsewhere.
            if not os.path.isdir(path):
                raise
            os.rmdir(path)

    def replace(self, source: str, target: str) -> None:
        """See IFileSystem."""
        with contextlib.suppress(FileNotFoundError):
            os.chmod(source, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(source, target)

    def read(self, path: str) -> bytes:
        """See IFileSystem."""
        with open(path, "rb") as file:
            return file.read()

    def sync_folder(self, path: str) -> None:
        """See IFileSystem."""
        with SPARES.folder(path or ".") as fd:
            os.fsync(fd)

    def sync_all(self, path: str) -> None:
        """See IFileSystem. Where there's no syncfs, every file system of the machine is synced."""
        if _syncfs is None:
            os.sync()
            return
        with SPARES.folder(path) as fd:
            if _syncfs(fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)

    def usage(self, path: str) -> tuple[int, int]:
        """See IFileSystem. As in `df`, blocks kept back for root count neither as ours nor as free, so that
        free = 0 exactly when our next write fails."""
        status = os.statvfs(path)
        used = status.f_blocks - status.f_bfree
        return (used + status.f_bavail) * status.f_frsize, status.f_bavail * status.f_frsize

    def lock(self, path: str) -> ILock:
        """See IFileSystem. While it's held, nothing in this process may open and close `path` otherwise."""
        SPARES.hold()
        with _locks_guard:
            # Looked up by name first: opening and closing a file we hold would give our lock up.
            if self._inode_of(path) in _locked_inodes:
                raise _refuse(path, f"this process (pid {os.getpid()})")
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._file_mode)
            try:
                self._acquire(fd, path)
                if os.pread(fd, len(LOCK_MARK), 0) != LOCK_MARK:
                    os.pwrite(fd, LOCK_MARK, 0)
                status = os.fstat(fd)
            except BaseException:
                os.close(fd)
                raise
            inode = (status.st_dev, status.st_ino)
            _locked_inodes.add(inode)
            return PosixLock(fd, inode)

    def _inode_of(self, path: str) -> tuple[int, int] | None:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _acquire(self, fd: int, path: str) -> None:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            pid = lock_holder(fd)
            raise _refuse(path, f"process {pid}" if pid else "another process") from error
