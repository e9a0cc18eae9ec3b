"""Locks of queues consumed in order: LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

import json

from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from hatwisted.broker.consumer import rebalancelocks
from hatwisted.broker.consumer.rebalancelocks import LOCK_LIFE, MAX_NAME, QueueLocks
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.fastjson import MAX_BARE_REQUEST, MAX_SLOW_REQUEST, MAX_VALUES_REQUEST
from hatwisted.wire.messagequeue import MessageQueue
from tests.unit.broker.rig import BrokerRig


def queue(queue_id, topic="T"):
    return MessageQueue(broker_name="broker-a", queue_id=queue_id, topic=topic)


class TestLocks(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.locks = QueueLocks(self.clock)
        self.addCleanup(self.locks.stop)

    def lock(self, client, *queue_ids, group="g"):
        locked = self.locks.lock(group, [queue(queue_id) for queue_id in queue_ids], client)
        return [each.queue_id for each in locked]

    def unlock(self, client, *queue_ids):
        self.locks.unlock("g", [queue(queue_id) for queue_id in queue_ids], client)

    def test_queue_belongs_to_one_client_of_its_group(self):
        self.assertEqual(self.lock("c1", 0, 1), [0, 1])
        self.assertEqual(self.lock("c2", 1, 2), [2])
        self.assertEqual(self.lock("c2", 1, group="h"), [1])

    def test_lock_lives_60_s_after_its_last_renewal(self):
        self.lock("c1", 0)
        self.clock.advance(40)
        self.assertEqual(self.lock("c1", 0), [0])
        self.clock.advance(LOCK_LIFE)
        self.assertEqual(self.lock("c2", 0), [])
        self.clock.advance(0.001)
        self.assertEqual(self.lock("c2", 0), [0])
        self.assertEqual(self.lock("c1", 0), [])

    def test_what_locks_take_has_a_bound_and_long_names_count_for_what_they_are(self):
        self.patch(rebalancelocks, "MAX_LOCK_BYTES", 5_000)
        self.assertEqual(len(self.lock("c1", *range(30))), 19)
        self.unlock("c1", *range(30))
        self.assertEqual(self.locks._bytes, 0)
        for name, room in (("x" * 1000, 3), ("\U0001f600" * 250, 3)):
            self.assertEqual(len(self.locks.lock("g", [queue(each, name) for each in range(9)], "c1")), room)
            self.clock.advance(LOCK_LIFE + 1)
            self.lock("c" * 900, 0, group="other")
            self.locks.sweep()
            self.assertEqual(len(self.locks), 1)
            self.unlock_all("other", "c" * 900)
            self.assertEqual(self.locks._bytes, 0)

    def unlock_all(self, group, client):
        self.locks.unlock(group, [queue(0)], client)

    def test_a_lapsed_lock_that_another_takes_counts_with_its_name(self):
        self.lock("c1", 0)
        before = self.locks._bytes
        self.clock.advance(LOCK_LIFE + 1)
        self.lock("c" * 102, 0)
        self.assertEqual(self.locks._bytes, before + 100)
        self.unlock("c" * 102, 0)
        self.assertEqual(self.locks._bytes, 0)

    def test_only_its_holder_gives_a_queue_back(self):
        self.lock("c1", 0)
        self.unlock("c2", 0, 5)
        self.assertEqual(self.lock("c2", 0), [])
        self.unlock("c1", 0)
        self.assertEqual(self.lock("c2", 0), [0])

    def test_lapsed_locks_are_forgotten(self):
        self.locks.start()
        self.lock("c1", 0, 1)
        self.clock.pump([50, 10])
        self.lock("c2", 2)
        self.clock.advance(60)
        self.assertEqual(len(self.locks), 1)

    def test_count_of_locks_is_bounded(self):
        self.patch(rebalancelocks, "MAX_LOCKS", 2)
        self.assertEqual(self.lock("c1", 0, 1, 2), [0, 1])
        self.assertEqual(self.lock("c1", 1), [1])


class TestRequests(TestCase):
    def setUp(self):
        self.rig = BrokerRig(self)

    def ask(self, code, client_id, *queue_ids, **more):
        queues = [{"brokerName": "broker-a", "queueId": queue_id, "topic": "T"} for queue_id in queue_ids]
        body = {"clientId": client_id, "consumerGroup": "g", "mqSet": queues, **more}
        return self.rig.ask(code, json.dumps(body).encode())

    @inlineCallbacks
    def test_lock_and_unlock_also_of_5x_clients(self):
        answer = yield self.ask(41, "c1", 0, 3)
        wanted = [{"brokerName": "broker-a", "queueId": queue_id, "topic": "T"} for queue_id in (0, 3)]
        self.assertEqual((answer.code, json.loads(answer.body)), (0, {"lockOKMQSet": wanted}))
        answer = yield self.ask(41, "c2", 3, onlyThisBroker=True)
        self.assertEqual(answer.body, b'{"lockOKMQSet":[]}')
        self.assertEqual((yield self.ask(42, "c1", 3, onlyThisBroker=False)).code, 0)
        answer = yield self.ask(41, "c2", 3)
        self.assertEqual(json.loads(answer.body)["lockOKMQSet"], wanted[1:])

    @inlineCallbacks
    def test_unreadable_bodies_are_answered(self):
        for body in (
            b"",
            b"[]",
            b"{}",
            b'{"consumerGroup":"g","clientId":5}',
            b'{"consumerGroup":"g","clientId":"c","mqSet":7}',
            b'{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"T"}]}',
            b'{"consumerGroup":"%b","clientId":"c"}' % (b"g" * 2000),
            b'{"consumerGroup":"g","clientId":"c","mqSet":[{"brokerName":"%b","queueId":0,"topic":"T"}]}'
            % (b"b" * 2000),
        ):
            for code in (41, 42):
                answer = yield self.rig.ask(code, body)
                self.assertEqual((answer.code, bool(answer.remark)), (1, True), body)

    @inlineCallbacks
    def test_queues_and_names_of_one_request_have_a_number_and_a_length(self):
        self.patch(rebalancelocks, "MAX_QUEUES_PER_REQUEST", 3)
        for queues, group, code in (
            (3, "g", 0),
            (4, "g", 1),
            (1, "g" * MAX_NAME, 0),
            (1, "g" * (MAX_NAME + 1), 1),
        ):
            named = [{"topic": "T", "brokerName": "broker-a", "queueId": n} for n in range(queues)]
            body = {"consumerGroup": group, "clientId": "c", "mqSet": named}
            answer = yield self.rig.ask(RequestCode.LOCK_BATCH_MQ, json.dumps(body).encode())
            self.assertEqual(answer.code, code, (queues, len(group)))

    @inlineCallbacks
    def test_B175_a_body_that_takes_long_to_read_is_not_read(self):
        small = b'{"consumerGroup":"g","clientId":"c","mqSet":[],{}:[' + b"0," * MAX_SLOW_REQUEST + b"0]}"
        bare = b'{"offsetTable":{"T@g":{1:1}}' + b" " * MAX_BARE_REQUEST + b"}"
        many = b'{"offsetTable":{},"clientID":"c","mqSet":[' + b"[]," * MAX_VALUES_REQUEST + b"[]]}"
        large = (41, 42, RequestCode.HEART_BEAT)
        for body, codes in (
            (small, (*large, RequestCode.CHECK_CLIENT_CONFIG, RequestCode.JOIN_CONSUMER_OFFSET)),
            (bare, (*large, RequestCode.JOIN_CONSUMER_OFFSET)),
            (many, (*large, RequestCode.CHECK_CLIENT_CONFIG)),
        ):
            for code in codes:
                answer = yield self.rig.ask(code, body)
                self.assertEqual(answer.code, 1)
                self.assertIn("too many", answer.remark)
