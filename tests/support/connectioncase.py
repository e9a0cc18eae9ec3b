"""What code may expect of a TCP connection: run over sockets and over the network in memory alike."""

from __future__ import annotations

import contextlib
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.error import CannotListenError, ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.remoting.eagerwrite import outlet, resume_when_writable

BIG = 20 << 20
"""Bytes that no kernel takes from a writer while nobody reads."""


class Peer(Protocol):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.reads: list[int] = []
        self.reason: type[Exception] | None = None

    def dataReceived(self, data: bytes) -> None:
        self.got += data
        self.reads.append(len(data))

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        self.reason = reason.type


@implementer(IHalfCloseableProtocol)
class HalfCloseable(Peer):
    """Lives on when the other side has written all."""

    ended = False

    def readConnectionLost(self) -> None:
        self.ended = True

    def writeConnectionLost(self) -> None: ...


class Clumsy(Peer):
    """Can't stand what it reads."""

    def dataReceived(self, data: bytes) -> None:
        raise ArithmeticError


@implementer(IPushProducer)
class Tap:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.story: list[str] = []

    def pauseProducing(self) -> None:
        self.story.append("pause")

    def resumeProducing(self) -> None:
        self.story.append("resume")

    def stopProducing(self) -> None:
        self.story.append("stop")


class Filling(Tap):
    """Sends as many bytes as the socket takes at a time."""

    def __init__(self, transport: Any) -> None:
        super().__init__()
        self.sent = self.turns = 0
        self._transport = transport

    def resumeProducing(self) -> None:
        self.turns += 1
        socket = outlet(self._transport)
        assert socket is not None, "resumed with bytes of ours in the way"
        with contextlib.suppress(BlockingIOError):
            while self.sent < BIG:
                self.sent += socket.send(bytes(min(BIG - self.sent, 1 << 16)))
            return
        resume_when_writable(self._transport)


class ConnectionCase:
    """Mixed into a TestCase that has a `tcp`: an IReactorTCP."""

    tcp: Any
    timeout = 250  # for a hang

    def until(self, happened: Any) -> Deferred[Any]:
        loop = LoopingCall(lambda: happened() and loop.stop())
        return loop.start(0.001)

    @inlineCallbacks
    def connected(self, client: type[Peer] = Peer, server: type[Peer] = Peer) -> Any:
        """Two connected peers."""
        accepted: list[Peer] = []

        class Accepting(Factory):
            noisy = False

            def buildProtocol(self, address: object) -> Peer:
                accepted.append(server())
                return accepted[-1]

        self.port = self.tcp.listenTCP(0, Accepting(), interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        near = yield self.endpoint().connect(Factory.forProtocol(client))
        yield self.until(lambda: accepted and accepted[0].connected)
        self.addCleanup(self.hang_up, near, accepted[0])
        return near, accepted[0]

    def endpoint(self) -> TCP4ClientEndpoint:
        return TCP4ClientEndpoint(self.tcp, "127.0.0.1", self.port.getHost().port)

    def hang_up(self, *peers: Any) -> Deferred[Any]:
        for peer in peers:
            if peer.reason is None:
                peer.transport.abortConnection()
        return self.until(lambda: all(peer.reason for peer in peers))

    @inlineCallbacks
    def test_bytes_arrive_in_order_both_ways(self) -> Any:
        near, far = yield self.connected()
        for number in range(100):
            near.transport.write(b"%d," % number)
        far.transport.writeSequence([b"a", b"b"])
        want = b"".join(b"%d," % number for number in range(100))
        yield self.until(lambda: len(far.got) >= len(want) and len(near.got) >= 2)
        self.assertEqual((far.got, near.got), (want, b"ab"))

    @inlineCallbacks
    def test_a_read_is_no_bigger_than_the_buffer(self) -> Any:
        near, far = yield self.connected()
        far.transport.bufferSize = 1000
        near.transport.write(bytes(100_000))
        yield self.until(lambda: len(far.got) == 100_000)
        self.assertLessEqual(max(far.reads), 1000)

    @inlineCallbacks
    def test_both_ends_know_each_others_address(self) -> Any:
        near, far = yield self.connected()
        self.assertEqual(near.transport.getPeer(), far.transport.getHost())
        self.assertEqual(far.transport.getPeer(), near.transport.getHost())
        self.assertEqual(near.transport.getPeer().port, self.port.getHost().port)

    @inlineCallbacks
    def test_what_is_queued_arrives_before_an_orderly_close(self) -> Any:
        near, far = yield self.connected()
        near.transport.write(bytes(1 << 20))
        near.transport.loseConnection()
        yield self.until(lambda: near.reason and far.reason)
        self.assertEqual(len(far.got), 1 << 20)
        self.assertEqual((near.reason, far.reason), (ConnectionDone, ConnectionDone))

    @inlineCallbacks
    def test_who_closes_reads_no_more(self) -> Any:
        near, far = yield self.connected()
        near.transport.loseConnection()
        far.transport.write(b"too late")
        yield self.until(lambda: near.reason and far.reason)
        self.assertEqual(near.got, b"")

    @inlineCallbacks
    def test_an_abort_drops_what_is_queued(self) -> Any:
        near, far = yield self.connected()
        far.transport.pauseProducing()
        near.transport.write(bytes(BIG))
        near.transport.abortConnection()
        near.transport.write(b"never")
        yield self.until(lambda: near.reason)
        far.transport.resumeProducing()
        yield self.until(lambda: far.reason)
        self.assertLess(len(far.got), BIG)
        self.assertTrue(issubclass(far.reason, ConnectionLost))

    @inlineCallbacks
    def test_a_close_is_noticed_by_who_reads_again(self) -> Any:
        near, far = yield self.connected()
        far.transport.pauseProducing()
        near.transport.loseConnection()
        yield self.until(lambda: near.reason)
        self.assertIsNone(far.reason)
        far.transport.resumeProducing()
        yield self.until(lambda: far.reason)

    @inlineCallbacks
    def test_a_half_closed_connection_carries_the_other_way(self) -> Any:
        near, far = yield self.connected(HalfCloseable, HalfCloseable)
        near.transport.write(b"question")
        near.transport.loseWriteConnection()
        yield self.until(lambda: far.ended)
        far.transport.write(b"answer")
        far.transport.loseConnection()
        yield self.until(lambda: near.ended)
        self.assertEqual((far.got, near.got), (b"question", b"answer"))
        near.transport.loseConnection()
        yield self.until(lambda: near.reason and far.reason)

    @inlineCallbacks
    def test_a_streaming_producer_is_paused_until_its_peer_has_read(self) -> Any:
        near, far = yield self.connected()
        tap = Tap()
        near.transport.registerProducer(tap, True)
        near.transport.write(b"little")
        self.assertEqual(tap.story, [])
        far.transport.pauseProducing()
        near.transport.write(bytes(BIG))
        self.assertEqual(tap.story, ["pause"])
        far.transport.resumeProducing()
        yield self.until(lambda: len(far.got) == BIG + 6)
        yield self.until(lambda: len(tap.story) > 1)
        self.assertEqual(tap.story, ["pause", "resume"])
        far.transport.loseConnection()
        yield self.until(lambda: near.reason)
        self.assertEqual(tap.story, ["pause", "resume", "stop"])

    @inlineCallbacks
    def test_a_producer_that_fills_the_socket_itself_is_resumed_when_it_is_writable(self) -> Any:
        near, far = yield self.connected()
        near.transport.registerProducer(producer := Filling(near.transport), True)
        far.transport.pauseProducing()
        producer.resumeProducing()
        self.assertEqual(producer.turns, 1)
        self.assertTrue(0 < producer.sent < BIG)
        near.transport.write(b"queued")
        self.assertIsNone(outlet(near.transport), "what is queued goes first")
        sent = producer.sent
        far.transport.resumeProducing()
        yield self.until(lambda: len(far.got) == BIG + 6)
        self.assertEqual(far.got, bytes(sent) + b"queued" + bytes(BIG - sent))
        near.transport.loseConnection()
        self.assertIsNone(outlet(near.transport))

    @inlineCallbacks
    def test_a_pull_producer_is_asked_whenever_there_is_room(self) -> Any:
        near, far = yield self.connected()

        class Three(Tap):
            def resumeProducing(self) -> None:
                super().resumeProducing()
                near.transport.write(b"%d" % len(self.story))
                if len(self.story) == 3:
                    near.transport.unregisterProducer()

        near.transport.registerProducer(Three(), False)
        near.transport.loseConnection()
        yield self.until(lambda: far.reason)
        self.assertEqual(far.got, b"123")

    @inlineCallbacks
    def test_an_error_of_the_reader_costs_the_connection(self) -> Any:
        near, far = yield self.connected(server=Clumsy)
        near.transport.write(b"x")
        yield self.until(lambda: near.reason and far.reason)
        self.assertEqual(far.reason, ArithmeticError)
        self.assertEqual(len(self.flushLoggedErrors(ArithmeticError)), 1)

    @inlineCallbacks
    def test_nobody_listens_or_not_any_more(self) -> Any:
        near, far = yield self.connected()
        with self.assertRaises(CannotListenError):
            self.tcp.listenTCP(self.port.getHost().port, Factory(), interface="127.0.0.1")
        there = self.endpoint()
        yield self.port.stopListening()
        refused = there.connect(Factory.forProtocol(Peer))
        yield self.assertFailure(refused, ConnectionRefusedError)
        near.transport.write(b"still there")
        yield self.until(lambda: far.got)

    @inlineCallbacks
    def test_an_attempt_can_be_given_up(self) -> Any:
        yield self.connected()
        attempt = self.endpoint().connect(Factory.forProtocol(Peer))
        attempt.cancel()
        self.failureResultOf(attempt)

    @inlineCallbacks
    def test_a_factory_that_refuses(self) -> Any:
        class Refusing(Factory):
            noisy = False

            def buildProtocol(self, address: object) -> None:
                return None

        self.port = self.tcp.listenTCP(0, Refusing(), interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        near = yield self.endpoint().connect(Factory.forProtocol(Peer))
        yield self.until(lambda: near.reason)
