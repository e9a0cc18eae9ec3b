"""Ports that are bound before the services start, on real loopback sockets."""

from __future__ import annotations

import socket

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol
from twisted.internet.protocol import Protocol, ServerFactory
from twisted.trial.unittest import TestCase

from hatwisted.remoting.interfaces import PortUnavailable
from hatwisted.tap.claimedports import ClaimedPorts
from testbed.processes import free_port

LOOPBACK = "127.0.0.1"


class Greeter(Protocol):
    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(b"hello")
        self.transport.loseConnection()


class Listener(Protocol):
    def __init__(self) -> None:
        self.heard = b""
        self.done: Deferred[bytes] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.heard += data

    def connectionLost(self, reason: object = None) -> None:
        self.done.callback(self.heard)


class Ports(TestCase):
    def setUp(self) -> None:
        self.ports = ClaimedPorts(reactor)

    def claim(self, port: int) -> None:
        self.ports.claim(port, LOOPBACK)
        self.addCleanup(self.ports.release, port, LOOPBACK)

    def other_process_listens(self) -> int:
        listening = socket.create_server((LOOPBACK, 0))
        self.addCleanup(listening.close)
        return int(listening.getsockname()[1])

    def listen(self, port: int) -> None:
        opened = self.ports.listen(port, ServerFactory.forProtocol(Greeter), interface=LOOPBACK)
        self.addCleanup(opened.stopListening)

    @inlineCallbacks
    def assert_greeted(self, port: int):  # type: ignore[no-untyped-def]
        listener = yield connectProtocol(HostnameEndpoint(reactor, LOOPBACK, port), Listener())
        self.assertEqual((yield listener.done), b"hello")

    def test_a_port_in_use_is_one_line(self) -> None:
        port = self.other_process_listens()
        error = self.assertRaises(PortUnavailable, self.ports.claim, port, LOOPBACK)
        self.assertEqual(str(error), f"can't listen on 127.0.0.1:{port}: Address already in use")

    def test_an_address_of_another_host(self) -> None:
        error = self.assertRaises(PortUnavailable, self.ports.claim, 10911, "192.0.2.77")
        self.assertEqual(str(error), "can't listen on 192.0.2.77:10911: Cannot assign requested address")

    def test_a_claimed_port_refuses_connections_until_it_listens(self) -> None:
        port = free_port()
        self.claim(port)
        with socket.socket() as client:
            self.assertRaises(ConnectionRefusedError, client.connect, (LOOPBACK, port))

    @inlineCallbacks
    def test_a_claimed_port_serves_once_it_listens(self):  # type: ignore[no-untyped-def]
        port = free_port()
        self.claim(port)
        self.listen(port)
        yield self.assert_greeted(port)

    @inlineCallbacks
    def test_a_port_nobody_claimed_is_the_reactors(self):  # type: ignore[no-untyped-def]
        port = free_port()
        self.listen(port)
        yield self.assert_greeted(port)

    def test_released_ports_are_free(self) -> None:
        port = free_port()
        self.claim(port)
        self.ports.release(port, LOOPBACK)
        self.ports.release(port, LOOPBACK)
        socket.create_server((LOOPBACK, port)).close()

    @inlineCallbacks
    def test_B146_a_port_is_free_again_at_once(self):  # type: ignore[no-untyped-def]
        port = free_port()
        self.claim(port)
        opened = self.ports.listen(port, ServerFactory.forProtocol(Greeter), interface=LOOPBACK)
        yield self.assert_greeted(port)  # the server closes first and keeps the TIME_WAIT
        yield opened.stopListening()
        self.claim(port)
