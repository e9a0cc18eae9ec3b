"""What brokers and their operators ask of a consumer: running info, a message consumed at once, its standing."""

import json

from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import TestCase

from hatwisted.client.driver import deferred
from hatwisted.clientcore.consumerrequests import MAX_DIRECT
from hatwisted.clientcore.errors import Rejected
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.tasks import Waiter
from hatwisted.wire import fastjson
from hatwisted.wire.messagequeue import parse_queue_key
from hatwisted.wire.remoting import RemotingCommand
from tests.support.clusterrig import ClusterRig, asynchronous


class TestConsumerRequests(TestCase):
    timeout = 50

    def setUp(self):
        self.rig = ClusterRig(self)
        return self.rig.start()

    async def running(self, handle=None, count=3, **more):
        self.cluster = self.rig.new_cluster()
        producer = self.rig.new_cluster().producer("p")
        self.sent = [
            await producer.send(Message(topic="Asked", body=b"%d" % n, order_key="one")) for n in range(count)
        ]
        consumer = self.cluster.consumer(
            "g", {"Asked": "*"}, on_messages=handle, consume_from=ConsumeFrom.FIRST, **more
        )
        await consumer.start()
        return consumer

    async def ask(self, code, **ext):
        """A tool's question to the broker, passed on by it."""
        address = self.rig.brokers["broker-a"].address
        ext = {"consumerGroup": "g", "clientId": self.cluster.client_id, **ext}
        return await deferred(self.rig.new_cluster().session.call(address, code, ext))

    @asynchronous
    async def test_307_running_info_has_what_tools_show(self):
        seen = []
        consumer = await self.running(seen.extend, orderly=True)
        await self.rig.until(lambda: len(seen) == 3)
        answer = await self.ask(307, jstackEnable=True)
        self.assertEqual(answer.code, 0, answer.remark)
        info = fastjson.loads(answer.body)
        queues = {parse_queue_key(key): value for key, value in info["mqTable"].items()}
        self.assertEqual(set(queues), set(consumer.queues))
        (busy,) = [value for value in queues.values() if value["commitOffset"] == 3]
        self.assertEqual((busy["locked"], busy["droped"], busy["cachedMsgCount"]), (True, False, 0))
        self.assertLess(abs(busy["lastLockTimestamp"] - busy["lastPullTimestamp"]), 20_000)
        self.assertEqual(info["properties"]["PROP_CONSUME_TYPE"], "CONSUME_PASSIVELY")
        self.assertTrue(info["properties"]["PROP_CONSUMER_START_TIMESTAMP"].isdigit())
        topics = {each["topic"] for each in info["subscriptionSet"]}
        self.assertEqual(topics, {"Asked", "%RETRY%g"})
        status = info["statusTable"]["Asked"]
        self.assertEqual((round(status["consumeOKTPS"] * 60), round(status["pullTPS"] * 60)), (3, 3))
        self.assertIn("dataReceived", info["jstack"])
        self.assertNotIn("jstack", fastjson.loads((await self.ask(307)).body))

    @asynchronous
    async def test_309_a_message_is_consumed_at_once_and_the_outcome_told(self):
        outcomes = iter([None, None, fail(Rejected("later")), fail(ValueError("no"))])
        seen = []

        def handle(batch):
            seen.append((batch[0].body, batch[0].topic, batch[0].queue.broker_name))
            return next(outcomes)

        await self.running(handle, count=1)
        await self.rig.until(lambda: seen)
        told = []
        for _ in range(3):
            answer = await self.ask(309, msgId=self.sent[0].offset_id)
            self.assertEqual(answer.code, 0, answer.remark)
            told.append(json.loads(answer.body))
        self.assertEqual(
            [each["consumeResult"] for each in told], ["CR_SUCCESS", "CR_LATER", "CR_THROW_EXCEPTION"]
        )
        self.assertEqual([each.get("remark") for each in told], [None, "later", "ValueError: no"])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertEqual((told[0]["order"], told[0]["autoCommit"]), (False, True))
        self.assertEqual(seen, [(b"0", "Asked", "broker-a")] * 4)

    @asynchronous
    async def test_309_reaches_a_loop_too_and_its_progress_is_its_own(self):
        consumer = await self.running(count=1)
        first = await consumer.next_message()
        answer = self.ask(309, msgId=self.sent[0].offset_id)
        asked = Deferred.fromCoroutine(answer)
        again = await consumer.next_message()
        self.assertEqual((again.body, again.queue_offset), (first.body, first.queue_offset))
        consumer.reject(again)
        self.assertEqual(json.loads((await asked).body)["consumeResult"], "CR_LATER")
        self.assertEqual(sum(consumer.progress.values()), 0)
        consumer.settle(first)
        await self.rig.until(lambda: sum(consumer.progress.values()) == 1)

    @asynchronous
    async def test_309_what_cannot_be_read_and_what_is_too_much_are_refused(self):
        waiting = []
        consumer = await self.running(lambda batch: waiting.append(Deferred()) or waiting[-1], count=1)
        bad = consumer._core.on_request("h:1", RemotingCommand(309, body=b"nonsense"))
        self.assertEqual((bad.code, "unreadable message" in bad.remark), (1, True))
        address = self.rig.brokers["broker-a"].address
        record = (
            await deferred(self.rig.new_cluster().session.ask(
                address, 11, {
                    "consumerGroup": "g", "topic": "Asked", "queueId": self.sent[0].queue.queue_id,
                    "queueOffset": 0, "maxMsgNums": 1, "sysFlag": 4, "commitOffset": 0,
                    "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
                },
            ))
        ).body  # fmt: skip
        for _ in range(MAX_DIRECT):
            self.assertIsInstance(consumer._core.on_request("h:1", RemotingCommand(309, body=record)), Waiter)
        self.assertEqual(consumer._core.on_request("h:1", RemotingCommand(309, body=record)).code, 1)
        for each in waiting:
            each.callback(None)
        self.assertIsInstance(consumer._core.on_request("h:1", RemotingCommand(309, body=record)), Waiter)
        waiting[-1].callback(None)

    @asynchronous
    async def test_221_standing_and_a_group_that_has_gone(self):
        seen = []
        consumer = await self.running(seen.extend)
        await self.rig.until(lambda: sum(consumer.progress.values()) == 3)
        answer = consumer._core.on_request("h:1", RemotingCommand(221, ext={"topic": "Asked", "group": "g"}))
        table = fastjson.loads(answer.body)["messageQueueTable"]
        self.assertEqual((answer.code, sorted(table.values())), (0, [0, 0, 0, 3]))
        await consumer.stop()
        gone = self.cluster.session._on_request("h:1", RemotingCommand(307, ext={"consumerGroup": "g"}))
        self.assertEqual((gone.code, gone.remark), (1, "The Consumer Group <g> not exist in this consumer"))

    @asynchronous
    async def test_220_in_both_forms_moves_and_nonsense_does_not(self):
        seen = []
        consumer = await self.running(seen.extend)
        await self.rig.until(lambda: len(seen) == 3)
        queue = self.sent[0].queue
        mapped = (
            b'{"offsetTable":{{"brokerName":"broker-a","queueId":%d,"topic":"Asked"}:1}}' % queue.queue_id
        )
        listed = (
            b'{"offsetTable":[{"brokerName":"broker-a","queueId":%d,"topic":"Asked","offset":2}]}'
            % queue.queue_id
        )
        for body, count in ((mapped, 5), (listed, 6), (b"[]", 6), (b'{"offsetTable":7}', 6)):
            consumer._core.on_request("h:1", RemotingCommand(220, body=body))
            await self.rig.until(lambda count=count: len(seen) == count)
        self.assertEqual([each.body for each in seen], [b"0", b"1", b"2", b"1", b"2", b"2"])
