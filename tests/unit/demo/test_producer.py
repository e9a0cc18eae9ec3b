"""The demo's producer and its reading back, against a broker in this process."""

import zlib

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from hatwisted.demo.consumer import Consumer
from hatwisted.demo.inputs import Message
from hatwisted.demo.producer import NOTHING, Producer
from hatwisted.demo.traffic import Traffic
from tests.support.clusterrig import ClusterRig, asynchronous
from tests.support.loopback import loopback_parts

TAGS = b"TAGS\x01red\x02"


class TestProducer(TestCase):
    timeout = 50

    def setUp(self):
        self.rig = ClusterRig(self, parts=loopback_parts())
        return self.rig.start()

    @asynchronous
    async def test_what_is_sent_is_remembered_by_its_place_and_comes_back(self):
        messages = [Message("Demo", b"%d" % n, TAGS) for n in range(120)]
        messages.append(Message("Demo", zlib.compress(b"x" * 9000), TAGS, 0, 1))
        messages += [Message("Other", b"o%d" % n, b"") for n in range(3)]
        producer = Producer(self.rig.new_cluster())
        await Deferred.fromCoroutine(producer.send_all(messages))
        self.assertEqual((producer.statuses, producer.refusals), ({"PUT_OK": 124}, {}))
        stored = sorted(each for place in producer.stored.values() for each in place if each != NOTHING)
        self.assertEqual(stored, sorted(zlib.crc32(message.body) for message in messages))
        consumer = Consumer(self.rig.new_cluster(), reactor, self.rig.brokers["broker-a"].address)
        await consumer.read_all(producer.stored)
        self.assertEqual(consumer.read, 124)

    @asynchronous
    async def test_messages_go_when_they_are_due(self):
        traffic = Traffic(0.5)
        begun = reactor.seconds()
        producer = Producer(self.rig.new_cluster())
        await Deferred.fromCoroutine(producer.send_all(traffic))
        self.assertGreaterEqual(reactor.seconds() - begun, 0.4, "the last ones are due then")
        self.assertEqual(producer.answered, len(list(traffic)))

    @asynchronous
    async def test_refusals_are_counted_by_their_reason(self):
        producer = Producer(self.rig.new_cluster())
        await Deferred.fromCoroutine(producer.send_all([Message("Demo", b"x" * 600_000, b"")]))
        ((reason, count),) = producer.refusals.items()
        self.assertEqual((count, producer.answered), (1, 1))
        self.assertIn("code 13", reason)
