"""A disk below the file system's seam: what was synced survives a power failure, and chance decides the rest.

Two states of everything: as programs see it (the kernel's page cache), and as it stands on the platter. A
`datasync` brings one file's pages and length over; a `sync_folder` the names made and removed so far. Those
stand in a journal together with the lengths set by `reserve` and `extend`, which keeps their order, as the
journals of ext4 and XFS do. A power failure brings over some more, as the kernel might have done by itself at
any time before: a prefix of the journal, and any of the dirty pages (4 KiB), whole or some of their sectors
(512 bytes), with or without the length that a write beyond the end gives.

A file's creation isn't durable by a `datasync` of the file: POSIX doesn't say so. A sync that fails leaves
pages that count as clean and may be lost all the same, as on Linux.

Errors and failures of power are set to strike at operations counted from now (`strike`): a process dies in the
middle of a step, not between two.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from random import Random
from typing import NoReturn

from zope.interface import implementer

from hatwisted.sim.diskstrike import NEEDS_DESCRIPTOR, NEEDS_ROOM, Strike, Torn
from hatwisted.sim.simclock import PowerLoss
from hatwisted.sim.simfile import SimFile, SimLock
from hatwisted.sim.siminode import Inode
from hatwisted.sim.simnames import NameJournal, Names, folder_of
from hatwisted.sim.trace import Trace
from hatwisted.store.disk.filesystem import LOCK_MARK
from hatwisted.store.errors import StoreLocked
from hatwisted.store.interfaces import IFileSystem

CAPACITY = 1 << 40


class _Inspection:
    """Lasts while somebody looks at a disk: thousands of times in a run, so no generator."""

    def __init__(self) -> None:
        self.under_way = False

    def __enter__(self) -> None:
        self.under_way = True

    def __exit__(self, *_: object) -> None:
        self.under_way = False


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
        self.journal = NameJournal()
        """Names and lengths on their way to the platter."""
        self.names = self.journal.names
        self._inspection = _Inspection()

    # -- what goes wrong -------------------------------------------------------------------------------------

    def strike(self, strike: Strike) -> None:
        """Let that go wrong."""
        self.strikes.append(strike)

    def looked_at(self) -> AbstractContextManager[None]:
        """An inspector looks: nothing goes wrong, and no operation counts."""
        return self._inspection

    def check_power(self) -> None:
        """Raise PowerLoss if there is none."""
        if self.powerless:
            raise PowerLoss

    def meet(self, operation: str, path: str, needed: int = 0) -> None:
        """See Disk."""
        if self.powerless:
            raise PowerLoss
        if self._inspection.under_way:
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
        raise error from Torn(strike.torn)

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
        self.journal.write_back(random)
        for inode in self.names.files.values():
            if inode.dirty or inode.grown:
                inode.write_back(random, kept)

    def reboot(self, random: Random, kept: float) -> None:
        """The power fails and comes back; kept: chance of an unsynced change to be there all the same."""
        self.process_gone()
        self.journal.write_back(random)
        for inode in self.journal.reboot():
            if inode.dirty or inode.doubtful or inode.grown:
                inode.write_back(random, kept)
            inode.reboot()
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
            if not new or folder_of(path) not in self.names.folders:
                raise self._missing(path)
            made = Inode(bytearray(), self.seconds())
            self._change(folder_of(path), f"create {path}", lambda names: names.put(path, made))
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

    def stamp(self, path: str) -> Hashable:
        """See IFileSystem."""
        inode = self._inode(path)
        return inode.mtime, len(inode.data)

    def real_path(self, path: str) -> str:
        """See IFileSystem: this disk has no links."""
        return path.rstrip("/")

    def makedirs(self, path: str) -> None:
        """See IFileSystem."""
        path = path.rstrip("/")
        if path in self.names.folders or not path:
            return
        parent = folder_of(path)
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
        self._change(folder_of(path), f"remove {path}", lambda names: names.drop(path))

    def remove_all(self, folder: str) -> None:
        """An operator removes all files below it."""
        with self.looked_at():
            for path in [path for path in self.names.files if path.startswith(folder)]:
                self.remove(path)

    def replace(self, source: str, target: str) -> None:
        """See IFileSystem."""
        self.meet("replace", target)
        if source not in self.names.files and source not in self.names.folders:
            raise self._missing(source)
        move = f"move {source} {target}"
        self._change(folder_of(target), move, lambda names: names.move(source, target))

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
        self.journal.sync_folder(path)

    def sync_all(self, path: str) -> None:
        """See IFileSystem."""
        self.meet("sync_all", path)
        self.journal.sync()
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
        try:
            if file.pread(len(LOCK_MARK), 0) != LOCK_MARK:
                file.pwrite((LOCK_MARK,), 0)
        finally:
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
        self.journal.change(folder, change)
        self.trace.note(what)

    def set_length(self, path: str, inode: Inode, size: int) -> None:
        """See Disk."""
        self.journal.set_length(inode, size)
        self.trace.note(f"length {path} {size}")
