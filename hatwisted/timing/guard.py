"""What a turn of a loop raised, in the log: with its traceback, but not at every turn."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from hatwisted.timing.throttle import LogThrottle, more_like_it


class FailedTurns:
    """The failed turns of one loop. name: what it does, as the log calls it."""

    _log = Logger()

    def __init__(self, clock: IReactorTime, name: str) -> None:
        self._name = name
        self._throttle = LogThrottle(clock)

    def note(self, failure: Failure) -> None:
        """Log it, unless the same kind of error from the same place was logged within the interval."""
        frames = failure.frames
        place = (frames[-1][1], frames[-1][2]) if frames else ()
        left_out = self._throttle.admit((failure.type, place))
        if left_out is not None:
            self._log.failure(
                "{loop} failed; will try again{more}",
                failure,
                LogLevel.error,
                loop=self._name,
                more=more_like_it(left_out),
            )
