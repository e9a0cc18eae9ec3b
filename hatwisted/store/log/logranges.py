"""Ranges of a log that is in use, read beside the reactor: for comparing copies, never on the way of a message.

Each call opens the files it needs for itself and reads them in a worker, because `FileQueue` belongs to the
reactor thread. That's safe: what lies below `max_offset` isn't written any more. A file that retention removes
meanwhile is missing like one removed before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from hashlib import blake2b
from os.path import join
from typing import Final, TypeVar, cast

from twisted.internet.defer import Deferred, fail

from hatwisted.logcodec.recordsearch import RecordSearch
from hatwisted.logcodec.window import file_end
from hatwisted.store.errors import OutsideLog
from hatwisted.store.interfaces import IFileSystem, IWorker
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.wire.layout import file_name
from hatwisted.wire.logrange import DIGEST_SIZE, LogRange

T = TypeVar("T")

CHUNK: Final = 1 << 20
"""Bytes read and digested at once."""


class OpenedLog:
    """A log's files as they are now, for a thread of their own; its bytes end where the log does.

    - fs: the disk
    - directory: the files' folder
    - file_size: bytes of each
    - held: what the log holds
    """

    def __init__(self, fs: IFileSystem, directory: str, file_size: int, held: LogRange) -> None:
        self._fs = fs
        self._directory = directory
        self.file_size = file_size
        self.held = held

    @property
    def capacity_end(self) -> int:
        """Where the log ends."""
        return self.held.end

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at a file's end and the log's. Raises OutsideLog if they have expired."""
        room = min(size, self.held.end - offset, file_end(offset, self.file_size) - offset)
        if room <= 0:
            return b""
        try:
            with contextlib.closing(self._fs.open(self.path_of(offset), read_only=True)) as file:
                return file.pread(room, offset % self.file_size)
        except FileNotFoundError:
            raise OutsideLog(offset, self.held.begin, self.held.end) from None

    def data_from(self, offset: int) -> int:
        """The log's own bytes were all written."""
        return offset

    def path_of(self, offset: int) -> str:
        """The file that holds `offset`."""
        return join(self._directory, file_name(offset - offset % self.file_size))

    def digests(self, span: LogRange, block: int) -> bytes:
        """Of each `block` bytes of the range, one after the other."""
        return b"".join(
            self._digest(at, min(at + block, span.end)) for at in range(span.begin, span.end, block)
        )

    def _digest(self, at: int, end: int) -> bytes:
        digest = blake2b(digest_size=DIGEST_SIZE)
        while at < end:
            chunk = self.read(at, min(CHUNK, end - at))
            if not chunk:
                raise OutsideLog(at, self.held.begin, self.held.end)
            digest.update(chunk)
            at += len(chunk)
        return digest.digest()

    def record_start(self, offset: int) -> int:
        """Where the last record begins that can be found and doesn't begin after `offset`."""
        limit = min(self.held.end, file_end(offset, self.file_size))
        return RecordSearch(self, offset, limit).at_or_before(offset)


class LogRanges:
    """What can be asked of a log in use.

    - log: the log
    - fs: where its files are
    - worker: reads them
    """

    def __init__(self, log: CommitLog, fs: IFileSystem, worker: IWorker) -> None:
        self._log = log
        self._fs = fs
        self._worker = worker

    @property
    def held(self) -> LogRange:
        """What the log holds at present."""
        return LogRange(self._log.min_offset, self._log.max_offset)

    def digests(self, span: LogRange, block: int) -> Deferred[bytes]:
        """See OpenedLog.digests. Fails with OutsideLog or OSError."""
        return self.run(span, lambda log: log.digests(span, block))

    def read(self, span: LogRange) -> Deferred[bytes]:
        """The range's bytes, up to a file's end. Fails with OutsideLog or OSError."""
        return self.run(span, lambda log: log.read(span.begin, span.end - span.begin))

    def record_start(self, offset: int) -> Deferred[int]:
        """See OpenedLog.record_start. Fails with OutsideLog or OSError."""
        return self.run(LogRange(offset, offset + 1), lambda log: log.record_start(offset))

    def run(self, span: LogRange, work: Callable[[OpenedLog], T]) -> Deferred[T]:
        """`work` on these files, in a worker. Fails with OutsideLog if the log doesn't hold all of `span`."""
        held = self.held
        if not held.begin <= span.begin < span.end <= held.end:
            return fail(OutsideLog(span.begin, held.begin, held.end))
        files = self._log.files
        opened = OpenedLog(self._fs, files.directory, files.file_size, held)
        return cast("Deferred[T]", self._worker.run(work, opened))
