"""A replicated log in memory: what the HA link needs of a log, with faults on order."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from zope.interface import implementer

from hatwisted.store.errors import OffsetGap, StoreFull
from hatwisted.store.interfaces import AppendListener, Buffer, IReplicatedLog, Outlet


class MemoryFile:
    """One file of a log, from `start` on."""

    def __init__(self, log: MemoryLog, start: int) -> None:
        self._log = log
        self._start = start

    def send(self, socket: Outlet, offset: int, size: int) -> int:
        """See IFile."""
        return socket.send(self._log.read(self._start + offset, size))


@implementer(IReplicatedLog)
class MemoryLog:
    """Bytes [min_offset, max_offset). `start`: where an empty log's bytes would begin, for a master's log."""

    def __init__(self, file_size: int = 1000, start: int = 0) -> None:
        self.file_size = file_size
        self.min_offset = start
        self.max_offset = start
        self.flushed_offset = start
        self.capacity: int | None = None
        """End beyond which appends are refused as StoreFull."""
        self.error: Exception | None = None
        """Raised by the next appends instead of storing."""
        self.last_record: int | None = None
        """Where the last record begins; None: there is none, what was appended are just bytes."""
        self.read_error: Exception | None = None
        """Raised by the next reads."""
        self.appends: list[int] = []
        """Bytes of each append_raw."""
        self.reads = 0
        self.flushes: list[Deferred[int]] = []
        """Fire these to end a flush; `hold_flushes` = False flushes at once."""
        self.hold_flushes = False
        self._bytes = bytearray()
        self._listeners: list[AppendListener] = []

    @property
    def capacity_end(self) -> int:
        """Where its last file ends."""
        return -(-self.max_offset // self.file_size) * self.file_size

    def __bytes__(self) -> bytes:
        return bytes(self._bytes)

    def read(self, offset: int, limit: int) -> bytes:
        """See IReplicatedLog."""
        if offset < self.min_offset:
            raise LookupError(offset)
        self.reads += 1
        if self.read_error is not None:
            raise self.read_error
        room = min(limit, self.file_size - offset % self.file_size)
        return bytes(self._bytes[offset - self.min_offset :][:room])

    def open_file(self, offset: int) -> tuple[MemoryFile, int]:
        """See IReplicatedLog."""
        if offset < self.min_offset:
            raise LookupError(offset)
        return MemoryFile(self, offset - offset % self.file_size), offset % self.file_size

    def data_from(self, offset: int) -> int:
        """See LogBytes."""
        return offset

    def last_record_start(self) -> int:
        """See IReplicatedLog."""
        if self.read_error is not None:
            raise self.read_error
        return self.max_offset if self.last_record is None else self.last_record

    def append(self, data: bytes) -> int:
        """A master's append; returns the new end."""
        self._add(data)
        return self.max_offset

    def append_raw(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """See IReplicatedLog."""
        if self.error is not None:
            raise self.error
        data = b"".join(buffers)
        empty = not self.max_offset
        if offset % self.file_size if empty else offset != self.max_offset:
            raise OffsetGap(offset, self.max_offset)
        if self.capacity is not None and offset + len(data) > self.capacity:
            raise StoreFull(f"no room beyond {self.capacity}")
        if empty:
            self.min_offset = self.max_offset = offset
        self.appends.append(len(data))
        self._add(data)

    def _add(self, data: bytes) -> None:
        start = self.max_offset
        self._bytes += data
        self.max_offset = start + len(data)
        for listener in self._listeners:
            listener(start, data)

    def expire(self, offset: int) -> None:
        """Forget everything below `offset` (a file start)."""
        del self._bytes[: offset - self.min_offset]
        self.min_offset = offset

    def overwrite(self, offset: int, data: bytes) -> None:
        """Change what lies there."""
        at = offset - self.min_offset
        self._bytes[at : at + len(data)] = data

    def cut(self, offset: int) -> None:
        """Lose everything from `offset` on, as after a crash."""
        del self._bytes[offset - self.min_offset :]
        self.max_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)

    def flush_now(self) -> Deferred[int]:
        """Flush what is written by now, at once or when the test fires `flushes`."""
        target = self.max_offset
        flush: Deferred[int] = Deferred()

        def flushed(result: int) -> int:
            self.flushed_offset = max(self.flushed_offset, target)
            return result

        flush.addCallback(flushed)
        if self.hold_flushes:
            self.flushes.append(flush)
        else:
            flush.callback(target)
        return flush

    def add_listener(self, listener: AppendListener) -> None:
        """See IReplicatedLog."""
        self._listeners.append(listener)

    def remove_listener(self, listener: AppendListener) -> None:
        """See IReplicatedLog."""
        self._listeners.remove(listener)

    @property
    def listeners(self) -> int:
        """Listeners at present."""
        return len(self._listeners)
