"""The ports of figures as a service: open before the broker starts and until it has stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.interfaces import IListeningPort, IProtocolFactory

from hatwisted.remoting.interfaces import Listen


class Runs(Protocol):
    """Goes on between the two."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""


class Served(NamedTuple):
    """A port. listen: opens it; factory: what it serves."""

    listen: Listen
    factory: IProtocolFactory


class MetricsService(Service):
    """Serves `ports`; `beside` runs as long."""

    def __init__(self, ports: Sequence[Served], beside: Sequence[Runs]) -> None:
        self._ports = ports
        self._beside = beside
        self._open: list[IListeningPort] = []

    def startService(self) -> None:
        """Raises CannotListenError."""
        for port in self._ports:
            self._open.append(port.listen(port.factory))
        for each in self._beside:
            each.start()
        super().startService()

    def stopService(self) -> Deferred[object]:
        """Fires when the ports are closed."""
        super().stopService()
        for each in reversed(self._beside):
            each.stop()
        ports, self._open = self._open, []
        return DeferredList([maybeDeferred(port.stopListening) for port in ports]).addCallback(lambda _: None)
