"""The port of figures as a service: open before the broker starts and until it has stopped."""

from __future__ import annotations

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IListeningPort, IProtocolFactory

from hatwisted.metrics.linkwatch import LinkWatch
from hatwisted.remoting.interfaces import Listen


class MetricsService(Service):
    """The port.

    - listen: opens it
    - factory: what it serves
    - watch: runs as long
    """

    def __init__(self, listen: Listen, factory: IProtocolFactory, watch: LinkWatch) -> None:
        self._listen = listen
        self._factory = factory
        self._watch = watch
        self._port: IListeningPort | None = None

    def startService(self) -> None:
        """Raises CannotListenError."""
        self._port = self._listen(self._factory)
        self._watch.start()
        super().startService()

    def stopService(self) -> Deferred[object]:
        """Fires when the port is closed."""
        super().stopService()
        self._watch.stop()
        port, self._port = self._port, None
        return maybeDeferred(lambda: None if port is None else port.stopListening())
