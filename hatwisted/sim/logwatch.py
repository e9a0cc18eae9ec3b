"""What the programs under simulation log: errors that nobody expects are violations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twisted.internet.error import ConnectionClosed
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.clientcore.errors import ClientError
from hatwisted.sim.history import Violation
from hatwisted.sim.simclock import PowerLoss
from hatwisted.store.errors import StoreError

EXPECTED = (OSError, StoreError, ClientError, ConnectionClosed, PowerLoss)
"""What a program may say of a machine that fails."""


@implementer(ILogObserver)
class LogWatch:
    """Collects what is unexpected in `violations`."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def __call__(self, event: LogEvent) -> None:
        """See ILogObserver."""
        failure = event.get("log_failure")
        if isinstance(failure, Failure) and not failure.check(*EXPECTED):
            where = failure.getTraceback(elideFrameworkCode=True)
            self.violations.append(Violation("exception", f"{formatEvent(event)}\n{where}"))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Collect while this context lasts."""
        globalLogPublisher.addObserver(self)
        try:
            yield
        finally:
            globalLogPublisher.removeObserver(self)
