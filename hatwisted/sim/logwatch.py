"""What the programs under simulation log: errors that nobody expects are violations, and so is a peer that breaks
a protocol, since all of them are ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.internet.error import ConnectionClosed
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.broker.node.logaudit import LogAudit
from hatwisted.clientcore.errors import ClientError
from hatwisted.sim.history import Violation
from hatwisted.sim.simclock import PowerLoss
from hatwisted.store.errors import StoreError

EXPECTED = (OSError, StoreError, ClientError, ConnectionClosed, PowerLoss)
"""What a program may say of a machine that fails."""


MISSPOKEN = ("broke the HA link's format", "doesn't speak the remoting protocol", "closing ")
"""What a program says of a peer whose bytes make no sense."""

NO_ROOM = "incomplete frames of all connections exceed"
"""What it says of one whose bytes it has no room for."""

AUDIT = f"{LogAudit.__module__}.{LogAudit.__qualname__}"


@implementer(ILogObserver)
class LogWatch:
    """Collects what is unexpected in `violations`."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.differences: list[range] = []
        """Bytes of the log in which a slave says that it differs from its master."""

    def __call__(self, event: LogEvent) -> None:
        """See ILogObserver."""
        if event.get("log_namespace") == AUDIT and "begin" in event:
            self.differences.append(range(event["begin"], event["end"]))
        failure = event.get("log_failure")
        if isinstance(failure, Failure) and not failure.check(*EXPECTED):
            where = failure.getTraceback(elideFrameworkCode=True)
            self.violations.append(Violation("exception", f"{formatEvent(event)}\n{where}"))
        if event.get("log_level") in (LogLevel.warn, LogLevel.error):
            told = formatEvent(event)
            if any(words in told for words in MISSPOKEN) and NO_ROOM not in told:
                self.violations.append(Violation("protocol", told))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Collect while this context lasts."""
        globalLogPublisher.addObserver(self)
        try:
            yield
        finally:
            globalLogPublisher.removeObserver(self)
