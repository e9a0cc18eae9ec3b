"""Options of the HA sockets, and how their peers are named."""

from __future__ import annotations

import socket

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import ISystemHandle, ITCPTransport
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import alsoProvides, directlyProvides

from hatwisted.ha.haclient import HAClient
from hatwisted.ha.sockets import SocketSizes, peer_names, tune
from tests.unit.ha.rig import MasterRig, SlaveRig, Wire


class Transport:
    """Notes what is set; its handle is itself."""

    def __init__(self, *provided: object) -> None:
        self.set: list[tuple[object, ...]] = []
        directlyProvides(self, *provided)

    def setTcpNoDelay(self, wanted: bool) -> None:
        self.set.append(("no delay", wanted))

    def getHandle(self) -> Transport:
        return self

    def setsockopt(self, *option: object) -> None:
        self.set.append(option)


class TunedWire(Wire):
    """A wire that knows whether Nagle's algorithm is off."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.no_delay = False
        alsoProvides(self, ITCPTransport)

    def setTcpNoDelay(self, wanted: bool) -> None:
        self.no_delay = wanted


class SocketTests(SynchronousTestCase):
    def tuned(self, *provided: object, send: int = 0, receive: int = 0) -> list[tuple[object, ...]]:
        transport = Transport(*provided)
        tune(transport, SocketSizes(send=send, receive=receive))
        return transport.set

    def test_nagle_is_off_and_buffers_are_the_kernels_unless_configured(self) -> None:
        both = ITCPTransport, ISystemHandle
        sizes = [(socket.SOL_SOCKET, socket.SO_SNDBUF, 1000), (socket.SOL_SOCKET, socket.SO_RCVBUF, 2000)]
        no_delay = ("no delay", True)
        self.assertEqual(self.tuned(*both), [no_delay])
        self.assertEqual(self.tuned(*both, send=1000, receive=2000), [no_delay, *sizes])
        self.assertEqual(self.tuned(*both, receive=2000), [no_delay, sizes[1]])
        self.assertEqual(self.tuned(ITCPTransport, send=1000), [no_delay], "TLS in memory, say")
        self.assertEqual(self.tuned(send=1000), [])

    def test_both_ends_of_a_link_are_tuned(self) -> None:
        for link in (MasterRig().service.new_connection(), HAClient(SlaveRig().service)):
            wire = TunedWire("10.0.0.2")
            link.makeConnection(wire)
            self.assertTrue(wire.no_delay, link)

    def test_a_peer_has_a_name_whatever_its_address(self) -> None:
        self.assertEqual(peer_names(IPv4Address("TCP", "10.0.0.1", 4711)), ("10.0.0.1", "10.0.0.1:4711"))
        self.assertEqual(peer_names(UNIXAddress("/run/a")), ("unknown", "unknown:0"))

    def test_an_IPv4_peer_of_an_IPv6_port_is_named_as_on_the_ports_of_clients(self) -> None:
        """By its host a slave's link and what it asks beside that are known to be one slave's."""
        peer = IPv6Address("TCP", "::ffff:10.0.0.1", 4711)
        self.assertEqual(peer_names(peer), ("10.0.0.1", "10.0.0.1:4711"))
        self.assertEqual(peer_names(IPv6Address("TCP", "fd00::1", 4711)), ("fd00::1", "fd00::1:4711"))
