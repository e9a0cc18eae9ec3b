"""Flushing the commit log: fdatasync in a worker, one at a time, for everything written by then.

Two policies behind one interface. ASYNC_FLUSH syncs on a timer (each `flushIntervalCommitLog` if
`flushCommitLogLeastPages` are dirty, everything each `flushCommitLogThoroughInterval`). SYNC_FLUSH is a group
commit: a put waits on the flushed offset, and one fdatasync serves every put that was written before it began.

A failed fdatasync is final: the kernel may have dropped the dirty pages and a later sync would claim what isn't
there. The log then takes no more puts, says why, and waits time out as FLUSH_DISK_TIMEOUT, until a restart has
recovered what the disk really holds. Running out of descriptors isn't such a failure: a file or folder couldn't be
opened, no page was given up. The next turn tries again, while puts are taken.

fdatasync runs as a system call without the interpreter lock; mmap.flush would hold it (CPython 3.11).
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.store.disk.sparedescriptors import OUT_OF_DESCRIPTORS
from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import IFlushPolicy, IWorker
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.waitline import WaitLine
from hatwisted.timing.histogram import Histogram
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.timing.timer import GuardedTimer

PAGE_SIZE = 4096
"""Bytes of the page that `flushCommitLogLeastPages` counts."""


class Flusher:
    """One fdatasync at a time.

    - log: what is synced
    - clock: ends waits that have timed out, and times syncs
    - worker: where fdatasync blocks
    - on_flushed: called with (offset, store timestamp) after each sync, for the checkpoint
    - note: called with the offset in the worker, as soon as all before it is synced
    """

    _logger = Logger()

    def __init__(
        self,
        log: CommitLog,
        clock: IReactorTime,
        worker: IWorker,
        on_flushed: Callable[[int, int], None] = lambda offset, timestamp: None,
        note: Callable[[int], None] = lambda offset: None,
    ) -> None:
        self._log = log
        self._note = note
        self._worker = worker
        self._on_flushed = on_flushed
        self._running: Deferred[None] | None = None
        self._clock = clock
        self._throttle = LogThrottle(clock)
        self.line = WaitLine(clock, log.flushed_offset)
        self.syncs_total = 0
        self.sync_times = Histogram()
        """Seconds from the call to the worker's answer, failures included."""

    def start(self) -> None:
        """The log is recovered: what it calls flushed is where waits begin."""
        self.line.advance(self._log.flushed_offset)

    def flush_now(self) -> Deferred[int]:
        """Sync what is written by now; fires with the flushed offset (unchanged if the sync failed). Joins a
        sync that is under way only if it covers everything written."""
        target = self._log.max_offset
        if self._log.flushed_offset >= target or self._log.stopped_reason is not None:
            return succeed(self._log.flushed_offset)
        if self._running is not None:
            again: Deferred[int] = Deferred()
            self._running.addCallback(lambda _: self.flush_now().chainDeferred(again))
            return again
        return self._sync(target)

    def synced(self) -> Deferred[None]:
        """Sync what is written by now; fires when it's on the disk. Fails with StoreError."""
        end = self._log.max_offset
        return self.flush_now().addCallback(self._check, end)

    @staticmethod
    def _check(flushed: int, end: int) -> None:
        if flushed < end:
            raise StoreError("the messages it refers to can't be synced")

    def _sync(self, target: int) -> Deferred[int]:
        timestamp = self._log.last_store_timestamp
        running: Deferred[None] = Deferred()
        self._running = running
        begun = self._clock.seconds()
        done: Deferred[object] = maybeDeferred(self._worker.run, self._datasync, target)

        def synced(_: object) -> None:
            self.syncs_total += 1
            self._log.mark_flushed(target)
            self._on_flushed(target, timestamp)

        def finished(_: object) -> int:
            self._running = None
            self.sync_times.add(self._clock.seconds() - begun)
            self.line.advance(self._log.flushed_offset)
            running.callback(None)
            return self._log.flushed_offset

        return done.addCallback(synced).addErrback(self._failed, target).addCallback(finished)

    def _datasync(self, target: int) -> None:
        self._log.datasync(target)
        self._note(target)

    def _failed(self, failure: Failure, target: int) -> None:
        if getattr(failure.value, "errno", None) in OUT_OF_DESCRIPTORS:
            left_out = self._throttle.admit(None)
            if left_out is not None:
                self._logger.error(
                    "the commit log up to offset {target} isn't synced yet, will try again: {why}{more}",
                    event="store.unsynced",
                    target=target,
                    why=failure.value,
                    more=more_like_it(left_out),
                )
            return
        reason = (
            f"fdatasync of the commit log up to offset {target} failed ({failure.value}); "
            "restart the broker to recover what the disk holds"
        )
        self._log.stop_appends(reason)
        self._logger.critical("{reason}", reason=reason)


@implementer(IFlushPolicy)
class AsyncFlush:
    """ASYNC_FLUSH: no put waits for the disk; a timer decides when to sync.

    - flusher: does it
    - log: what is synced
    - clock: the timer
    - interval: seconds between two looks
    - least_pages: dirty pages of 4 KiB that are worth a sync before the thorough one
    - thorough_interval: seconds after which anything dirty is synced
    """

    waits = False

    def __init__(
        self,
        flusher: Flusher,
        log: CommitLog,
        clock: IReactorTime,
        interval: float,
        least_pages: int,
        thorough_interval: float,
    ) -> None:
        self._flusher = flusher
        self._log = log
        self._clock = clock
        self._interval = interval
        self._least = least_pages * PAGE_SIZE
        self._thorough = thorough_interval
        self._last_thorough = clock.seconds()
        self._loop = PeriodicCall(clock, "flushing the commit log", self._tick)

    def start(self) -> None:
        """See IFlushPolicy."""
        self._flusher.start()
        self._last_thorough = self._clock.seconds()
        self._loop.start(self._interval)

    def stop(self) -> None:
        """See IFlushPolicy."""
        self._loop.stop()

    def wait(self, first: int, last: int, deadline: float) -> Deferred[int]:
        """See IFlushPolicy."""
        raise NotImplementedError("with ASYNC_FLUSH no put waits for the disk")

    def _tick(self) -> None:
        now = self._clock.seconds()
        dirty = self._log.max_offset - self._log.flushed_offset
        due = now - self._last_thorough >= self._thorough
        if due:
            self._last_thorough = now
        if dirty and (due or dirty >= self._least):
            self._flusher.flush_now()


@implementer(IFlushPolicy)
class GroupCommitFlush:
    """SYNC_FLUSH: every wait starts a sync unless one is in progress; the next begins when that one ends.

    - flusher: does it
    - log: what is synced; its appends are heard of, so that an idle log costs no turn
    - clock: the timer
    - idle_interval: seconds until bytes that no put waits for are synced (a slave's, or WAIT=false)
    """

    waits = True

    def __init__(self, flusher: Flusher, log: CommitLog, clock: IReactorTime, idle_interval: float) -> None:
        self._flusher = flusher
        self._log = log
        self._syncing = False
        self._started = False
        self._interval = idle_interval
        self._timer = GuardedTimer(clock, "background flush", self._kick, idle_interval)
        log.add_waker(self._wake)

    def start(self) -> None:
        """See IFlushPolicy."""
        self._flusher.start()
        self._started = True
        self._wake()

    def stop(self) -> None:
        """See IFlushPolicy."""
        self._started = False
        self._timer.cancel()

    def wait(self, first: int, last: int, deadline: float) -> Deferred[int]:
        """See IFlushPolicy."""
        waiting = self._flusher.line.wait(first, deadline)
        self._kick()
        return waiting

    def _wake(self) -> None:
        """Something may be left to sync that nobody waits for."""
        if self._started and not self._timer.pending:
            self._timer.set(self._interval)

    def _kick(self) -> None:
        flushed = self._log.flushed_offset
        if not self._syncing and self._log.max_offset > flushed:
            self._syncing = True
            self._flusher.flush_now().addCallback(self._synced, flushed)

    def _synced(self, flushed: int, before: int) -> None:
        self._syncing = False
        # One that came no further is tried again by the timer, or this would be one itself.
        if flushed > before and len(self._flusher.line):
            self._kick()
        elif self._log.max_offset > flushed and self._log.stopped_reason is None:
            self._wake()
