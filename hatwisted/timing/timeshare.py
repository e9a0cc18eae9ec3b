"""Work that is asked for again and again, and takes no more than a share of a loop's time."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from hatwisted.timing.timer import GuardedTimer

RETRY = 1.0
"""Seconds until the next turn after one that failed."""

UTMOST_REST = 10.0
"""Seconds. Work that seems to have taken a good part of that stood still, with its process or its machine."""


class TimeShare:
    """Does `work` at once when it's asked for, unless it has only just been done: then once for all who ask, after
    a rest that leaves the others their part of the time, and is never longer than `UTMOST_REST`.

    - clock: measures the work
    - name: what the work is, for the log
    - work: one turn
    - share: of the time, more than 0 and at most 1
    """

    def __init__(self, clock: IReactorTime, name: str, work: Callable[[], object], share: float) -> None:
        self.waiting = False
        """Has somebody asked who waits for the rest's end?"""
        self._clock = clock
        self._work = work
        self._pause = 1 / share - 1
        self._rest = GuardedTimer(clock, name, self._rested, RETRY)

    def ask(self) -> None:
        """The work is wanted."""
        if self._rest.pending:
            self.waiting = True
        else:
            self._do()

    def hurry(self) -> None:
        """Who waits has no time."""
        if self.waiting:
            self._do()

    def cancel(self) -> None:
        """Nobody wants it any more."""
        self.waiting = False
        self._rest.cancel()

    def _rested(self) -> None:
        if self.waiting:
            self._do()

    def _do(self) -> None:
        self.waiting = False
        began = self._clock.seconds()
        self._work()
        took = max(0.0, self._clock.seconds() - began)
        self._rest.set(min(took * self._pause, UTMOST_REST))
