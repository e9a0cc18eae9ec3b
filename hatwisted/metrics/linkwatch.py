"""Looks at the log's end once a second, and on a slave asks its master for that of its log.

A RocketMQ master says nothing of its end over the HA link while it sends, so its runtime info is asked, one
small request in ASK_INTERVAL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from hatwisted.ha.interfaces import IMasterLog
from hatwisted.metrics.offsethistory import OffsetHistory
from hatwisted.timing.periodic import PeriodicCall

LOOK_INTERVAL: Final = 1.0
"""Seconds between two looks at our own log."""
ASK_INTERVAL: Final = 5.0
"""Seconds between two questions to a master."""


class LinkWatch:
    """Knows the lag in seconds.

    - clock: of the looks
    - end: of our log
    - master: asks about the master's log; None: it can't be asked at present
    """

    def __init__(
        self, clock: IReactorTime, end: Callable[[], int], master: Callable[[], IMasterLog | None]
    ) -> None:
        self.own = OffsetHistory()
        self.of_master = OffsetHistory()
        self.master_end = -1
        """Of the master's log, by its last word; -1: it hasn't said, or not for a while."""
        self._clock = clock
        self._end = end
        self._master = master
        self._looks = PeriodicCall(clock, "looking at the log's end", self._look)
        self._questions = PeriodicCall(clock, "asking the master for its log's end", self._ask)

    def start(self) -> None:
        """Look and ask from now on."""
        self._looks.start(LOOK_INTERVAL, now=True)
        self._questions.start(ASK_INTERVAL)

    def stop(self) -> None:
        """No more of it."""
        self._looks.stop()
        self._questions.stop()

    def _look(self) -> None:
        self.own.note(self._clock.seconds(), self._end())

    def _ask(self) -> Deferred[None] | None:
        master = self._master()
        if master is None:
            self.master_end = -1
            return None
        return maybeDeferred(master.bounds).addCallbacks(self._told, self._untold)

    def _told(self, bounds: tuple[int, int]) -> None:
        self.master_end = bounds[1]
        self.of_master.note(self._clock.seconds(), self.master_end)

    def _untold(self, _: Failure) -> None:
        """The link says why; here it's enough that nothing is known."""
        self.master_end = -1

    @property
    def lag_bytes(self) -> int:
        """Of a slave, behind its master; -1 if that isn't known."""
        return -1 if self.master_end < 0 else max(0, self.master_end - self._end())

    @property
    def lag_seconds(self) -> float:
        """The same as time; -1 if it isn't known."""
        if self.master_end < 0:
            return -1.0
        return self.of_master.behind(self._end(), self._clock.seconds()) if self.lag_bytes else 0.0
