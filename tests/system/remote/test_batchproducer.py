"""The producer where brokers are slow, busy or gone: nothing lost, order kept, doubts counted."""

import unittest

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BrokerGone, NoRoute, Refused
from hatwisted.pipeline.remote.batchproducer import BATCH_COUNT, HELD_MESSAGES, REQUESTS, Outgoing, Producer
from hatwisted.wire.codes import RequestCode, ResponseCode
from tests.support.scriptedgroup import HANG_UP, TOPIC, ScriptedNameServer, Taker, response


class TestProducer(unittest.TestCase):
    def setUp(self):
        self.broker = self.enterContext(Taker())
        self.names = self.enterContext(ScriptedNameServer({0: self.broker.address}))
        self.names.queues = 4
        settings = ClusterSettings(name_servers=(self.names.address,), retries=3)
        self.paused = []
        self.driver = self.enterContext(BlockingDriver(Links(settings, sleep=self.paused.append)))
        self.producer = Producer(self.driver, wall_clock=lambda: 1700000000.5)

    def send(self, count, queues=4, **more):
        for number in range(count):
            body = b"%d" % number
            self.producer.send(Outgoing(number, TOPIC, body, queue_id=number % queues, **more))

    def once(self, outcome, when=1):
        """Answer the `when`th send so."""
        sends = []

        def script(request):
            sends.append(request)
            return outcome(request) if len(sends) == when else None

        self.broker.script = script

    def assertStored(self, count, queues=4):
        for queue in range(queues):
            wanted = [b"%d" % number for number in range(queue, count, queues)]
            self.assertEqual(self.broker.stored.get(queue, []), wanted)
        self.assertEqual(self.producer.counts.statuses, {"OK": count})

    def test_neighbours_share_requests(self):
        self.send(4 * 300)
        self.producer.drain()
        self.assertStored(1200)
        self.assertEqual(len(self.broker.requests), 4 * -(-300 // BATCH_COUNT))
        self.assertEqual({request.ext["g"] for request in self.broker.requests}, {"1700000000500"})
        self.assertIsNone(self.producer.first_unsettled())

    def test_what_must_travel_alone_does(self):
        self.send(3, queues=1, alone=True)
        self.producer.drain()
        self.assertEqual(self.broker.codes(), [RequestCode.SEND_MESSAGE_V2] * 3)
        self.assertStored(3, 1)

    def test_what_is_held_is_bounded(self):
        self.send(3 * HELD_MESSAGES)
        unsettled = self.producer.first_unsettled()
        self.assertGreaterEqual(unsettled, 3 * HELD_MESSAGES - HELD_MESSAGES - BATCH_COUNT * REQUESTS)
        self.producer.drain()
        self.assertStored(3 * HELD_MESSAGES)

    def test_a_lost_connection_loses_nothing_and_keeps_order(self):
        self.once(lambda request: HANG_UP, when=3)
        self.send(4 * 300)
        self.producer.drain()
        self.assertGreaterEqual(self.producer.counts.resent, 1)
        self.assertEqual(self.producer.counts.stored, 1200)
        for queue in range(4):
            seen = list(dict.fromkeys(self.broker.stored[queue]))
            self.assertEqual(seen, [b"%d" % number for number in range(queue, 1200, 4)])

    def test_a_busy_broker_is_waited_for(self):
        self.once(lambda request: response(request, ResponseCode.SYSTEM_BUSY, "broker busy"))
        self.send(10)
        self.producer.drain()
        self.assertStored(10)
        self.assertEqual(len(self.paused), 1)
        self.assertEqual(self.producer.counts.resent, 0)

    def test_a_broker_that_stays_busy_is_given_up(self):
        self.broker.script = lambda request: response(request, ResponseCode.SYSTEM_BUSY, "broker busy")
        self.send(10)
        with self.assertRaisesRegex(Refused, "SYSTEM_BUSY"):
            self.producer.drain()
        self.assertEqual(len(self.paused), 3)
        self.assertEqual(self.producer.first_unsettled(), 0)

    def test_what_no_retry_cures_ends_it_at_once(self):
        self.broker.script = lambda request: response(request, ResponseCode.NO_PERMISSION, "read only")
        self.send(10)
        with self.assertRaisesRegex(
            Refused, "message 0 for topic Orders queue 0: code 16 NO_PERMISSION: read only"
        ):
            self.producer.drain()
        self.assertEqual(self.paused, [])

    def test_one_illegal_message_of_a_batch_is_found(self):
        def script(request):
            if b"illegal" in request.body:
                return response(request, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal")
            return None

        self.broker.script = script
        for number, body in enumerate((b"one", b"illegal", b"three")):
            self.producer.send(Outgoing(number, TOPIC, body, queue_id=0))
        self.producer.drain()
        self.assertEqual(self.broker.stored[0], [b"one", b"three"])
        self.assertEqual(self.producer.counts.refused, [(1, "the message is illegal")])

    def test_weaker_statuses_are_counted(self):
        self.once(
            lambda request: response(request, ResponseCode.FLUSH_SLAVE_TIMEOUT, queueId=0, queueOffset=0)
        )
        self.send(10)
        self.producer.drain()
        self.assertEqual(self.producer.counts.statuses, {"FLUSH_SLAVE_TIMEOUT": 3, "OK": 7})

    def test_a_master_that_moved_is_found(self):
        self.send(1)
        other = self.enterContext(Taker())
        self.broker.stop()
        self.names.brokers = {0: other.address}
        self.producer.drain()
        self.assertEqual(other.stored, {0: [b"0"]})

    def test_a_master_that_stays_away(self):
        self.send(1)
        self.broker.stop()
        with self.assertRaises(BrokerGone):
            self.producer.drain()
        self.assertEqual(self.producer.first_unsettled(), 0)

    def test_nowhere_to_write_to(self):
        with self.assertRaisesRegex(NoRoute, "topic Nowhere"):
            self.producer.send(Outgoing(0, "Nowhere", b"x"))
        self.names.brokers = {1: self.broker.address}
        with self.assertRaisesRegex(NoRoute, "topic Orders"):
            self.producer.send(Outgoing(0, TOPIC, b"x"))
