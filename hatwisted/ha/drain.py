"""The wait of an orderly stop for the slaves to have everything."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime


class Drain:
    """One wait. clock: its timer; limit: seconds.

    `done` fires True once the slaves have everything, False if they don't in time.
    """

    def __init__(self, clock: IReactorTime, limit: float) -> None:
        self.done: Deferred[bool] = Deferred()
        self._timer: IDelayedCall | None = clock.callLater(limit, self._late)

    def finish(self) -> None:
        """The slaves have everything."""
        self._settle(True)

    def give_up(self) -> None:
        """The slaves won't have everything in time."""
        self._settle(False)

    def _late(self) -> None:
        self._timer = None
        if not self.done.called:
            self.done.callback(False)

    def _settle(self, drained: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.done.callback(drained)
