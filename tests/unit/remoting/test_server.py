"""The remoting server, on a network in memory: who gets answered, and who gets closed."""

import random
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks
from twisted.internet.endpoints import connectProtocol
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import TestCase

from hatwisted.remoting import partialframes, server, serverfactory
from hatwisted.remoting.portoptions import IDLE_LIMIT
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.requestturns import SENDS_SLICE
from hatwisted.remoting.server import WAITING_SIZE, RemotingConnection
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.wire.bodylimits import BODY_LIMITS, MAX_BODY
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import MAX_FRAME, RemotingCommand, encode_command
from tests.support.loopback import loopback
from tests.support.wireclient import WireClient

ECHO = RequestCode.JOIN_CONSUMER_OFFSET  # one that may have a large body
BATCH, BROKEN, LATE, BIG, SLOW = 902, 903, 904, 905, 906


def request(code: int, opaque: int = 1, **more: Any) -> bytes:
    return encode_command(RemotingCommand(code, opaque, **more))


@inlineCallbacks
def turns(count: int = 20):  # type: ignore[no-untyped-def]
    """So many of the reactor's: what was written has come by then, however slow the machine is."""
    for _ in range(count):
        yield deferLater(reactor, 0, lambda: None)


class RemotingServerTests(TestCase):
    @inlineCallbacks
    def setUp(self):  # type: ignore[no-untyped-def]
        self.clock = Clock()
        self.table = ProcessorTable()
        self.batches: list[list[int]] = []
        self.table.register(ECHO, lambda connection, command: response(command, body=command.body))
        self.table.register(BROKEN, self.broken)
        self.table.register(LATE, self.answer_late)
        self.table.register(BIG, lambda connection, command: response(command, body=bytes(1 << 20)))
        self.table.register(SLOW, self.take_long)
        self.order: list[int] = []
        self.table.register_batch([BATCH], self.batch)
        self.factory = RemotingServerFactory(self.table, self.clock)
        self.port = loopback.listenTCP(0, self.factory, interface="127.0.0.1")
        self.addCleanup(self.port.stopListening)
        self.client = yield self.connect()
        self.at_rest = self.clock.getDelayedCalls()

    @inlineCallbacks
    def connect(self):  # type: ignore[no-untyped-def]
        endpoint = loopback.endpoint("127.0.0.1", self.port.getHost().port)
        client = yield connectProtocol(endpoint, WireClient())
        self.addCleanup(self.close, client)
        return client

    def close(self, client: WireClient) -> "Deferred[None]":
        if client.connected:
            client.transport.abortConnection()
        return client.gone

    def answer_late(
        self, connection: RemotingConnection, command: RemotingCommand
    ) -> "Deferred[RemotingCommand]":
        self.order.append(LATE)
        return deferLater(reactor, 0.01, response, command)

    def take_long(self, connection: RemotingConnection, command: RemotingCommand) -> RemotingCommand:
        """As the clock sees it: 20 ms."""
        self.order.append(SLOW)
        self.clock.rightNow += 0.02
        return response(command)

    def broken(self, connection: RemotingConnection, command: RemotingCommand) -> None:
        raise ArithmeticError("no such luck")

    def batch(self, connection: RemotingConnection, commands: list[RemotingCommand]) -> None:
        self.batches.append([command.opaque for command in commands])
        for command in commands:
            connection.reply(command, response(command))

    def batch_that_takes_long(self, connection: RemotingConnection, commands: list[RemotingCommand]) -> None:
        self.batch(connection, commands)
        self.clock.rightNow += SENDS_SLICE

    @inlineCallbacks
    def test_an_answer_carries_the_opaque_and_the_serialisation_of_its_request(self):  # type: ignore[no-untyped-def]
        self.client.transport.write(request(ECHO, 5, body=b"hi") + request(ECHO, 6, body=b"ho", binary=True))
        first, second = yield self.client.answers(2)
        self.assertEqual((first.opaque, first.body, first.binary), (5, b"hi", False))
        self.assertEqual((second.opaque, second.body, second.binary), (6, b"ho", True))
        self.assertEqual({(each.language, each.version) for each in (first, second)}, {("JAVA", 407)})

    @inlineCallbacks
    def test_an_unknown_code_is_answered_never_met_with_silence(self):  # type: ignore[no-untyped-def]
        self.client.transport.write(request(31337, 9))
        (answer,) = yield self.client.answers(1)
        self.assertEqual((answer.code, answer.remark), (3, " request type 31337 not supported"))

    @inlineCallbacks
    def test_B176_a_body_that_no_request_has_is_refused(self):  # type: ignore[no-untyped-def]
        fits, exceeds = (request(LATE, 1, body=bytes(MAX_BODY + more)) for more in (0, 1))
        self.client.transport.write(exceeds + fits + request(ECHO, 2, body=bytes(MAX_BODY + 1)))
        answers = yield self.client.answers(3)
        self.assertEqual([answer.code for answer in answers], [1, 0, 0])
        self.assertEqual(answers[0].remark, "65537 bytes of body, 65536 are allowed")

    @inlineCallbacks
    def test_B176_each_code_has_its_own_limit(self):  # type: ignore[no-untyped-def]
        limits = {code: limit for code, limit in BODY_LIMITS.items() if limit < MAX_FRAME}
        self.assertGreater(min(limits.values()), MAX_BODY)
        for code, limit in limits.items():
            self.table.register(code, lambda connection, command: response(command))
            for size in (limit + 1, limit):
                self.client.transport.write(request(code, body=bytes(size)))
        answers = yield self.client.answers(2 * len(limits))
        self.assertEqual([answer.code for answer in answers], [1, 0] * len(limits))

    @inlineCallbacks
    def test_oneway_is_never_answered(self):  # type: ignore[no-untyped-def]
        self.client.transport.write(request(ECHO, 1, flag=2) + request(31337, 2, flag=2) + request(ECHO, 3))
        yield self.client.answers(1)
        self.assertEqual([answer.opaque for answer in self.client.commands], [3])

    @inlineCallbacks
    def test_consecutive_hot_requests_of_one_read_are_one_batch(self):  # type: ignore[no-untyped-def]
        frames = [request(BATCH, 1), request(BATCH, 2), request(ECHO, 3), request(BATCH, 4)]
        self.client.transport.write(b"".join(frames))
        answers = yield self.client.answers(4)
        self.assertEqual(self.batches, [[1, 2], [4]])
        self.assertEqual([answer.opaque for answer in answers], [1, 2, 3, 4])

    @inlineCallbacks
    def test_a_failing_processor_answers_system_error_and_harms_nobody(self):  # type: ignore[no-untyped-def]
        self.client.transport.write(request(BROKEN, 1) + request(ECHO, 2))
        broken, fine = yield self.client.answers(2)
        self.assertEqual((broken.code, broken.remark), (1, "ArithmeticError: no such luck"))
        self.assertEqual(fine.code, 0)
        self.assertEqual(len(self.flushLoggedErrors(ArithmeticError)), 1)

    @inlineCallbacks
    def test_a_late_answer_still_finds_its_way(self):  # type: ignore[no-untyped-def]
        self.client.transport.write(request(LATE, 1) + request(ECHO, 2))
        answers = yield self.client.answers(2)
        self.assertEqual([answer.opaque for answer in answers], [2, 1])

    @inlineCallbacks
    def test_garbage_closes_that_connection_alone(self):  # type: ignore[no-untyped-def]
        dice = random.Random(7)
        for _ in range(20):
            bad = yield self.connect()
            bad.transport.write(b"\x7f" + dice.randbytes(dice.randrange(8, 4000)))
            yield bad.gone
        self.client.transport.write(request(ECHO, 2))
        yield self.client.answers(1)
        self.assertEqual(self.factory.rejected_total, 20)
        self.assertEqual(len(self.factory.connections), 1)

    @inlineCallbacks
    def test_an_oversized_frame_is_refused_before_it_is_held(self):  # type: ignore[no-untyped-def]
        self.client.transport.write((MAX_FRAME + 1).to_bytes(4, "big"))
        yield self.client.gone
        self.assertEqual(self.factory.partial.total, 0)

    @inlineCallbacks
    def test_B177_who_holds_most_of_incomplete_frames_is_closed_when_there_are_too_many(self):  # type: ignore[no-untyped-def]
        self.patch(partialframes, "MAX_PARTIAL_BYTES", 100_000)
        holder = yield self.connect()
        holder.transport.write(request(ECHO, 1, body=bytes(90_000))[:80_000])
        frame = request(ECHO, 1, body=bytes(40_000))
        for _ in range(3):
            honest = yield self.connect()
            honest.transport.write(frame[:30_000])
            yield turns()
            honest.transport.write(frame[30_000:])
            (answer,) = yield honest.answers(1)
            self.assertEqual(len(answer.body), 40_000)
        yield holder.gone
        self.assertEqual((self.factory.partial.total, self.factory.rejected_total), (0, 1))

    @inlineCallbacks
    def test_B177_requests_that_wait_for_their_turn_count_as_well(self):  # type: ignore[no-untyped-def]
        self.patch(partialframes, "MAX_PARTIAL_BYTES", 100_000)
        self.client.transport.write(request(SLOW) + request(ECHO, 2, body=bytes(30_000)))
        yield self.client.answers(1)
        greedy = yield self.connect()
        greedy.transport.write(request(ECHO, 3, body=bytes(80_000)))
        yield greedy.gone
        self.assertEqual(self.factory.rejected_total, 1)
        self.assertLess(self.factory.partial.total, 40_000)
        self.clock.advance(0)
        self.assertEqual([len(answer.body) for answer in (yield self.client.answers(2))], [0, 30_000])
        self.assertEqual(self.factory.partial.total, 0)

    @inlineCallbacks
    def test_B177_small_ones_count_for_what_they_take(self):  # type: ignore[no-untyped-def]
        frames = b"".join(request(ECHO, number) for number in range(1, 300))
        self.patch(partialframes, "MAX_PARTIAL_BYTES", len(frames) + 200 * WAITING_SIZE)
        self.client.transport.write(request(SLOW) + frames)
        yield self.client.gone
        self.assertEqual((self.factory.rejected_total, self.factory.partial.total), (1, 0))

    @inlineCallbacks
    def test_who_leaves_most_answers_unread_is_closed_when_there_are_too_many(self):  # type: ignore[no-untyped-def]
        self.factory.unread.most = 2 << 20
        self.table.register(BIG, lambda connection, command: response(command, body=bytes(4 << 20)))
        strangers = []
        for _ in range(4):
            stranger = yield self.connect()
            stranger.transport.pauseProducing()
            stranger.transport.write(b"".join(request(BIG, number) for number in range(30)))
            strangers.append(stranger)
            yield turns()
            self.assertLessEqual(self.factory.unread.total, 2 << 20)
        self.assertGreater(self.factory.rejected_total, 0)
        self.client.transport.write(request(ECHO, 2))
        yield self.client.answers(1)
        for stranger in strangers:
            yield self.close(stranger)
        yield turns()
        self.assertEqual(self.factory.unread.total, 0)

    @inlineCallbacks
    def test_B175_requests_that_take_long_take_turns_with_everybody_elses(self):  # type: ignore[no-untyped-def]
        other = yield self.connect()
        frames = [request(SLOW, number) for number in range(6)]
        self.client.transport.write(b"".join([*frames[:5], request(BATCH, 9), *frames[5:]]))
        yield self.client.answers(1)
        other.transport.write(request(LATE, 7) + request(BATCH, 8))
        yield turns()
        self.assertEqual(self.order, [SLOW])
        self.clock.advance(0)
        yield other.answers(2)
        answers = yield self.client.answers(7)
        self.assertEqual([answer.opaque for answer in answers], [0, 1, 2, 3, 4, 9, 5])
        self.assertEqual(self.order, [SLOW, SLOW, LATE, SLOW, SLOW, SLOW, SLOW])

    @inlineCallbacks
    def test_B175_sends_of_all_connections_have_their_slice_and_then_take_turns(self):  # type: ignore[no-untyped-def]
        self.table.register_batch([BATCH], self.batch_that_takes_long)
        crowd = yield gatherResults([self.connect() for _ in range(4)])
        for number, each in enumerate((*crowd, self.client)):
            each.transport.write(request(BATCH, number))
        yield turns()
        self.assertEqual(len(self.batches), 1, "it uses the slice up, and the others wait")
        self.clock.advance(0)
        for each in (*crowd, self.client):
            yield each.answers(1)

    @inlineCallbacks
    def test_sends_that_take_no_time_have_no_turns(self):  # type: ignore[no-untyped-def]
        for number in range(50):
            self.client.transport.write(request(BATCH, number))
            yield self.client.answers(number + 1)
        self.assertEqual(self.clock.getDelayedCalls(), self.at_rest)

    @inlineCallbacks
    def test_B175_nothing_is_read_from_a_client_whose_requests_wait(self):  # type: ignore[no-untyped-def]
        self.client.transport.write(request(SLOW, 1) + request(SLOW, 2))
        yield self.client.answers(1)
        (connection,) = self.factory.connections
        self.client.transport.write(
            b"".join(request(ECHO, number, body=bytes(1000)) for number in range(3000))
        )
        for _ in range(5):
            yield turns()
        self.assertEqual(len(self.client.commands), 1)
        self.assertLess(len(connection._backlog), 1000)
        while len(self.client.commands) < 3002:
            self.clock.advance(0)
            yield deferLater(reactor, 0, lambda: None)

    @inlineCallbacks
    def test_requests_that_wait_end_with_their_connection(self):  # type: ignore[no-untyped-def]
        (connection,) = self.factory.connections
        closed: Deferred[RemotingConnection] = Deferred()
        connection.on_close(closed.callback)
        self.client.transport.write(request(SLOW, 1) + request(SLOW, 2))
        yield self.client.answers(1)
        self.client.transport.abortConnection()
        yield closed
        self.clock.advance(0)
        self.assertEqual(self.order, [SLOW])

    @inlineCallbacks
    def test_a_client_that_never_reads_is_not_read_from_either(self):  # type: ignore[no-untyped-def]
        self.client.transport.pauseProducing()
        frame = request(BIG, 1)
        self.client.transport.write(frame * 40)
        connection = next(iter(self.factory.connections))
        for _ in range(1000):
            yield turns()
            if connection.transport.producerPaused:
                break
        held = connection.transport.unsent
        self.assertTrue(connection.transport.producerPaused)
        self.assertLessEqual(held, server.ANSWER_WINDOW + (2 << 20))
        self.client.transport.resumeProducing()
        answers = yield self.client.answers(40)
        self.assertEqual(len(answers), 40)

    @inlineCallbacks
    def test_a_large_body_keeps_its_place_among_the_others(self):  # type: ignore[no-untyped-def]
        order = (ECHO, BIG, BATCH, ECHO, BIG, BIG, ECHO)
        self.client.transport.write(b"".join(request(code, number) for number, code in enumerate(order)))
        answers = yield self.client.answers(len(order))
        self.assertEqual([answer.opaque for answer in answers], list(range(len(order))))
        self.assertEqual(
            [len(answer.body) for answer in answers], [(1 << 20) * (code == BIG) for code in order]
        )

    @inlineCallbacks
    def test_answers_that_are_not_read_have_their_time(self):  # type: ignore[no-untyped-def]
        (connection,) = self.factory.connections
        self.client.transport.pauseProducing()
        self.client.transport.write(request(BIG, 1) * 40)
        for _ in range(1000):
            yield turns()
            if connection.transport.producerPaused:
                break
        self.clock.advance(IDLE_LIMIT)
        self.assertEqual(self.factory.rejected_total, 0)
        self.clock.advance(IDLE_LIMIT)
        self.client.transport.resumeProducing()
        yield self.client.gone
        self.assertEqual(self.factory.rejected_total, 1, "it's told, and counted, unlike one that is idle")

    @inlineCallbacks
    def test_nothing_more_is_done_for_a_connection_that_is_being_closed(self):  # type: ignore[no-untyped-def]
        """What waits for the client to read would come to a store that has been closed."""
        (connection,) = self.factory.connections
        self.client.transport.pauseProducing()
        self.client.transport.write(request(BIG, 1) * 40 + request(LATE, 2))
        for _ in range(1000):
            yield turns()
            if connection.transport.producerPaused:
                break
        self.assertTrue(connection.transport.producerPaused)
        connection.close()
        self.client.transport.resumeProducing()
        yield self.client.gone
        self.assertLess(len(self.client.commands), 40)
        self.assertEqual(self.order, [])

    @inlineCallbacks
    def test_requests_that_wait_their_turn_end_with_a_polite_close_too(self):  # type: ignore[no-untyped-def]
        (connection,) = self.factory.connections
        self.client.transport.write(request(SLOW, 1) + request(SLOW, 2))
        yield self.client.answers(1)
        connection.close()
        self.clock.advance(0)
        yield self.client.gone
        self.assertEqual(self.order, [SLOW])

    @inlineCallbacks
    def test_an_idle_connection_is_closed_and_a_busy_one_kept(self):  # type: ignore[no-untyped-def]
        busy = yield self.connect()
        self.clock.advance(IDLE_LIMIT)
        busy.transport.write(request(ECHO, 1))
        yield busy.answers(1)
        self.clock.advance(IDLE_LIMIT)
        yield self.client.gone
        self.assertFalse(busy.gone.called)

    @inlineCallbacks
    def test_a_frame_that_does_not_end_has_its_time(self):  # type: ignore[no-untyped-def]
        """A byte now and then keeps nobody in."""
        honest, dripping = (yield self.connect()), self.client
        frame = request(ECHO, 1, body=bytes(1000))
        dripping.transport.write(frame[:100])
        for at in (100, 101):
            honest.transport.write(request(ECHO, at) + frame[:50])  # always a frame begun, always ended
            yield honest.answers(1)
            self.clock.advance(IDLE_LIMIT - 1)
            honest.transport.write(frame[50:])
            dripping.transport.write(frame[at : at + 1])
            yield honest.answers(1)
            self.clock.advance(1)
        self.clock.advance(IDLE_LIMIT - 1)
        dripping.transport.write(frame[102:103])
        honest.transport.write(request(ECHO, 9))
        yield honest.answers(1)
        self.clock.advance(1)
        yield dripping.gone
        self.assertFalse(honest.gone.called)

    @inlineCallbacks
    def test_an_address_has_its_share_of_all_connections(self):  # type: ignore[no-untyped-def]
        self.factory._budget.most = 4
        second, third = (yield self.connect()), (yield self.connect())
        yield third.gone
        self.assertFalse(second.gone.called)
        gone: Deferred[RemotingConnection] = Deferred()
        list(self.factory.connections)[1].on_close(gone.callback)
        second.transport.abortConnection()
        yield gone
        fourth = yield self.connect()
        fourth.transport.write(request(ECHO, 1))
        yield fourth.answers(1)

    @inlineCallbacks
    def test_too_many_connections_are_refused(self):  # type: ignore[no-untyped-def]
        self.patch(serverfactory, "MAX_CONNECTIONS", 1)
        extra = yield self.connect()
        yield extra.gone
        self.client.transport.write(request(ECHO, 1))
        yield self.client.answers(1)

    @inlineCallbacks
    def test_who_listens_for_a_connections_end_hears_of_it_once(self):  # type: ignore[no-untyped-def]
        (connection,) = self.factory.connections
        ended: list[RemotingConnection] = []
        others: list[RemotingConnection] = []
        for _ in range(3):
            connection.on_close(ended.append)
        connection.on_close(others.append)
        gone: Deferred[RemotingConnection] = Deferred()
        connection.on_close(gone.callback)
        self.client.transport.abortConnection()
        yield gone
        self.assertEqual((ended, others), ([connection], [connection]))

    def test_a_table_without_some_codes(self) -> None:
        vip = self.table.without(ECHO, BATCH)
        self.assertNotIn(ECHO, vip.handlers)
        self.assertNotIn(BATCH, vip.batch_handlers)
        self.assertIn(BIG, vip.handlers)
