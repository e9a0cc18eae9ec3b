"""What is refused of peers: counted always, logged once per source and minute.

The HA port takes anyone's bytes; a port scanner or a slave in a crash loop must not be able to fill the log.
The dialling side uses the same for a master that can't be reached.
"""

from __future__ import annotations

from collections import Counter

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel

from hatwisted.timing.throttle import LOG_INTERVAL, LogThrottle, more_like_it


class RefusalLog:
    """One log line per source and interval (seconds); the next one says how many were left out."""

    _log = Logger()

    def __init__(self, clock: IReactorTime, interval: float = LOG_INTERVAL) -> None:
        self._throttle = LogThrottle(clock, interval)
        self.total = 0
        """Refusals since the start, logged or not."""
        self.reports: Counter[str] = Counter()
        """First reports refused, by the state that their links ended in."""

    def complain(self, source: str, text: str, error: bool = False) -> bool:
        """Note one; True if it was logged.

        - source: who (a host, or a host and its role)
        - text: what about it
        - error: does an operator have to do something?
        """
        self.total += 1
        left_out = self._throttle.admit(source)
        if left_out is None:
            return False
        level = LogLevel.error if error else LogLevel.warn
        self._log.emit(
            level,
            "HA link, {source}: {text}{more}",
            event="link.problem",
            source=source,
            text=text,
            more=more_like_it(left_out),
        )
        return True
