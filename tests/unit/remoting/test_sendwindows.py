"""Messages of an address that wait for its earlier ones to be acknowledged, on a network in memory."""

from __future__ import annotations

import gc
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.endpoints import connectProtocol
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

from hatwisted.remoting.portoptions import PortOptions
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.sendwindows import MAX_UNACKNOWLEDGED, SendWindows
from hatwisted.remoting.server import RemotingConnection
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.wire.remoting import RemotingCommand, encode_command
from tests.support.loopback import loopback
from tests.support.wireclient import WireClient

SEND, ECHO = 902, 903
SIZE = 100


def requests(code: int, *opaques: int) -> bytes:
    return b"".join(encode_command(RemotingCommand(code, opaque)) for opaque in opaques)


class WindowsTests(SynchronousTestCase):
    def test_the_limit_unless_an_operator_sets_another(self) -> None:
        self.assertEqual(SendWindows().most, MAX_UNACKNOWLEDGED)
        options = PortOptions(unacknowledged_bytes=1 << 20)
        factory = RemotingServerFactory(ProcessorTable(), Clock(), options=options)
        self.assertEqual(factory.windows.of("10.0.0.1").most, 1 << 20)

    def test_up_to_the_limit_there_is_room(self) -> None:
        window = SendWindows().of("10.0.0.1")
        window.take(MAX_UNACKNOWLEDGED - 1)
        self.assertFalse(window.full)
        window.take(1)
        self.assertTrue(window.full)
        window.give_back(1)
        self.assertFalse(window.full)

    def test_one_for_each_address_and_each_network(self) -> None:
        windows = SendWindows()
        first, other = windows.of("10.0.0.1"), windows.of("10.0.0.2")
        self.assertIs(first, windows.of("10.0.0.1"))
        self.assertIsNot(first, other)
        network = windows.of("2001:db8::1")
        self.assertIs(network, windows.of("2001:db8::2:0:0:1"))

    def test_of_an_address_that_is_gone_nothing_is_kept(self) -> None:
        windows = SendWindows()
        window = windows.of("10.0.0.1")
        self.assertEqual(len(windows), 1)
        del window
        gc.collect()
        self.assertEqual(len(windows), 0)


class WaitingSends(TestCase):
    """Each message takes SIZE of room for two of them, until the test gives it back."""

    @inlineCallbacks
    def setUp(self):  # type: ignore[no-untyped-def]
        self.clock, self.table = Clock(), ProcessorTable()
        self.taken: list[int] = []
        self.table.register_batch([SEND], self.take)
        self.table.register(ECHO, lambda connection, command: response(command))
        options = PortOptions(unacknowledged_bytes=2 * SIZE)
        self.factory = RemotingServerFactory(self.table, self.clock, options=options)
        self.port = loopback.listenTCP(0, self.factory, interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        self.first, self.second = (yield self.connect()), (yield self.connect())
        self.window = self.factory.windows.of("127.0.0.1")

    @inlineCallbacks
    def connect(self):  # type: ignore[no-untyped-def]
        endpoint = loopback.endpoint("127.0.0.1", self.port.getHost().port)
        client = yield connectProtocol(endpoint, WireClient())
        self.addCleanup(self.close, client)
        return client

    def close(self, client: Any) -> Deferred[None]:
        if client.connected:
            client.transport.abortConnection()
        gone: Deferred[None] = client.gone
        return gone

    def take(self, connection: RemotingConnection, commands: list[RemotingCommand]) -> None:
        self.taken += [command.opaque for command in commands]
        connection.window.take(SIZE * len(commands))

    def answered(self, client: Any) -> list[int]:
        return [answer.opaque for answer in client.commands]

    @inlineCallbacks
    def pass_time(self):  # type: ignore[no-untyped-def]
        for _ in range(10):
            self.clock.advance(0.1)
            yield deferLater(reactor, 0, lambda: None)

    @inlineCallbacks
    def ask(self, client: Any, *opaques: int, code: int = SEND):  # type: ignore[no-untyped-def]
        client.transport.write(requests(code, *opaques))
        yield self.pass_time()

    @inlineCallbacks
    def acknowledge(self, count: int = 1):  # type: ignore[no-untyped-def]
        self.window.give_back(count * SIZE)
        yield self.pass_time()

    @inlineCallbacks
    def test_what_there_is_no_room_for_waits_until_there_is(self):  # type: ignore[no-untyped-def]
        yield self.ask(self.first, 1, 2)
        yield self.ask(self.first, 3)
        yield self.ask(self.first, 4)
        self.assertEqual(self.taken, [1, 2])
        self.assertEqual(self.factory.windows.waits_total, 1)
        yield self.acknowledge()
        self.assertEqual(self.taken, [1, 2, 3])
        yield self.acknowledge()
        self.assertEqual(self.taken, [1, 2, 3, 4])

    @inlineCallbacks
    def test_one_read_is_taken_as_a_whole(self):  # type: ignore[no-untyped-def]
        yield self.ask(self.first, *range(50))
        self.assertEqual(self.taken, [*range(50)])
        self.assertEqual(self.window.used, 50 * SIZE)

    @inlineCallbacks
    def test_connections_of_an_address_share_it_and_go_on_in_their_order(self):  # type: ignore[no-untyped-def]
        third = yield self.connect()
        yield self.ask(self.first, 1, 2)
        for client, opaques in ((self.second, (3, 4)), (third, (5, 6)), (self.first, (7, 8))):
            yield self.ask(client, *opaques)
        self.assertEqual(self.taken, [1, 2])
        for taken in ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8]):
            yield self.acknowledge(2)
            self.assertEqual(self.taken, taken)

    @inlineCallbacks
    def test_other_requests_do_not_wait(self):  # type: ignore[no-untyped-def]
        yield self.ask(self.first, 1, 2)
        self.second.transport.write(requests(ECHO, 3) + requests(SEND, 4) + requests(ECHO, 5))
        yield self.pass_time()
        yield self.ask(self.first, 6, code=ECHO)
        self.assertEqual((self.answered(self.first), self.answered(self.second)), ([6], [3]))
        yield self.acknowledge(2)
        self.assertEqual((self.answered(self.second), self.taken), ([3, 5], [1, 2, 4]))

    @inlineCallbacks
    def test_who_waits_is_not_read_from(self):  # type: ignore[no-untyped-def]
        yield self.ask(self.first, 1, 2)
        yield self.ask(self.first, 3)
        held = self.factory.partial.total
        self.assertGreater(held, 0)
        for opaque in range(4, 9):
            yield self.ask(self.first, opaque)
        self.assertEqual(self.factory.partial.total, held)
        yield self.acknowledge(2)
        self.assertEqual((self.taken, self.factory.partial.total), ([*range(1, 9)], 0))

    @inlineCallbacks
    def test_one_that_goes_away_keeps_nobody_waiting(self):  # type: ignore[no-untyped-def]
        third = yield self.connect()
        yield self.ask(self.first, 1, 2)
        yield self.ask(self.second, 3, 4)
        yield self.ask(third, 5)
        yield self.close(self.second)
        yield self.pass_time()
        yield self.acknowledge()
        self.assertEqual(self.taken, [1, 2, 5])

    @inlineCallbacks
    def test_once_nothing_is_under_way_all_go_on(self):  # type: ignore[no-untyped-def]
        """One that has waited may put nothing: then no acknowledgement follows that would wake the next."""
        yield self.ask(self.first, 1, 2)

        def put_nothing(connection: RemotingConnection, commands: list[RemotingCommand]) -> None:
            self.taken += [command.opaque for command in commands]

        self.table.register_batch([SEND], put_nothing)
        yield self.ask(self.first, 3)
        yield self.ask(self.second, 4)
        self.assertEqual(self.taken, [1, 2])
        yield self.acknowledge(2)
        self.assertEqual(self.taken, [1, 2, 3, 4])
