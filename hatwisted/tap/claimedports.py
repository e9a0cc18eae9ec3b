"""Listening ports that are claimed early and opened when their service starts.

A port in use has to be reported before twistd forks, so `claim` binds it while the services are put together. It
listens only from `listen` on: a client that connects earlier would wait in the backlog of a broker that is
still recovering, instead of being refused and trying another.

Rejected: listening first in `startService` (too late to report it), and binding twice, once as a trial
(another process may take the port in between).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.interfaces import IListeningPort, IReactorSocket, IReactorTCP
from zope.interface import implementer

from hatwisted.remoting.interfaces import BACKLOG, IListening, PortUnavailable
from hatwisted.tap.descriptors import NewcomerGuard, room_for_connections


@implementer(IListening)
class ClaimedPorts:
    """Ports of one process: bound by `claim`, opened by `listen`, closed by `release`.

    room: may another connection be accepted?

    SO_REUSEADDR is set: connections of a former process in TIME_WAIT don't block a port (B146), a listening
    socket does.
    """

    def __init__(self, reactor: Any, room: Callable[[], bool] = room_for_connections) -> None:
        self._reactor = reactor
        self._room = room
        self._claimed: dict[tuple[str, int], socket.socket] = {}

    def claim(self, port: int, interface: str = "") -> int:
        """See IListening."""
        bound = _bound(interface, port)
        number = int(bound.getsockname()[1])
        self._claimed[interface, number] = bound
        return number

    def listen(self, port: int, factory: Any, backlog: int = BACKLOG, interface: str = "") -> IListeningPort:
        """See IListening."""
        claimed = self._claimed.pop((interface, port), None)
        factory = NewcomerGuard(factory, self._reactor, self._room)
        if claimed is None:
            return cast(IReactorTCP, self._reactor).listenTCP(port, factory, backlog, interface)
        with claimed:
            claimed.listen(backlog)
            # The reactor keeps a duplicate.
            adopting = cast(IReactorSocket, self._reactor)
            return adopting.adoptStreamPort(claimed.fileno(), claimed.family, factory)

    def release(self, port: int, interface: str = "") -> None:
        """See IListening."""
        claimed = self._claimed.pop((interface, port), None)
        if claimed is not None:
            claimed.close()


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
