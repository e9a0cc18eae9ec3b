"""Replies to requests: 324 and 325 in, 326 out to the client that asked."""

import json

import msgspec
from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from tests.unit.broker.rig import NOW, BrokerRig, GroupMember

V2 = {
    "a": "g",
    "b": "DefaultCluster_REPLY_TOPIC",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1795221957475",
    "h": "7",
    "j": "2",
    "k": "false",
    "m": "false",
}
V1 = {
    "producerGroup": "g",
    "topic": "DefaultCluster_REPLY_TOPIC",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "1795221957475",
    "flag": "7",
    "reconsumeTimes": "2",
    "unitMode": "false",
}
TO_ASKER = "REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x01x"


class TestReplies(TestCase):
    @inlineCallbacks
    def setUp(self):
        self.rig = BrokerRig(self)
        self.asker = yield GroupMember.connected(self.rig)
        body = {"clientID": "asker", "producerDataSet": [{"groupName": "p"}]}
        yield self.asker.ask(34, json.dumps(body).encode())

    def reply(self, properties=TO_ASKER, **more):
        return self.rig.ask(325, b"reply", **V2 | {"i": properties} | more)

    @inlineCallbacks
    def test_reply_is_pushed_to_the_client_that_asked(self):
        for code, ext, name in ((325, V2, "i"), (324, V1, "properties")):
            call = self.rig.ask(code, b"reply", **ext | {name: TO_ASKER})
            (push,) = yield self.asker.asked()
            self.asker.requests.clear()
            self.assertEqual((push.code, push.flag, push.body), (326, 0, b"reply"))
            pushed = dict(push.ext)
            peers = {connection.peer for connection in self.rig.factory.connections}
            self.assertIn(pushed.pop("bornHost"), peers)
            now = str(int(NOW * 1000))
            wanted = V1 | {
                "properties": f"{TO_ASKER}\x02PUSH_REPLY_TIME\x01{now}",
                "storeHost": "127.0.0.1:10911",
                "storeTimestamp": now,
            }
            self.assertEqual(pushed, wanted)
            self.asker.answer(push)
            answer = yield call
            self.assertEqual(answer.code, 0)
            fields = {name: answer.ext[name] for name in ("msgId", "queueId", "queueOffset")}
            self.assertEqual(fields, {"msgId": "0", "queueId": "0", "queueOffset": "0"})

    @inlineCallbacks
    def test_client_that_refuses_or_is_silent(self):
        call = self.reply()
        (push,) = yield self.asker.asked()
        self.asker.answer(push, code=1)
        answer = yield call
        self.assertEqual((answer.code, answer.remark), (1, "push reply message to askerfail."))
        call = self.reply()
        yield self.asker.asked(2)
        self.rig.clock.advance(10)
        self.assertEqual((yield call).code, 1)

    @inlineCallbacks
    def test_nobody_to_push_to(self):
        answer = yield self.reply("KEYS\x01k")
        remark = "reply message properties[REPLY_TO_CLIENT] is null"
        self.assertEqual((answer.code, answer.remark), (1, remark))
        answer = yield self.reply("REPLY_TO_CLIENT\x01nobody")
        remark = "push reply message fail, channel of <nobody> not found."
        self.assertEqual((answer.code, answer.remark), (1, remark))
        self.asker.transport.loseConnection()
        yield self.rig.until(lambda: not self.rig.consumers.clients.producers)
        self.assertEqual((yield self.reply()).code, 1)

    @inlineCallbacks
    def test_bad_fields_and_topics(self):
        answer = yield self.reply(d="x")
        self.assertEqual((answer.code, answer.remark), (1, "request field d has the value 'x'"))
        answer = yield self.reply(b="UNKNOWN")
        self.assertEqual(answer.code, 17)
        topics = self.rig.tables.topics
        self.assertIsNone(topics.get("UNKNOWN"))
        topics.put(msgspec.structs.replace(topics.get("DefaultCluster_REPLY_TOPIC"), perm=4))
        self.assertEqual((yield self.reply()).code, 16)

    @inlineCallbacks
    def test_one_of_two_groups_gone_the_client_can_still_be_reached(self):
        body = {"clientID": "asker", "producerDataSet": [{"groupName": "p"}, {"groupName": "q"}]}
        yield self.asker.ask(34, json.dumps(body).encode())
        yield self.asker.ask(35, clientID="asker", producerGroup="q")
        call = self.reply()
        (push,) = yield self.asker.asked()
        self.asker.answer(push)
        self.assertEqual((yield call).code, 0)
        yield self.asker.ask(35, clientID="asker", producerGroup="p")
        self.assertEqual((yield self.reply()).code, 1)
