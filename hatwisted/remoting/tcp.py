"""Connecting over TCP, on a reactor."""

from __future__ import annotations

from typing import Any

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IStreamClientEndpoint
from zope.interface import implementer

from hatwisted.remoting.interfaces import IConnecting


@implementer(IConnecting)
class TcpConnecting:
    """An IP address is dialled at once, a name looked up in the reactor's threads first."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def endpoint(self, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
        """See IConnecting."""
        if isIPAddress(host):
            return TCP4ClientEndpoint(self._reactor, host, port, timeout=timeout)
        if isIPv6Address(host):
            return TCP6ClientEndpoint(self._reactor, host, port, timeout=timeout)
        return HostnameEndpoint(self._reactor, host, port, timeout=timeout)
