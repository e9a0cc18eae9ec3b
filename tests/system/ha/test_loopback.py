"""Master and slave over real sockets on the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock, LoopingCall
from twisted.trial.unittest import TestCase

from hatwisted.ha import haconnection
from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.master import HAService
from hatwisted.ha.settings import MasterSettings, SlaveSettings
from hatwisted.ha.slave import HAClientService, SlaveParts
from hatwisted.ha.sockets import SocketSizes
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.remoting.tcp import TcpConnecting
from hatwisted.tls.certificates import Identity
from hatwisted.tls.contexts import ClientAuth, client_context, server_context
from hatwisted.tls.tlsconnecting import TlsConnecting
from hatwisted.tls.tlsport import TlsServerFactory
from hatwisted.wire.haframe import FrameReceiver, encode_frames, encode_report
from testbed.processes import free_port
from tests.support.certificate import authority, server_certificate
from tests.support.memorylog import MemoryLog
from tests.support.pattern import pattern

reactor: Any = _reactor
LIMIT = 100.0
"""Seconds that anything here may take before the test fails."""


def until(condition: Callable[[], object]) -> Deferred[Any]:
    """Fires once `condition()` is true."""
    loop = LoopingCall(lambda: loop.stop() if condition() else None)
    return loop.start(0.005).addTimeout(LIMIT, reactor)


class Scripted(Protocol):
    """A peer played by the test."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.lost = False

    def dataReceived(self, data: bytes) -> None:
        self.got += data

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = True


class LoopbackCase(TestCase):
    def setUp(self) -> None:
        self.log: Any = MemoryLog(file_size=1 << 20)
        self.clock: Any = reactor
        self.port = free_port()
        self.ports: list[IListeningPort] = []

    def listen(self, factory: IProtocolFactory) -> IListeningPort:
        port = reactor.listenTCP(self.port, factory, interface="127.0.0.1")
        self.ports.append(port)
        return port

    def connecting(self) -> IConnecting:
        return TcpConnecting(reactor)

    def master(self, **settings: Any) -> HAService:
        group = GroupTransferService(self.clock, LIMIT)
        service = HAService(self.log, self.clock, self.listen, group, MasterSettings(**settings))
        service.startService()
        self.addCleanup(lambda: service.stopService() if service.running else None)
        return service

    def slave(self, log: MemoryLog | None = None, **settings: Any) -> HAClientService:
        service = HAClientService(
            SlaveParts(
                log=log if log is not None else MemoryLog(self.log.file_size),
                clock=self.clock,
                connecting=self.connecting(),
                random=Random(1),
                master_address=lambda: f"127.0.0.1:{self.port}",
            ),
            SlaveSettings(**settings),
        )
        service.startService()
        self.addCleanup(lambda: service.stopService() if service.running else None)
        return service

    @inlineCallbacks
    def copies(self) -> Any:
        """A slave catches up, and takes what is appended then."""
        self.log = MemoryLog(file_size=8 << 20)
        self.log.append(pattern(3_700_000))
        master = self.master(batch_size=10_000)
        slave = self.slave()
        yield until(lambda: slave.log.max_offset == 3_700_000)
        ends = []
        for step in range(200):
            end = self.log.append(pattern(step * 97 % 9000 + 1, seed=step))
            ends.append(master.wait(end, end, reactor.seconds() + LIMIT))
            if step % 20 == 0:
                yield until(lambda: slave.log.max_offset == self.log.max_offset)
        acked = yield ends[-1]
        self.assertEqual(acked, self.log.max_offset)
        self.assertEqual(bytes(slave.log), bytes(self.log))  # type: ignore[call-overload]
        self.assertTrue(all(wait.called for wait in ends))

    @inlineCallbacks
    def stops(self) -> Any:
        """Both sides of an idle link, while the clock stands still: they wait for no timer."""
        self.log.append(pattern(1000))
        master, slave = self.master(), self.slave()
        yield until(lambda: slave.log.max_offset == 1000)
        for service in (slave, master):
            stopped = service.stopService()
            yield until(lambda stopped=stopped: stopped.called)

    @inlineCallbacks
    def peer(self) -> Any:
        """A scripted slave."""
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", self.port)
        peer = Scripted()

        class Factory:
            noisy = False

            def buildProtocol(self, addr: object) -> Scripted:
                return peer

            def doStart(self) -> None: ...

            def doStop(self) -> None: ...

        yield endpoint.connect(Factory())
        self.addCleanup(lambda: peer.transport.abortConnection() if not peer.lost else None)
        return peer


class EncryptedCase(LoopbackCase):
    """With TLS on both ends."""

    def setUp(self) -> None:
        super().setUp()
        shown = server_certificate()
        identity, trust = Identity((shown.certificate,), shown.key), [authority().certificate]
        self.accepting = server_context(identity, trust, ClientAuth.REQUIRE, ["localhost"])
        self.dialling = client_context(identity, trust, peers=["localhost"])

    def listen(self, factory: IProtocolFactory) -> IListeningPort:
        return super().listen(TlsServerFactory(factory, lambda: self.accepting, reactor, plain=False))

    def connecting(self) -> IConnecting:
        return TlsConnecting(super().connecting(), reactor, lambda: self.dialling)


class EncryptedTests(EncryptedCase):
    def test_B88_B185_catch_up_and_live_copy_are_byte_identical(self) -> Any:
        return self.copies()

    def test_B19_B185_both_sides_stop_an_idle_link_within_a_second(self) -> Any:
        self.clock = Clock()
        return self.stops()


class LoopbackTests(LoopbackCase):
    def test_B88_catch_up_and_live_copy_are_byte_identical(self) -> Any:
        return self.copies()

    def test_B19_both_sides_stop_an_idle_link_within_a_second(self) -> Any:
        self.clock = Clock()
        return self.stops()

    @inlineCallbacks
    def test_B19_B152_a_peer_that_reads_nothing_cannot_hold_up_the_stop(self) -> Any:
        self.clock = Clock()
        self.log.append(bytes(1 << 20))
        # So little that the kernel can't take a whole chunk, and some of it has to be given up.
        master = self.master(sockets=SocketSizes(send=50_000))
        peer = yield self.peer()
        peer.transport.write(encode_report(1))
        peer.transport.stopReading()
        for _ in range(30):
            self.log.append(bytes(1 << 20))
        yield until(lambda: master.status()[0].state == "catching up")
        stopped = master.stopService()
        self.clock.advance(0.999)
        yield until(lambda: stopped.called)

    @inlineCallbacks
    def test_B47_a_slow_slave_costs_bounded_memory_and_misses_nothing(self) -> Any:
        master = self.master()
        peer = yield self.peer()
        peer.transport.write(encode_report(0))
        yield until(lambda: master.status()[0].state == "live")
        link = next(iter(master._links))
        peer.transport.stopReading()
        most = 0
        for step in range(40):
            self.log.append(pattern(500_000, seed=step % 3))
            yield until(lambda: True)
            transport = link.transport
            most = max(most, len(transport.dataBuffer) + transport._tempDataLen)
        one_append = 500_000 * 1.01
        self.assertLess(most, haconnection.HA_WRITE_WINDOW + haconnection.CATCH_UP_CHUNK + 2 * one_append)
        peer.transport.startReading()
        received = FrameReceiver()
        copy = bytearray()

        def whole() -> bool:
            for frame in received.receive(bytes(peer.got)):
                self.assertEqual(frame.offset, len(copy))
                copy.extend(frame.body)
            peer.got.clear()
            return len(copy) == self.log.max_offset

        yield until(whole)
        self.assertEqual(bytes(copy), bytes(self.log))

    @inlineCallbacks
    def test_B51_B52_a_master_that_comes_back_is_joined_at_once(self) -> Any:
        self.log.append(pattern(1000))
        first, slave = self.master(), self.slave()
        yield until(lambda: slave.log.max_offset == 1000)
        yield first.stopService()
        self.log.append(pattern(500))
        self.master()
        yield until(lambda: slave.log.max_offset == 1500)
        self.assertEqual(bytes(slave.log), bytes(self.log))  # type: ignore[call-overload]

    @inlineCallbacks
    def test_B27_B146_the_port_can_be_bound_again_at_once_but_not_twice(self) -> Any:
        first = self.master()
        peer = yield self.peer()
        peer.transport.write(encode_report(0))
        yield until(lambda: first.status()[0].state == "live")
        self.assertRaises(CannotListenError, self.master)
        yield first.stopService()
        self.master()

    @inlineCallbacks
    def test_B147_B148_socket_options_on_both_ends(self) -> Any:
        master = self.master(sockets=SocketSizes(send=50_000))
        slave = self.slave()
        yield until(lambda: master.status() and master.status()[0].state == "live")
        for protocol in (next(iter(master._links)), slave._link):
            handle = protocol.transport.getHandle()  # type: ignore[union-attr]
            self.assertTrue(handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            self.assertEqual(handle.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER), 0)
        handle = next(iter(master._links)).transport.getHandle()
        self.assertEqual(handle.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), 100_000)  # Linux doubles it

    @inlineCallbacks
    def test_B147_the_last_bytes_arrive_before_an_orderly_close(self) -> Any:
        self.clock = Clock()  # the peer has time to take them
        self.log.append(pattern(200_000))
        master = self.master()
        peer = yield self.peer()
        peer.transport.write(encode_report(1))
        yield until(lambda: peer.got)
        yield master.stopService()
        yield until(lambda: peer.lost)
        expected = b"".join(encode_frames(1, bytes(self.log)[1:], 32768))
        self.assertEqual(bytes(peer.got), expected)

    @inlineCallbacks
    def test_B36_a_half_closing_peer_is_let_go(self) -> Any:
        master = self.master()
        peer = yield self.peer()
        peer.transport.write(encode_report(0))
        yield until(lambda: master.status() and master.status()[0].state == "live")
        peer.transport.loseWriteConnection()
        yield until(lambda: not master.status())
        self.assertEqual(master.replicas.connection_count, 0)

    @inlineCallbacks
    def test_bad_input_harms_nobody_else(self) -> Any:
        self.log.append(pattern(1000))
        master, slave = self.master(), self.slave()
        random = Random(11)
        for _ in range(20):
            peer = yield self.peer()
            peer.transport.write(b"\x7f" * 8 + random.randbytes(random.randrange(5000)) + b"\x7f" * 8)
            yield until(lambda peer=peer: peer.lost)
            self.assertEqual(bytes(peer.got), b"")
        self.assertEqual(master.unidentified_total, 20)
        end = self.log.append(b"still here")
        acked = yield master.wait(end, end, reactor.seconds() + LIMIT)
        self.assertEqual((acked, slave.log.max_offset), (end, end))
