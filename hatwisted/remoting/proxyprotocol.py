"""A port behind proxies: connections from theirs begin with a PROXY header that says whose they are.

Everything behind it (allow lists, accounts' addresses, limits of an address, the log) sees the client's address.
Only configured proxies are believed, and these have to send the header: whoever may leave it out may also forge
it.
"""

from __future__ import annotations

from typing import Any, Final, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    ITCPTransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.networks import Networks
from hatwisted.wire.proxyheader import ProxyHeaderError, parse_proxy_header

HEADER_TIMEOUT: Final = 10.0
"""Seconds for the header: a proxy sends it with its first packet."""

MAX_WAITING: Final = 1000
"""Connections of a port whose header hasn't come: they aren't counted among a client's yet."""


@implementer(IProtocolFactory)
class ProxiedFactory:
    """A factory whose connections may come through proxies.

    - factory: the server's
    - proxies: networks of those who are believed
    - clock: of the header's time limit, and of the log's throttle
    """

    _log = Logger()

    def __init__(self, factory: IProtocolFactory, proxies: Networks, clock: IReactorTime) -> None:
        self.rejected_total = 0
        self.clock = clock
        self.waiting: set[HeaderReader] = set()
        self._factory = factory
        self._proxies = proxies
        self._throttle = LogThrottle(clock)

    def doStart(self) -> None:
        """See IProtocolFactory."""
        self._factory.doStart()

    def doStop(self) -> None:
        """See IProtocolFactory."""
        for reader in list(self.waiting):
            reader.end()
        self._factory.doStop()

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:
        """See IProtocolFactory."""
        host = getattr(addr, "host", "")
        if host not in self._proxies:
            return self.server_protocol(addr)
        if len(self.waiting) >= MAX_WAITING:
            self.reject(host, f"{MAX_WAITING} connections of proxies wait for their header")
            return None
        return HeaderReader(self)

    def server_protocol(self, addr: IAddress) -> IProtocol | None:
        """Of the client at `addr`; None: it isn't let in."""
        protocol: IProtocol | None = self._factory.buildProtocol(addr)
        return protocol

    def reject(self, host: str, reason: str) -> None:
        """Count and log a connection of the proxy `host` that is closed."""
        self.rejected_total += 1
        left_out = self._throttle.admit(host)
        if left_out is not None:
            self._log.warn(
                "closing a connection of proxy {host}: {reason}{more}",
                host=host,
                reason=reason,
                more=more_like_it(left_out),
            )


class HeaderReader(Protocol):
    """A proxy's connection until its header has been read; then it's the server's protocol that is connected."""

    def __init__(self, port: ProxiedFactory) -> None:
        self._port = port
        self._data = b""
        self._late: IDelayedCall | None = None

    def connectionMade(self) -> None:
        self._port.waiting.add(self)
        self._late = self._port.clock.callLater(HEADER_TIMEOUT, self._reject, "its PROXY header didn't come")

    def dataReceived(self, data: bytes) -> None:
        self._data += data
        try:
            header = parse_proxy_header(self._data)
        except ProxyHeaderError as error:
            self._reject(str(error))
            return
        if header is not None:
            self.end()
            self._begin(header.client, self._data[header.size :])

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.end()

    def end(self) -> None:
        """No header is waited for any more; idempotent."""
        self._port.waiting.discard(self)
        if self._late is not None and self._late.active():
            self._late.cancel()

    def _begin(self, client: tuple[str, int] | None, rest: bytes) -> None:
        transport = cast(Any, self.transport)
        if client is not None:
            kind = IPv6Address if ":" in client[0] else IPv4Address
            address = kind("TCP", *client)
            # Whatever comes after asks the transport who is there. A transport around this one would cost the
            # direct write (`eagerwrite`).
            transport.getPeer = lambda: address
        # Nor is it this host's own if the proxy can't name it, or speaks for itself.
        transport.behind_proxy = True
        behind = self._port.server_protocol(transport.getPeer())
        if behind is None:
            transport.abortConnection()
            return
        transport.protocol = behind
        behind.makeConnection(transport)
        if rest:
            behind.dataReceived(rest)

    def _reject(self, reason: str) -> None:
        self.end()
        transport = cast(ITCPTransport, self.transport)
        self._port.reject(transport.getPeer().host, reason)
        transport.abortConnection()
