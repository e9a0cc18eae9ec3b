"""The last events of the log in words: those that have a name, and whatever is a warning or worse."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from twisted.logger import ILogObserver, LogEvent, LogLevel, LogPublisher, formatEvent
from zope.interface import implementer

MOST: Final = 40
"""Kept."""
LONGEST: Final = 400
"""Characters of one."""

PERIODIC: Final = ("slave.lag", "slave.progress")
"""Said once a minute, of what the page shows all the time: they would leave no room for events."""

GRAVE: Final = (LogLevel.warn, LogLevel.error, LogLevel.critical)


class Told(NamedTuple):
    """An event.

    - at: seconds since the epoch
    - level, name: as in the log; the name is empty if it has none
    - text: its line
    """

    at: float
    level: str
    name: str
    text: str


@implementer(ILogObserver)
class EventFeed:
    """Listens between `start` and `stop`. publisher: the log."""

    def __init__(self, publisher: LogPublisher) -> None:
        self._publisher = publisher
        self.told: deque[Told] = deque(maxlen=MOST)

    def start(self) -> None:
        """Listen."""
        self._publisher.addObserver(self)

    def stop(self) -> None:
        """Don't any more."""
        self._publisher.removeObserver(self)

    def __call__(self, event: LogEvent) -> None:
        """See ILogObserver."""
        level, name = event.get("log_level", LogLevel.info), str(event.get("event") or "")
        if level not in GRAVE and (not name or name in PERIODIC):
            return
        text = " ".join(formatEvent(event).split())[:LONGEST]
        if text:
            self.told.append(Told(event.get("log_time", 0.0), level.name, name, text))
