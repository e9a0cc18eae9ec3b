"""Complaints about peers: counted always, logged once per source and minute.

The HA port takes anyone's bytes; a port scanner or a slave in a crash loop must not be able to fill the log.
The dialling side uses the same for a master that can't be reached.
"""

from __future__ import annotations

from collections import OrderedDict

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger, LogLevel

COMPLAINT_INTERVAL = 60.0
"""Seconds between two log lines about one source."""

MAX_SOURCES = 1024
"""Sources remembered (about 200 bytes each); the one that was quiet longest is forgotten."""


class Complaints:
    """One log line per source and interval; the next one tells how many were left out."""

    _log = Logger()

    def __init__(self, clock: IReactorTime, interval: float = COMPLAINT_INTERVAL) -> None:
        self._clock = clock
        self._interval = interval
        self._sources: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self.total = 0
        """Complaints since the start, logged or not."""

    def complain(self, source: str, text: str, error: bool = False) -> bool:
        """Note one; `source` says who (a host, or a host and its role); error: an
        operator has to do something. True if it was logged."""
        self.total += 1
        now = self._clock.seconds()
        logged_at, silenced = self._sources.pop(source, (None, 0))
        if logged_at is not None and now - logged_at < self._interval:
            self._sources[source] = (logged_at, silenced + 1)
            return False
        self._sources[source] = (now, 0)
        if len(self._sources) > MAX_SOURCES:
            self._sources.popitem(last=False)
        more = f" ({silenced} more like it were not logged)" if silenced else ""
        level = LogLevel.error if error else LogLevel.warn
        self._log.emit(level, "HA link, {source}: {text}{more}", source=source, text=text, more=more)
        return True
