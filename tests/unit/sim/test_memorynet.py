"""The network in memory: as TCP, on the clock's turns, in the pieces and with the faults that a test wants."""

from __future__ import annotations

from random import Random

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost, ConnectionRefusedError, TimeoutError
from twisted.internet.protocol import Factory
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from hatwisted.remoting.eagerwrite import write_now
from hatwisted.sim.memorynet import MemoryNetwork
from tests.support.connectioncase import ConnectionCase, Peer


class MemoryTests(ConnectionCase, TestCase):
    def setUp(self) -> None:
        self.tcp = MemoryNetwork(reactor).host()


class ClockTests(SynchronousTestCase):
    """On a clock of the test."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.network = MemoryNetwork(self.clock)
        self.served: list[Peer] = []

    def serving(self) -> Factory:
        factory = Factory()
        factory.noisy = False
        factory.buildProtocol = lambda address: self.served.append(Peer()) or self.served[-1]  # type: ignore
        return factory

    def connect(self, timeout: float = 30) -> Deferred[Peer]:
        endpoint = self.network.host("10.0.0.1").endpoint("10.0.0.2", 10911, timeout)
        return endpoint.connect(Factory.forProtocol(Peer))

    def test_nothing_moves_but_by_the_clock(self) -> None:
        self.network.host("10.0.0.2").listen(10911, self.serving())
        attempt = self.connect()
        self.assertNoResult(attempt)
        self.clock.advance(0)
        near = self.successResultOf(attempt)
        near.transport.write(b"hello")
        (far,) = self.served
        self.assertEqual(far.got, b"")
        self.clock.advance(0)
        self.assertEqual(far.got, b"hello")
        self.assertEqual(far.transport.getPeer().host, "10.0.0.1")

    def connected(self) -> Peer:
        self.network.host("10.0.0.2").listen(10911, self.serving())
        attempt = self.connect()
        self.clock.advance(0)
        return self.successResultOf(attempt)

    def test_a_direct_write_takes_what_the_kernel_has_room_for_and_overtakes_nothing(self) -> None:
        rooms = iter((3, 100))
        self.network.room = lambda: next(rooms)
        near = self.connected().transport
        for data in (b"hello", b", ", b"world"):
            write_now(near, data)
        self.assertEqual((near.unsent, len(near.dataBuffer)), (12, 9))
        self.clock.advance(0)
        self.assertEqual(self.served[0].got, b"hello, world")
        write_now(near, b"!")
        self.assertEqual((near.unsent, len(near.dataBuffer)), (1, 0))

    def test_a_direct_write_to_a_peer_that_is_gone_is_met_in_the_next_turn(self) -> None:
        near = self.connected()
        self.network.vanish("10.0.0.2", told=True)
        self.assertIsInstance(near.transport.writeSomeData(b"hello"), ConnectionLost)
        write_now(near.transport, b"hello")
        self.assertIsNone(near.reason)
        self.clock.advance(0)
        self.assertIs(near.reason, ConnectionLost)

    def test_an_end_whose_other_end_went_unheard_is_half_open_until_it_writes(self) -> None:
        near = self.connected()
        self.assertFalse(self.network.half_open("10.0.0.1", "10.0.0.2"))
        self.network.vanish("10.0.0.2", told=False)
        self.assertTrue(self.network.half_open("10.0.0.1", "10.0.0.2"))
        self.assertFalse(self.network.half_open("10.0.0.1", "10.0.0.3"))
        self.assertFalse(self.network.half_open("10.0.0.2", "10.0.0.1"))
        near.transport.write(b"hello")
        self.clock.advance(0)
        self.assertIs(near.reason, ConnectionLost)
        self.assertFalse(self.network.half_open("10.0.0.1", "10.0.0.2"))

    def test_a_kernels_buffer_has_an_end(self) -> None:
        near = self.connected().transport
        self.served[0].transport.pauseProducing()
        for _ in range(5):
            write_now(near, bytes(20 << 10))
        self.assertEqual((near.unsent, len(near.dataBuffer)), (100 << 10, 36 << 10))

    def test_latency_and_pieces_keep_the_order(self) -> None:
        dice = Random(1)
        self.network.latency = lambda: dice.random() * 0.01
        self.network.piece = lambda waiting: dice.randint(1, 7)
        self.network.host("10.0.0.2").listen(10911, self.serving())
        attempt = self.connect()
        self.clock.advance(0.01)
        data = dice.randbytes(500)
        self.successResultOf(attempt).transport.write(data)
        self.clock.pump([0.01] * 500)
        self.assertEqual(self.served[0].got, data)
        self.assertGreater(len(self.served[0].reads), 500 // 7)

    def test_a_cut_loses_what_is_under_way_and_tells_both_ends(self) -> None:
        self.network.host("10.0.0.2").listen(10911, self.serving())
        attempt = self.connect()
        self.clock.advance(0)
        near = self.successResultOf(attempt)
        near.transport.write(b"lost")
        self.network.cut()
        self.clock.advance(1)
        self.assertEqual((near.reason, self.served[0].reason), (ConnectionLost, ConnectionLost))
        self.assertEqual((self.served[0].got, self.network.transports), (b"", []))

    def test_a_network_that_is_down_refuses(self) -> None:
        self.network.host("10.0.0.2").listen(10911, self.serving())
        self.network.up = False
        attempt = self.connect()
        self.clock.advance(0)
        self.failureResultOf(attempt, ConnectionRefusedError)

    def test_a_silent_host_costs_the_timeout(self) -> None:
        self.network.silent_hosts.add("10.0.0.2")
        attempt = self.connect(timeout=3)
        self.clock.advance(2.9)
        self.assertNoResult(attempt)
        self.clock.advance(0.1)
        self.failureResultOf(attempt, TimeoutError)

    def test_free_ports_are_all_different(self) -> None:
        host = self.network.host("10.0.0.2")
        ports = [host.listen(0, self.serving()).getHost().port for _ in range(10)]
        self.assertEqual(len({*ports, host.claim(0)}), 11)
