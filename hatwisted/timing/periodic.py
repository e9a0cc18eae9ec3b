"""Work at an interval, which no exception ends.

Rejected: Twisted's LoopingCall. It ends at the first exception, and makes a Deferred for each turn, though hardly
one has to wait: servers that are idle do little else.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
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
        self.running = False
        """Between `start` and `stop`?"""
        self._clock = clock
        self._work = work
        self._failed = FailedTurns(clock, name)
        self._started = self._interval = 0.0
        self._call: IDelayedCall | None = None

    def start(self, interval: float, *, now: bool = False) -> None:
        """Begin, with a turn at once if `now`, else after `interval` seconds."""
        if self.running:
            raise RuntimeError("it runs already")
        self.running = True
        self._started, self._interval = self._clock.seconds(), interval
        if now:
            self._turn()
        else:
            self._go_on()

    def stop(self) -> None:
        """No more turns; idempotent. One that waits for a Deferred isn't cancelled."""
        self.running = False
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _turn(self) -> None:
        self._call = None
        try:
            done = self._work()
        except Exception:
            self._failed.note(Failure())
        else:
            if done is not None and isinstance(done, Deferred):
                done.addErrback(self._failed.note).addCallback(self._go_on)
                return
        self._go_on()

    def _go_on(self, _result: object = None) -> None:
        if self.running and self._call is None:
            self._call = self._clock.callLater(self._until_next(), self._turn)

    def _until_next(self) -> float:
        """Seconds to the next point of the grid."""
        now = self._clock.seconds()
        pause = self._interval - (now - self._started) % self._interval
        # So little that a clock can't tell means that this point is the one that has just been.
        return pause if now + pause > now else self._interval
