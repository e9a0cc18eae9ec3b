"""The network as a server sees it: ports to listen on and addresses to connect to.

Everything that opens a connection or a port is given one of these, so that the same code runs over TCP
(`remoting/tcp.py`, `tap/claimedports.py`) and over a network in memory with its own time.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IStreamClientEndpoint
from zope.interface import Interface

BACKLOG = 1024
"""Connections that the kernel holds until they are accepted: RocketMQ's serverSocketBacklog."""

Listen = Callable[[IProtocolFactory], IListeningPort]
"""Opens one port, known to whoever made this, for a factory. Raises CannotListenError."""


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


class IListening(Interface):
    """Ports of this host. An interface is an IP address of it, "" for all."""

    def claim(port: int, interface: str = "") -> int:
        """Take a port without accepting connections yet, so that one in use is known before the process leaves
        its terminal; returns the port's number, which the system chooses for port 0. Raises PortUnavailable."""

    def listen(
        port: int, factory: IProtocolFactory, backlog: int = BACKLOG, interface: str = ""
    ) -> IListeningPort:
        """Accept connections on a port, claimed before or not. Raises CannotListenError.

        - port: its number; 0: any free one
        - factory: builds the protocols of its connections
        - backlog: connections that may wait to be accepted
        - interface: the address to listen on
        """

    def release(port: int, interface: str = "") -> None:
        """Give a claimed port back unless it has been listened on; idempotent."""


class IConnecting(Interface):
    """Ways to other hosts."""

    def endpoint(host: str, port: int, timeout: float) -> IStreamClientEndpoint:
        """The way to a host.

        - host: name or IP address
        - port: its number
        - timeout: seconds for an attempt to connect
        """
