"""Pages for the log's next bytes, made ready before the reactor writes them.

A write into reserved but untouched space has to find memory for the page cache first. That is most of what a
write costs (some 2 us a KiB where a hypervisor has to back the memory, against 0.2 for the copy), and the
reactor would wait for it. So a worker asks the kernel to have the pages of the next `AHEAD` bytes: reserved
space reads as zeros, so nothing comes from the disk, and clean pages cost no write either.

Rejected: writing zeros ahead (RocketMQ's warmMapedFileEnable: every page goes to the disk twice when traffic is
slow), and MAP_POPULATE (needs a mapping, and the interpreter lock is held meanwhile).
"""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.store.filequeue import FileQueue
from hatwisted.store.interfaces import IWorker

AHEAD = 64 << 20
"""Bytes kept ready ahead of the log's end: a quarter of a second at 250 MB/s, and memory that any reader's page
may take back."""

STEP = 8 << 20
"""Bytes made ready by one call of the worker, so that each is done in some 20 ms."""


class PageWarmer:
    """Keeps the pages ahead of a file sequence's end in memory. Belongs to the reactor thread."""

    _log = Logger()

    def __init__(self, files: FileQueue, worker: IWorker) -> None:
        self._files = files
        self._worker = worker
        self._ready = 0
        self._busy = False
        self._closed = False

    def advance(self, end: int) -> None:
        """The stream ends at `end` (bytes) now."""
        if end + AHEAD - self._ready >= STEP and not self._busy:
            self._warm(end)

    def close(self) -> None:
        """Ask for nothing more."""
        self._closed = True

    def _warm(self, end: int) -> None:
        begin = max(self._ready, end)
        stop = min(begin + STEP, end + AHEAD, self._files.capacity_end)
        if stop <= begin or self._closed:
            return
        self._busy = True
        done = cast("Deferred[None]", self._worker.run(self._files.prefetch, begin, stop))
        done.addErrback(self._failed).addCallback(self._warmed, stop)

    def _warmed(self, _: None, stop: int) -> None:
        self._busy = False
        self._ready = stop

    def _failed(self, failure: Failure) -> None:
        # Only a hint: the write itself meets whatever is wrong with the file, and tells it.
        self._log.debug("pages couldn't be made ready: {why}", why=failure.getErrorMessage())
