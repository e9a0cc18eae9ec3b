"""When queue entries that wait in memory go to their files.

A few queues every `INTERVAL`, those first that have waited longest: with a handful of queues everything is in
the files a moment later, with thousands each is written when it has gathered a page or so, and at no time does
a round take longer than a put may wait. Before a sync everything is written, in the same small portions.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from hatwisted.store.errors import StoreError
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.timing.timer import GuardedTimer

INTERVAL: Final = 0.1
"""Seconds between rounds, while anything waits."""

PORTION: Final = 32
"""Queues written in one round: some 11 us each."""

RETRY: Final = 1.0
"""Seconds until a round that failed, for want of space, is tried again."""


class QueueWriter:
    """Writes out the tails of `queues` from `start` on. Belongs to the reactor thread."""

    _log = Logger()

    def __init__(self, clock: IReactorTime, queues: ConsumeQueueTable) -> None:
        self._clock = clock
        self._queues = queues
        self._running = False
        self._timer = GuardedTimer(clock, "writing queue entries", self._round, RETRY)
        self._reason: str | None = None
        queues.watch_tails(self._wake)

    @property
    def waiting(self) -> int:
        """Most queues that have entries in memory."""
        return self._queues.tails

    def start(self) -> None:
        """Start; what waits already is written in the first rounds."""
        self._running = True
        if self._queues.tails:
            self._wake()

    def stop(self) -> None:
        """No more rounds."""
        self._running = False
        self._timer.cancel()

    @inlineCallbacks
    def write_all(self) -> Generator[Deferred[None], None, None]:
        """Write everything that waits now, a portion a turn; fires when that is done, or fails with StoreFull or
        another OSError."""
        for _ in range(0, self._queues.tails, PORTION):
            self._queues.write_out(PORTION)
            if self._queues.tails:
                yield deferLater(self._clock, 0)

    @inlineCallbacks
    def write_again(self) -> Generator[Deferred[None], None, None]:
        """Write again what no sync has covered: the kernel takes what a failed one left out for clean, and leaves
        it out of the next. Fires as `write_all` does."""
        for number, queue in enumerate(self._queues.with_deleted, start=1):
            queue.write_unsynced()
            if number % PORTION == 0:
                yield deferLater(self._clock, 0)

    def _wake(self) -> None:
        if self._running and not self._timer.pending:
            self._timer.set(INTERVAL)

    def _round(self) -> None:
        pause = INTERVAL
        try:
            self._queues.write_out(PORTION)
            self._reason = None
        except (OSError, StoreError) as error:
            pause = RETRY
            if self._reason != str(error):
                self._reason = str(error)
                self._log.warn("queue entries wait in memory: {reason}", reason=self._reason)
        if self._queues.tails:
            self._timer.set(pause)
