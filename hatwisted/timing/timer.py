"""One call that sets itself again, which no exception ends."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from hatwisted.timing.guard import FailedTurns


class GuardedTimer:
    """At most one pending call of `work`, which sets the timer again for its next turn, or leaves it.

    - clock: source of time
    - name: what the work is, for the log
    - work: one turn; may return a Deferred. What it raises, or fails with, is logged, and unless it has set the
      timer before, the next turn comes after `retry`.
    - retry: seconds
    """

    def __init__(self, clock: IReactorTime, name: str, work: Callable[[], object], retry: float) -> None:
        self._clock = clock
        self._work = work
        self._retry = retry
        self._failed = FailedTurns(clock, name)
        self._call: IDelayedCall | None = None
        self._cancelled = True

    @property
    def pending(self) -> bool:
        """Is a turn to come?"""
        return self._call is not None

    @property
    def due(self) -> float | None:
        """Clock seconds of the turn to come, None if there is none."""
        return None if self._call is None else self._call.getTime()

    def set(self, seconds: float) -> None:
        """The next turn comes in this many seconds, instead of when it was to come."""
        if self._call is not None:
            self._call.cancel()
        self._cancelled = False
        self._call = self._clock.callLater(seconds, self._turn)

    def fire(self) -> None:
        """A turn now, instead of when it was to come."""
        if self._call is not None:
            self._call.cancel()
        self._cancelled = False
        self._turn()

    def cancel(self) -> None:
        """No turn is to come; idempotent. One under way that fails isn't tried again."""
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _turn(self) -> None:
        self._call = None
        try:
            done = self._work()
        except Exception:
            self._note(Failure())
        else:
            if done is not None and isinstance(done, Deferred):
                done.addErrback(self._note)

    def _note(self, failure: Failure) -> None:
        self._failed.note(failure)
        if self._call is None and not self._cancelled:
            self.set(self._retry)
