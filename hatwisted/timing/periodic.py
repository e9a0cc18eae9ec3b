"""Work at an interval, which no exception ends."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

from hatwisted.timing.guard import FailedTurns


class PeriodicCall:
    """Calls `work` at an interval between `start` and `stop`.

    - clock: source of time
    - name: what the work is, for the log
    - work: one turn; if it returns a Deferred, the next turn waits for that. What it raises, or fails with, is
      logged, and the next turn comes in its time.

    Turns keep to a grid from the start on; those that a busy process missed are left out.
    """

    def __init__(self, clock: IReactorTime, name: str, work: Callable[[], object]) -> None:
        self._work = work
        self._failed = FailedTurns(clock, name)
        self._loop = LoopingCall(self._turn)
        self._loop.clock = clock

    @property
    def running(self) -> bool:
        """Between `start` and `stop`?"""
        return bool(self._loop.running)

    def start(self, interval: float, *, now: bool = False) -> None:
        """Begin, with a turn at once if `now`, else after `interval` seconds."""
        self._loop.start(interval, now=now)

    def stop(self) -> None:
        """No more turns; idempotent. One that waits for a Deferred isn't cancelled."""
        if self._loop.running:
            self._loop.stop()

    def _turn(self) -> Deferred[object] | None:
        # Not by way of maybeDeferred: most turns wait for nothing, and some loops have a hundred a second.
        try:
            done = self._work()
        except Exception:
            self._failed.note(Failure())
            return None
        return done.addErrback(self._failed.note) if isinstance(done, Deferred) else None
