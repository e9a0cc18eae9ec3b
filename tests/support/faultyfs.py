"""A file system with faults on order: the real one underneath, and errors, torn writes and stalls where a
test asks for them.

fs = FaultyFileSystem() fs.fail("pwrite", error=errno.ENOSPC, path="commitlog", nth=3, partial=100)   # third
write: 100 bytes, error fs.fail("datasync", error=errno.EIO, times=None)                              # every
sync, until lifted with fs.stall("datasync") as stall: ...                                       # syncs block
until it ends fs.set_usage(total=1000, free=90)                                             # what `usage`
answers fs.count("datasync", "commitlog")                                             # calls so far

A fault counts the calls that match its name and path from the moment it's ordered. Usable from several
threads.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Hashable, Sequence
from types import TracebackType
from typing import NamedTuple

from zope.interface import implementer

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.interfaces import Buffer, IFile, IFileSystem, ILock, IPages, Outlet

STALL_LIMIT = 50.0
"""Seconds a stalled call waits at most: a test that forgets to end its stall fails instead of hanging."""

OPERATIONS = frozenset(
    "open pread send pwrite reserve extend datasync pages listdir exists size mtime stamp makedirs remove replace "
    "read sync_folder sync_all usage lock".split()
)


class Call(NamedTuple):
    """One call as it arrived: operation, path, bytes asked for (0 where that has no meaning)."""

    operation: str
    path: str
    size: int


class Fault:
    """One ordered error. `hits`: how often it has struck; `lift()` ends it."""

    def __init__(
        self, operation: str, path: str, nth: int, times: int | None, error: int, partial: int
    ) -> None:
        self.operation = operation
        self.path = path
        self.first = nth
        self.last = None if times is None else nth + times - 1
        self.error = error
        self.partial = partial
        self.seen = 0
        self.hits = 0

    def lift(self) -> None:
        """Strike no more."""
        self.last = 0

    def strikes(self, call: Call) -> bool:
        """Count a matching call; is it one to fail?"""
        if call.operation != self.operation or self.path not in call.path:
            return False
        self.seen += 1
        if self.seen < self.first or (self.last is not None and self.seen > self.last):
            return False
        self.hits += 1
        return True

    def raise_for(self, path: str) -> None:
        """The ordered error."""
        raise OSError(self.error, os.strerror(self.error), path)


class Stall:
    """Matching calls block from the moment it's made until `end`. `entered` is set when the first one
    waits."""

    def __init__(self, operation: str, path: str) -> None:
        self.operation = operation
        self.path = path
        self.entered = threading.Event()
        self._over = threading.Event()

    def end(self) -> None:
        """Let all of them go on."""
        self._over.set()

    def pass_through(self, call: Call) -> None:
        """Wait here if `call` is one to hold."""
        if call.operation == self.operation and self.path in call.path and not self._over.is_set():
            self.entered.set()
            if not self._over.wait(STALL_LIMIT):
                raise AssertionError(f"nobody ended the stall of {call}")

    def __enter__(self) -> Stall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


@implementer(IFile)
class FaultyFile:
    """A file of a FaultyFileSystem."""

    def __init__(self, inner: IFile, fs: FaultyFileSystem, path: str) -> None:
        self._inner = inner
        self._fs = fs
        self._path = path

    def pread(self, size: int, offset: int) -> bytes:
        self._fs.meet("pread", self._path, size)
        return self._inner.pread(size, offset)

    def send(self, socket: Outlet, offset: int, size: int) -> int:
        self._fs.meet("send", self._path, size)
        return self._inner.send(socket, offset, size)

    def data_from(self, offset: int) -> int:
        self._fs.meet("pread", self._path)
        return self._inner.data_from(offset)

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        fault = self._fs.meet("pwrite", self._path, sum(map(len, buffers)), may_tear=True)
        if fault is None:
            return self._inner.pwrite(buffers, offset)
        self._inner.pwrite((b"".join(buffers)[: fault.partial],), offset)
        fault.raise_for(self._path)
        raise AssertionError("unreachable")

    def reserve(self, size: int) -> None:
        self._fs.meet("reserve", self._path, size)
        self._inner.reserve(size)

    def extend(self, size: int) -> None:
        self._fs.meet("extend", self._path, size)
        self._inner.extend(size)

    def datasync(self) -> None:
        self._fs.meet("datasync", self._path)
        self._inner.datasync()

    def pages(self) -> IPages:
        self._fs.meet("pages", self._path)
        return self._inner.pages()

    def close(self) -> None:
        self._inner.close()


@implementer(IFileSystem)
class FaultyFileSystem:
    """Wraps `inner` (by default the real file system). `calls`: everything asked of it, in order."""

    def __init__(self, inner: IFileSystem | None = None) -> None:
        self._inner = PosixFileSystem() if inner is None else inner
        self._guard = threading.Lock()
        self._faults: list[Fault] = []
        self._stalls: list[Stall] = []
        self._usage: tuple[int, int] | None = None
        self.calls: list[Call] = []

    # -- what a test orders ----------------------------------------------------------------------------------

    def fail(
        self,
        operation: str,
        *,
        error: int = errno.EIO,
        path: str = "",
        nth: int = 1,
        times: int | None = 1,
        partial: int = 0,
    ) -> Fault:
        """Fail the nth matching call from now on, and the following ones up to `times` (None: until lifted).
        path: part of the path; partial: bytes a failing pwrite still writes."""
        self._check(operation)
        fault = Fault(operation, path, nth, times, error, partial)
        with self._guard:
            self._faults.append(fault)
        return fault

    def stall(self, operation: str, path: str = "") -> Stall:
        """Hold matching calls; use it as a context manager, with the calls in another thread."""
        self._check(operation)
        stall = Stall(operation, path)
        with self._guard:
            self._stalls.append(stall)
        return stall

    def set_usage(self, total: int, free: int) -> None:
        """Let `usage` answer this for every path."""
        self._usage = total, free

    def count(self, operation: str, path: str = "") -> int:
        """How many calls there were."""
        self._check(operation)
        return sum(call.operation == operation and path in call.path for call in list(self.calls))

    def _check(self, operation: str) -> None:
        if operation not in OPERATIONS:
            raise ValueError(f"{operation!r} is no operation of a file system")

    # -- what the files ask ----------------------------------------------------------------------------------

    def meet(self, operation: str, path: str, size: int = 0, *, may_tear: bool = False) -> Fault | None:
        """Record a call, hold it, fail it. A fault is returned, not raised, if the caller can tear."""
        call = Call(operation, path, size)
        with self._guard:
            self.calls.append(call)
            stalls = list(self._stalls)
            struck = [fault for fault in self._faults if fault.strikes(call)]
        for stall in stalls:
            stall.pass_through(call)
        if not struck:
            return None
        if not may_tear:
            struck[0].raise_for(path)
        return struck[0]

    # -- IFileSystem -----------------------------------------------------------------------------------------

    def open(self, path: str, create: bool = False, read_only: bool = False) -> IFile:
        self.meet("open", path)
        return FaultyFile(self._inner.open(path, create, read_only), self, path)

    def listdir(self, path: str) -> list[str]:
        self.meet("listdir", path)
        return self._inner.listdir(path)

    def exists(self, path: str) -> bool:
        self.meet("exists", path)
        return self._inner.exists(path)

    def size(self, path: str) -> int:
        self.meet("size", path)
        return self._inner.size(path)

    def mtime(self, path: str) -> float:
        self.meet("mtime", path)
        return self._inner.mtime(path)

    def stamp(self, path: str) -> Hashable:
        self.meet("stamp", path)
        return self._inner.stamp(path)

    def real_path(self, path: str) -> str:
        return self._inner.real_path(path)

    def makedirs(self, path: str) -> None:
        self.meet("makedirs", path)
        self._inner.makedirs(path)

    def remove(self, path: str) -> None:
        self.meet("remove", path)
        self._inner.remove(path)

    def replace(self, source: str, target: str) -> None:
        self.meet("replace", target)
        self._inner.replace(source, target)

    def read(self, path: str) -> bytes:
        self.meet("read", path)
        return self._inner.read(path)

    def sync_folder(self, path: str) -> None:
        self.meet("sync_folder", path)
        self._inner.sync_folder(path)

    def sync_all(self, path: str) -> None:
        self.meet("sync_all", path)
        self._inner.sync_all(path)

    def usage(self, path: str) -> tuple[int, int]:
        self.meet("usage", path)
        return self._inner.usage(path) if self._usage is None else self._usage

    def lock(self, path: str) -> ILock:
        self.meet("lock", path)
        return self._inner.lock(path)
