"""Which of many log lines about one thing are written.

A loop that fails every 10 ms, a slave in a crash loop and a port scanner must not be able to fill the log; but the
first of a kind is always worth its line, and the number of those that were left out is worth a word in the next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from twisted.internet.interfaces import IReactorTime

LOG_INTERVAL = 60.0
"""Seconds between two log lines about one source."""

MAX_SOURCES = 1024
"""Sources remembered (about 200 bytes each); the one that was quiet longest is forgotten."""


class LogThrottle:
    """One log line per source and interval (seconds)."""

    def __init__(self, clock: IReactorTime, interval: float = LOG_INTERVAL) -> None:
        self._clock = clock
        self._interval = interval
        self._sources: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def admit(self, source: Hashable, count: int = 1) -> int | None:
        """How many were left out since the last line about `source`, or None if this one is to be left out too.

        count: for how many this one stands.
        """
        now = self._clock.seconds()
        logged_at, left_out = self._sources.pop(source, (None, 0))
        if logged_at is not None and now - logged_at < self._interval:
            self._sources[source] = (logged_at, left_out + count)
            return None
        self._sources[source] = (now, 0)
        if len(self._sources) > MAX_SOURCES:
            self._sources.popitem(last=False)
        return left_out


def more_like_it(left_out: int) -> str:
    """How a log line ends that stands for others too."""
    return f" ({left_out} more like it were not logged)" if left_out else ""
