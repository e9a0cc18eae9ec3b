"""What a slave's log has to hold before the slave takes over what its master says about messages.

Progress of groups, of delay levels and of the transaction check refers to messages, and arrives by another route
than they do. Taken when it comes, it may be ahead of them; if the master is lost then, the promoted slave skips
messages that it has and that were never delivered: a delayed one that was delivered on the master alone, a
half whose commit lies there alone. So whatever the master answered is held until our log is on our disk up to
where the master's log ended after that answer; every message that it rests on lies below. And only a log that is
known to be the master's counts: one with a tail of its own may be as long without one of those messages.

A link says that only as long as its master lives, and a slave doesn't see a master lose its power. It may be back
within seconds without its tail, and number other messages as the lost ones were: its progress, taken over a link
to the process before, would pass by messages that only the slave has. So something must come over the link after
the answer, be it a heartbeat: then who answered is who the link leads to.

Rejected: cutting each figure down to what our queues hold. What a figure rests on lies in other queues: delivered
copies, ops.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from hatwisted.ha.interfaces import FlushNow
from hatwisted.store.interfaces import IReplicatedLog
from hatwisted.timing.timer import GuardedTimer

HOLD_LOOK = 0.2
"""Seconds between two looks at a log that hasn't come as far. A listener would be paid for by every append."""


class TableHold:
    """Waits for one offset of the log at a time.

    - clock: of its looks
    - log: a slave's
    - flush_now: syncs it
    - agrees: is it known to be a prefix of the master's?
    - heard: bytes that the link has brought
    """

    def __init__(
        self,
        clock: IReactorTime,
        log: IReplicatedLog,
        flush_now: FlushNow,
        agrees: Callable[[], bool],
        heard: Callable[[], int],
    ) -> None:
        self._log = log
        self.agrees = agrees
        self._heard = heard
        self._flush_now = flush_now
        self._end = 0
        self._had_heard = 0
        """When the wait began."""
        self._waiting: Deferred[None] | None = None
        self._timer = GuardedTimer(
            clock, "waiting for the log that the master's tables refer to", self._look, HOLD_LOOK
        )

    @property
    def waiting(self) -> bool:
        """Is anything waiting?"""
        return self._waiting is not None

    def wait(self, end: int) -> Deferred[None]:
        """Fires once the log agrees, by what the link brings from now on, and is on its disk up to `end`; never
        if it is dropped. One wait at a time."""
        assert self._waiting is None
        self._end, self._had_heard = end, self._heard()
        waiting: Deferred[None] = Deferred()
        self._waiting = waiting
        self._look()
        return waiting

    def drop(self) -> None:
        """Forget who waits: what they hold is of no use any more."""
        self._waiting = None
        self._timer.cancel()

    def _look(self) -> None:
        if not self.agrees() or self._heard() == self._had_heard:
            self._timer.set(HOLD_LOOK)
        elif self._log.flushed_offset >= self._end:
            self._reached()
        elif self._log.max_offset >= self._end:
            waiting = self._waiting
            self._flush_now().addCallback(lambda offset: self._flushed(offset, waiting))
        else:
            self._timer.set(HOLD_LOOK)

    def _flushed(self, offset: int, waiting: Deferred[None] | None) -> None:
        if self._waiting is not waiting:
            return
        if offset >= self._end:
            self._reached()
        else:  # a disk that fails is the store's to report
            self._timer.set(HOLD_LOOK)

    def _reached(self) -> None:
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        waiting.callback(None)
