"""A disk behind the file system's seam that keeps after a power failure what was synced, and chance decides the
rest.

Two states of everything: as programs see it (the kernel's page cache), and as it stands on the platter. A
`datasync` brings one file's pages and length over; a `sync_folder` the names made and removed so far. Those
stand in a journal together with the lengths set by `reserve` and `extend`, which keeps their order, as the
journals of ext4 and XFS do. A power failure brings over some more, as the kernel might have done by itself at
any time before: a beginning of the journal, and any of the dirty pages (4 KiB), whole or some of their sectors
(512 bytes), with or without the length that a write beyond the end gives.

A file's creation isn't durable by a `datasync` of the file: POSIX doesn't say so. A sync that fails leaves
pages that count as clean and may be lost all the same, as on Linux.

Errors and failures of power are set to strike at operations counted from now (`strike`): a process dies in the
middle of a step, not between two.
"""

from __future__ import annotations

import errno
import os
import posixpath
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import NoReturn

import numpy as np
from zope.interface import implementer

from hatwisted.sim.simclock import PowerLoss
from hatwisted.sim.trace import Trace
from hatwisted.store.disk.filesystem import LOCK_MARK
from hatwisted.store.errors import StoreLocked
from hatwisted.store.interfaces import Buffer, Cells, IFile, IFileSystem, ILock, IPages, Longs

PAGE = 4096
SECTOR = 512
"""Bytes that a disk writes whole or not at all."""

TORN = 0.2
"""Chance of a dirty page to be written in part."""

CAPACITY = 1 << 40

NEEDS_ROOM = frozenset(("reserve", "pwrite", "open"))
"""Operations that a full disk refuses, if they need new blocks."""

NEEDS_DESCRIPTOR = frozenset(("open", "listdir", "read", "sync_folder", "sync_all", "lock"))

CHANGES = frozenset(
    "open pwrite reserve extend datasync makedirs remove replace sync_folder sync_all lock".split()
)
"""Operations that make a step of what a program leaves on the disk: a failure of power may strike at each."""


class Inode:
    """One file's bytes. data: as programs see them; stable: as on the platter."""

    __slots__ = ("allocated", "data", "dirty", "doubtful", "grown", "mtime", "stable", "syncs")

    def __init__(self, stable: bytearray, mtime: float) -> None:
        self.stable = stable
        self.data = bytearray(stable)
        self.mtime = mtime
        self.allocated = len(stable)
        """Bytes for which a full disk has room."""
        self.dirty: set[int] = set()
        """Pages that the next sync writes."""
        self.doubtful: set[int] = set()
        """Pages of a sync that failed."""
        self.grown: list[int] = []
        """Lengths that writes beyond the end have given it since the last sync."""
        self.syncs = 0

    def note(self, start: int, end: int) -> None:
        """These bytes were changed."""
        pages = range(start // PAGE, (end + PAGE - 1) // PAGE)
        self.dirty.update(pages)
        self.doubtful.difference_update(pages)

    def grow(self, size: int) -> None:
        """Longer by a write: that length reaches the platter with the bytes, some time."""
        resize(self.data, size)
        self.grown.append(size)

    def sync(self) -> None:
        """Bring everything over but what is in doubt."""
        self.syncs += 1
        self.grown.clear()
        resize(self.stable, len(self.data))
        for page in self.dirty:
            self._bring(page * PAGE, page * PAGE + PAGE)
        self.dirty.clear()

    def sync_failed(self) -> None:
        """The kernel takes its pages for clean from now on."""
        self.doubtful |= self.dirty
        self.dirty.clear()

    def write_back(self, random: Random, kept: float) -> None:
        """What the kernel may have written by itself; kept: the chance of each change."""
        taken = random.randrange(len(self.grown) + 1)
        for size in self.grown[:taken]:
            resize(self.stable, max(size, len(self.stable)))
        del self.grown[:taken]
        for page in sorted(self.dirty | self.doubtful):
            if random.random() >= kept:
                continue
            if random.random() < TORN:
                for sector in range(page * PAGE, page * PAGE + PAGE, SECTOR):
                    if random.random() < 0.5:
                        self._bring(sector, sector + SECTOR)
            else:
                self._bring(page * PAGE, page * PAGE + PAGE)
                self.dirty.discard(page)
                self.doubtful.discard(page)

    def _bring(self, start: int, end: int) -> None:
        end = min(end, len(self.stable), len(self.data))
        if start < end:
            self.stable[start:end] = self.data[start:end]

    def reboot(self) -> None:
        """Programs see what is on the platter."""
        self.data = bytearray(self.stable)
        self.allocated = len(self.stable)
        self.dirty.clear()
        self.doubtful.clear()
        self.grown.clear()


def resize(data: bytearray, size: int) -> None:
    """Cut off, or add zeros."""
    if size > len(data):
        data.extend(bytes(size - len(data)))
    elif size < len(data):
        del data[size:]


class Names:
    """Which file has which name, and which folders there are."""

    def __init__(self) -> None:
        self.files: dict[str, Inode] = {}
        self.folders = {"/"}

    def put(self, path: str, inode: Inode) -> None:
        """`path` names that file."""
        self.files[path] = inode

    def drop(self, path: str) -> None:
        """No such name, file or folder, any more."""
        if self.files.pop(path, None) is None:
            self.folders.discard(path)

    def make_folder(self, path: str) -> None:
        """There is such a folder."""
        self.folders.add(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file, or a folder with all in it."""
        if source in self.files:
            self.files[target] = self.files.pop(source)
        elif source in self.folders:
            self.folders.discard(source)
            self.folders.add(target)
            inner = source + "/"
            for path in [path for path in self.files if path.startswith(inner)]:
                self.files[target + path.removeprefix(source)] = self.files.pop(path)
            for path in [path for path in self.folders if path.startswith(inner)]:
                self.folders.discard(path)
                self.folders.add(target + path.removeprefix(source))

    def copy_from(self, other: Names) -> None:
        """The same names."""
        self.files = dict(other.files)
        self.folders = set(other.folders)


NameChange = tuple[str, str, Callable[[Names], None]]
"""Folder, what happens, and how."""


class Strike:
    """Something that goes wrong at operations counted from now.

    - operations: names of those that count; empty: all that change something
    - path: part of the path
    - after: operations that go well before
    - error: an errno; None: the power fails
    - times: operations that fail
    - torn: share of a write's bytes that are written all the same
    """

    def __init__(
        self,
        operations: Iterable[str] = (),
        path: str = "",
        after: int = 0,
        error: int | None = None,
        times: int = 1,
        torn: float = 0.0,
    ) -> None:
        self.operations = frozenset(operations) or CHANGES
        self.path = path
        self.after = after
        self.error = error
        self.times = times
        self.torn = torn

    def hits(self, operation: str, path: str) -> bool:
        """Is it this one's turn?"""
        if not self.times or operation not in self.operations or self.path not in path:
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


class _Torn(Exception):
    """Behind an error: the share of a write's bytes that are written all the same."""

    def __init__(self, share: float) -> None:
        super().__init__(f"{share:.0%} written")
        self.share = share


@implementer(IPages)
class SimPages:
    """A file's pages in memory."""

    def __init__(self, disk: SimDisk, inode: Inode) -> None:
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
    """One open file of a SimDisk."""

    def __init__(self, disk: SimDisk, path: str, inode: Inode, read_only: bool) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._read_only = read_only
        self._pages: SimPages | None = None

    def pread(self, size: int, offset: int) -> bytes:
        """See IFile."""
        self._disk.meet("pread", self.path)
        return bytes(self._inode.data[offset : offset + size])

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        """See IFile."""
        self._check_writable()
        blob = b"".join(buffers)
        inode = self._inode
        try:
            self._disk.meet("pwrite", self.path, needed=offset + len(blob) - inode.allocated)
        except (OSError, PowerLoss) as error:
            if isinstance(error.__cause__, _Torn):
                self._write(blob[: int(len(blob) * error.__cause__.share)], offset)
            raise
        self._write(blob, offset)
        return len(blob)

    def _write(self, blob: bytes, offset: int) -> None:
        if not blob:
            return
        inode, end = self._inode, offset + len(blob)
        if end > len(inode.data):
            inode.grow(end)
        inode.data[offset:end] = blob
        inode.note(offset, end)
        inode.mtime = self._disk.seconds()
        inode.allocated = max(inode.allocated, end)
        self._disk.trace.note(f"write {self.path} {offset}", blob)

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

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        """See ILock."""
        self._disk.locked.discard(self._path)


@implementer(IFileSystem)
class SimDisk:
    """The disk of one machine. seconds: its clock."""

    def __init__(self, seconds: Callable[[], float], trace: Trace) -> None:
        self.seconds = seconds
        self.trace = trace
        self.full = False
        """Is there no room for new blocks?"""
        self.no_descriptors = False
        """Has the process no file descriptor left?"""
        self.strikes: list[Strike] = []
        self.struck = 0
        """How often a strike has hit."""
        self.powerless = False
        """Has the power failed? Nothing works until `reboot`."""
        self.on_power_loss: Callable[[], None] = lambda: None
        """Told when a strike has taken the power."""
        self.open_files: set[SimFile] = set()
        self.locked: set[str] = set()
        self.names = Names()
        self._stable = Names()
        self._journal: list[NameChange] = []
        self._looked_at = False

    # -- what goes wrong -------------------------------------------------------------------------------------

    def strike(self, strike: Strike) -> None:
        """Let that go wrong."""
        self.strikes.append(strike)

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """An inspector looks: nothing goes wrong, and no operation counts."""
        self._looked_at = True
        try:
            yield
        finally:
            self._looked_at = False

    def check_power(self) -> None:
        """Raise PowerLoss if there is none."""
        if self.powerless:
            raise PowerLoss

    def meet(self, operation: str, path: str, needed: int = 0) -> None:
        """An operation begins; needed: new bytes."""
        self.check_power()
        if self._looked_at:
            return
        for strike in self.strikes:
            if strike.hits(operation, path):
                self.struck += 1
                self.trace.note(f"strike {operation} {path} {strike.error}")
                self._fail(strike, path)
        if self.full and needed > 0 and operation in NEEDS_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if self.no_descriptors and operation in NEEDS_DESCRIPTOR:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    def _fail(self, strike: Strike, path: str) -> NoReturn:
        error: BaseException
        if strike.error is None:
            error = PowerLoss()
            self.powerless = True
            self.on_power_loss()
        else:
            error = OSError(strike.error, os.strerror(strike.error), path)
        raise error from _Torn(strike.torn)

    def flip_bit(self, path: str, bit: int) -> None:
        """A byte at rest changes, unnoticed."""
        inode = self.names.files[path]
        at = bit // 8
        if at < len(inode.stable):
            inode.stable[at] ^= 1 << bit % 8
        if at < len(inode.data):
            inode.data[at] ^= 1 << bit % 8

    def process_gone(self) -> None:
        """The kernel closes what a process had open; the page cache stays."""
        self.open_files.clear()
        self.locked.clear()

    def write_back(self, random: Random, kept: float) -> None:
        """The kernel writes some of what is dirty, by itself."""
        self._commit(random.randrange(len(self._journal) + 1))
        for inode in self.names.files.values():
            if inode.dirty or inode.grown:
                inode.write_back(random, kept)

    def reboot(self, random: Random, kept: float) -> None:
        """The power fails and comes back; kept: chance of an unsynced change to be there all the same."""
        self.process_gone()
        self._commit(random.randrange(len(self._journal) + 1))
        self._journal.clear()
        for inode in {id(inode): inode for inode in self._stable.files.values()}.values():
            if inode.dirty or inode.doubtful or inode.grown:
                inode.write_back(random, kept)
            inode.reboot()
        self.names.copy_from(self._stable)
        self.strikes.clear()
        self.powerless = False

    # -- IFileSystem -----------------------------------------------------------------------------------------

    def open(self, path: str, create: bool = False, read_only: bool = False) -> SimFile:
        """See IFileSystem."""
        inode = self.names.files.get(path)
        new = inode is None and create and not read_only
        self.meet("open", path, needed=1 if new else 0)
        if inode is None:
            if path in self.names.folders:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not new or posixpath.dirname(path) not in self.names.folders:
                raise self._missing(path)
            made = Inode(bytearray(), self.seconds())
            self._change(posixpath.dirname(path), f"create {path}", lambda names: names.put(path, made))
            inode = made
        file = SimFile(self, path, inode, read_only)
        self.open_files.add(file)
        return file

    def listdir(self, path: str) -> list[str]:
        """See IFileSystem."""
        self.meet("listdir", path)
        inner = path.rstrip("/") + "/"
        size = len(inner)
        found = {name[size:] for name in self.names.files if name.startswith(inner)}
        found |= {name[size:] for name in self.names.folders if name.startswith(inner)}
        return sorted(name for name in found if name and "/" not in name)

    def exists(self, path: str) -> bool:
        """See IFileSystem."""
        self.check_power()
        return path in self.names.files or path.rstrip("/") in self.names.folders

    def size(self, path: str) -> int:
        """See IFileSystem."""
        return len(self._inode(path).data)

    def mtime(self, path: str) -> float:
        """See IFileSystem."""
        return self._inode(path).mtime

    def real_path(self, path: str) -> str:
        """See IFileSystem: this disk has no links."""
        return path.rstrip("/")

    def makedirs(self, path: str) -> None:
        """See IFileSystem."""
        path = path.rstrip("/")
        if path in self.names.folders or not path:
            return
        parent = posixpath.dirname(path)
        self.makedirs(parent)
        self.meet("makedirs", path)
        self._change(parent, f"mkdir {path}", lambda names: names.make_folder(path))

    def remove(self, path: str) -> None:
        """See IFileSystem."""
        self.meet("remove", path)
        if path not in self.names.files:
            if path not in self.names.folders:
                return
            if self._within(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._change(posixpath.dirname(path), f"remove {path}", lambda names: names.drop(path))

    def replace(self, source: str, target: str) -> None:
        """See IFileSystem."""
        self.meet("replace", target)
        if source not in self.names.files and source not in self.names.folders:
            raise self._missing(source)
        move = f"move {source} {target}"
        self._change(posixpath.dirname(target), move, lambda names: names.move(source, target))

    def read(self, path: str) -> bytes:
        """See IFileSystem."""
        self.meet("read", path)
        return bytes(self._inode(path).data)

    def sync_folder(self, path: str) -> None:
        """See IFileSystem. The journal keeps its order: what came before the folder's last change is durable
        too."""
        self.meet("sync_folder", path)
        path = path.rstrip("/") or "/"
        if path not in self.names.folders:
            raise self._missing(path)
        last = max((at for at, (folder, _, _) in enumerate(self._journal) if folder == path), default=-1)
        self._commit(last + 1)

    def sync_all(self, path: str) -> None:
        """See IFileSystem."""
        self.meet("sync_all", path)
        self._commit(len(self._journal))
        for inode in self.names.files.values():
            if inode.dirty or inode.grown:
                inode.sync()
        self.trace.note("sync all")

    def usage(self, path: str) -> tuple[int, int]:
        """See IFileSystem."""
        self.meet("usage", path)
        return CAPACITY, 0 if self.full else CAPACITY // 2

    def lock(self, path: str) -> SimLock:
        """See IFileSystem."""
        if path in self.locked:
            raise StoreLocked(f"{path} is held by another process; one store folder serves one broker")
        self.meet("lock", path)
        file = self.open(path, create=True)
        if file.pread(len(LOCK_MARK), 0) != LOCK_MARK:
            file.pwrite((LOCK_MARK,), 0)
        file.close()
        self.locked.add(path)
        return SimLock(self, path)

    def _within(self, folder: str) -> bool:
        inner = folder + "/"
        return any(path.startswith(inner) for path in (*self.names.files, *self.names.folders))

    def _inode(self, path: str) -> Inode:
        self.check_power()
        try:
            return self.names.files[path]
        except KeyError:
            raise self._missing(path) from None

    def _missing(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _change(self, folder: str, what: str, change: Callable[[Names], None]) -> None:
        change(self.names)
        self._journal.append((folder, what, change))
        self.trace.note(what)

    def set_length(self, path: str, inode: Inode, size: int) -> None:
        """Cut a file, or add zeros."""
        resize(inode.data, size)
        syncs = inode.syncs

        def reach(_: Names) -> None:
            if inode.syncs == syncs:
                resize(inode.stable, size)

        self._journal.append(("", f"length of {path}", reach))
        self.trace.note(f"length {path} {size}")

    def _commit(self, count: int) -> None:
        for _, _, change in self._journal[:count]:
            change(self._stable)
        del self._journal[:count]
