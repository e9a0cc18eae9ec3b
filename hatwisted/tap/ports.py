"""Listening ports that are claimed early and opened when the service behind them starts.

A port in use has to be told before twistd forks, so `claim` binds it while the services are put together. It
listens only from `listenTCP` on: a client that connects earlier would sit in the backlog of a broker that is
still recovering, instead of being refused and going elsewhere.

`listenTCP` has the reactor's own signature, so that a service takes these ports where it takes a reactor.

Rejected: listening first in `startService` (too late to tell anybody), and binding twice, once as a trial
(another process may take the port in between).
"""

from __future__ import annotations

import errno
import socket
from typing import Any, cast

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IConnector, IListeningPort, IReactorSocket, IReactorTCP
from zope.interface import implementer

# Connections that the kernel holds until they are accepted: RocketMQ's serverSocketBacklog.
BACKLOG = 1024


class PortUnavailable(CannotListenError):
    """The address can't be bound; `str()` is one line with address and reason."""

    @property
    def foreign_address(self) -> bool:
        """Is it the address that's at fault, whatever the port is?"""
        error = self.socketError
        return isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL

    def __str__(self) -> str:
        error = self.socketError
        reason = getattr(error, "strerror", None) or str(error)
        return f"can't listen on {self.interface}:{self.port}: {reason}"


@implementer(IReactorTCP)
class ClaimedPorts:
    """Ports of one process: bound by `claim`, opened by `listenTCP`, given back by `release`.

    SO_REUSEADDR is set: connections of a former process in TIME_WAIT don't hold a port (B146), a listening
    one does.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._claimed: dict[tuple[str, int], socket.socket] = {}

    def claim(self, port: int, interface: str = "") -> None:
        """Bind it; raises PortUnavailable."""
        self._claimed[interface, port] = _bound(interface, port)

    def claim_any(self, interface: str = "") -> int:
        """Bind a free port; which one it is. Raises PortUnavailable."""
        bound = _bound(interface, 0)
        port = int(bound.getsockname()[1])
        self._claimed[interface, port] = bound
        return port

    def listenTCP(
        self, port: int, factory: Any, backlog: int = BACKLOG, interface: str = ""
    ) -> IListeningPort:
        """Serve `factory` on a claimed port, or on any other as the reactor does."""
        claimed = self._claimed.pop((interface, port), None)
        if claimed is None:
            return cast(IReactorTCP, self._reactor).listenTCP(port, factory, backlog, interface)
        with claimed:
            claimed.listen(backlog)
            # The reactor keeps a duplicate.
            adopting = cast(IReactorSocket, self._reactor)
            return adopting.adoptStreamPort(claimed.fileno(), claimed.family, factory)

    def connectTCP(self, *arguments: Any, **named: Any) -> IConnector:
        """The reactor's own."""
        return cast(IReactorTCP, self._reactor).connectTCP(*arguments, **named)

    def release(self) -> None:
        """Give back what was never opened; idempotent."""
        while self._claimed:
            self._claimed.popitem()[1].close()


def _bound(interface: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in interface else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setblocking(False)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((interface, port))
    except OSError as error:
        bound.close()
        raise PortUnavailable(interface or "0.0.0.0", port, error) from None
    return bound
