"""The seams of the store: what a simulation replaces (disk, threads) and what the HA link sees of the log.

Kept narrow on purpose, so that a test can replace them: by a disk that fills up, tears writes, fails and stalls
(`tests/support/faultyfs.py`), by one that forgets what wasn't synced when the power fails (`sim/simdisk.py`), or
by a log in memory for the HA link. Time comes from Twisted's own `IReactorTime` (seconds and callLater); there
is no clock interface of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from struct import Struct
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from zope.interface import Attribute, Interface

Buffer = bytes | bytearray | memoryview
Longs = npt.NDArray[np.int64]
Cells = npt.NDArray[Any]
LocalTime = Callable[[float], datetime]
"""Seconds since the epoch as a host's wall clock shows them."""

AppendListener = Callable[[int, bytes], None]


class GrownQueue(Protocol):
    """A consume queue that has new entries."""

    topic: str
    queue_id: int
    max_offset: int


ArrivalListener = Callable[[Sequence[GrownQueue]], None]
"""Told of queues that have grown; one may come more than once."""


class IPages(Interface):
    """A file's pages in memory. These calls alone change them, so that whoever keeps them sees each change; when a
    page reaches the disk, nobody knows before a `datasync`."""

    view = Attribute("memoryview: the bytes as they are now; read-only")

    def write(at: int, data: Buffer) -> None:
        """Change the bytes from `at` on."""

    def pack(layout: Struct, at: int, *values: int) -> None:
        """Change the bytes from `at` on to `values`, laid out so."""

    def write_cells(at: int, numbers: Longs, values: Cells) -> None:
        """Change some cells of an array; later ones win.

        - at: where the array begins, in bytes; its cells are of the values' type
        - numbers: which cells
        - values: what they become, in the same order
        """


class Outlet(Protocol):
    """A socket, as far as it's sent to without waiting. Failures are OSErrors; BlockingIOError: no room now."""

    def fileno(self) -> int:
        """Its descriptor; negative if it has none, as a connection in memory."""

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        """How many of the bytes were taken, at least one."""


class FileBytes(Protocol):
    """A file whose bytes can go straight to a socket; see IFile."""

    def send(self, socket: Outlet, offset: int, size: int) -> int:
        """See IFile."""


class IFile(Interface):
    """One open file. Positions and sizes in bytes; every failure is an OSError."""

    def pread(size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`; fewer only at the end of the file."""

    def send(socket: Outlet, offset: int, size: int) -> int:
        """Send bytes to a socket without a copy in this process; returns how many it has taken, 0 at the end of
        the file. An OSError is the file's or the socket's, BlockingIOError says that the socket has no room now;
        nothing was sent then.

        - socket: where to
        - offset: of the first byte
        - size: how many at most
        """

    def pwrite(buffers: Sequence[Buffer], offset: int) -> int:
        """Write all buffers one after the other at `offset`; returns the byte count. Partial writes are
        finished here; an OSError leaves undefined bytes in [offset, offset + total) and nothing elsewhere."""

    def data_from(offset: int) -> int:
        """The first place from `offset` on that may have been written; the file's end if there's none. What is
        passed over reads as zeros. A disk that can't tell returns `offset`."""

    def reserve(size: int) -> None:
        """Make the file `size` bytes long with its blocks allocated (ENOSPC now, not later). May block."""

    def extend(size: int) -> None:
        """Make the file `size` bytes long, sparse; what lies beyond is cut off."""

    def datasync() -> None:
        """fdatasync. Blocks: run it in a worker."""

    def pages() -> IPages:
        """The whole (reserved) file in memory; released by `close`."""

    def close() -> None:
        """Close file and mapping; idempotent."""


class ILock(Interface):
    """An exclusive hold on a file."""

    def release() -> None:
        """Release the lock; idempotent."""


class IFileSystem(Interface):
    """What the store asks of a file system. Paths are plain strings."""

    def open(path: str, create: bool = False, read_only: bool = False) -> IFile:
        """Open a file.

        - path: of the file
        - create: make an empty one if there is none
        - read_only: never change it
        """

    def listdir(path: str) -> list[str]:
        """Names in a folder, sorted, without what the file system keeps there itself; empty if the folder is
        missing."""

    def exists(path: str) -> bool:
        """Is there a file or folder?"""

    def size(path: str) -> int:
        """Length in bytes."""

    def mtime(path: str) -> float:
        """Last modification, seconds since the epoch."""

    def stamp(path: str) -> Hashable:
        """Another one after each change of the file, and if another file has taken its name."""

    def real_path(path: str) -> str:
        """The one name of a file or folder that may be reached by several. It needn't be there."""

    def makedirs(path: str) -> None:
        """Make the folder and its parents."""

    def remove(path: str) -> None:
        """Remove a file, or an empty folder; missing is fine."""

    def replace(source: str, target: str) -> None:
        """Atomic rename over `target`, whose permissions stay."""

    def read(path: str) -> bytes:
        """The whole of a small file."""

    def sync_folder(path: str) -> None:
        """Make created and removed names durable. Blocks."""

    def sync_all(path: str) -> None:
        """Make durable whatever has been written to the file system that holds `path`: contents and names, of
        thousands of files in one go. Blocks."""

    def usage(path: str) -> tuple[int, int]:
        """(total, free-for-us) bytes of the file system that holds `path`."""

    def lock(path: str) -> ILock:
        """Exclusive lock, compatible with a JVM's FileChannel.lock; raises StoreLocked."""


class IWorker(Interface):
    """Where blocking calls go, so that the reactor never waits for a disk."""

    def run(function: Callable[..., object], *args: object) -> object:
        """Run it elsewhere; a Deferred with its result or failure, fired in the reactor thread."""

    def stop() -> None:
        """Take no more work; waits for what is running."""


class IReplicatedLog(Interface):
    """The commit log as the HA link and the dispatcher see it: one endless stream of bytes."""

    min_offset = Attribute("int: offset of the first byte still held")
    max_offset = Attribute("int: end of written bytes (RocketMQ's max physical offset)")
    flushed_offset = Attribute("int: everything below is on disk")
    file_size = Attribute("int: bytes per log file; no frame crosses a multiple of it")

    def read(offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`, never past a file's end nor past max_offset; b"" at the end.
        Raises KeyError-like `LookupError` when offset is below min_offset."""

    def open_file(offset: int) -> tuple[FileBytes, int]:
        """The open file that holds `offset`, and where in it, for whoever reads no further than max_offset before
        anything else is asked of the log. Raises LookupError when offset is below min_offset."""

    def last_record_start() -> int:
        """Where the last whole record before max_offset begins, whatever follows it: a blank, or part of
        a record. The first byte held if there is none, max_offset of an empty log. May read some MiB."""

    def append_raw(offset: int, buffers: Sequence[Buffer]) -> None:
        """Slave side: append replicated bytes, whole or not at all. `offset` must be max_offset, unless the
        log is empty, then it must be a file boundary (multiple of file_size) and becomes the log's start.
        The bytes may cross file ends (several frames at once). Raises OffsetGap, StoreFull."""

    def add_listener(listener: AppendListener) -> None:
        """`listener(start, blob)` after every append, with the fresh bytes."""

    def remove_listener(listener: AppendListener) -> None:
        """Undo add_listener."""

    def add_waker(waker: Callable[[], None]) -> None:
        """`waker()` after every append, for those that read the log themselves."""


class IFlushPolicy(Interface):
    """When written bytes are synced, and whether a put waits for it."""

    waits = Attribute("bool: do puts wait for the disk?")

    def start() -> None:
        """Start the timer."""

    def stop() -> None:
        """Stop it; a sync under way goes on."""

    def wait(first: int, last: int, deadline: float) -> object:
        """Only where `waits`: a Deferred with the flushed offset.

        - first: fires once the flushed offset has reached this one (bytes)
        - last: end of the last put that waits
        - deadline: clock seconds at which it fires in any case
        """
