"""Options of the HA sockets, and their end, the same on both sides.

Nagle off, because a 12-byte frame or an 8-byte report must not wait for the next one. SO_LINGER stays off
(the kernel sends what is left after a close). Buffer sizes stay with the kernel's autotuning unless
configured: fixed 64 KiB buffers are what brought RocketMQ's replication down to 27 MB/s on a link with 2 ms
of delay.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twisted.internet import tcp
from twisted.internet.interfaces import ISSLTransport, ISystemHandle, ITCPTransport, ITransport

from hatwisted.remoting.eagerwrite import carrier
from hatwisted.tls.certificates import names_of
from hatwisted.wire.networks import plain_address

CLOSE_LINGER = 0.5
"""Seconds for the last bytes to leave after a close; then the link is reset. Below the 1 s limit of a stop."""


@dataclass(frozen=True)
class SocketSizes:
    """Socket buffers in bytes; 0 leaves them to the kernel."""

    send: int = 0
    receive: int = 0


def peer_names(address: object) -> tuple[str, str]:
    """A peer's host, and host and port as logs and tools name it, and as the ports of clients do."""
    host = getattr(address, "host", "unknown")
    with suppress(ValueError):
        host = str(plain_address(host))
    return host, f"{host}:{getattr(address, 'port', 0)}"


def socket_below(transport: ITransport | None) -> tcp.Connection | None:
    """The TCP connection that `transport` is, or that carries its TLS; None if there is none."""
    below = carrier(transport)
    return below if isinstance(below, tcp.Connection) else None


def certified_name(transport: object) -> str | None:
    """Whom a peer's certificate names, first of all; None if it showed none."""
    shown: Any = transport.getPeerCertificate() if ISSLTransport.providedBy(transport) else None
    return None if shown is None else next(iter(names_of(shown.to_cryptography())), None)


def tune(transport: object, sizes: SocketSizes) -> None:
    """Set the options on a connected TCP transport; any other transport has none."""
    if not ITCPTransport.providedBy(transport):
        return
    transport.setTcpNoDelay(True)
    if not ISystemHandle.providedBy(transport):
        return
    for option, size in ((socket.SO_SNDBUF, sizes.send), (socket.SO_RCVBUF, sizes.receive)):
        if size:
            handle: Any = transport.getHandle()
            handle.setsockopt(socket.SOL_SOCKET, option, size)
