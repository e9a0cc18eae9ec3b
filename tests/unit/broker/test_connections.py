"""Who is connected: 203, 204, 328."""

import json

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from tests.unit.broker.rig import NOW, BrokerRig, GroupMember, heartbeat


class TestConnections(TestCase):
    @inlineCallbacks
    def setUp(self):
        self.rig = BrokerRig(self)
        self.client = yield GroupMember.connected(self.rig)
        host = self.client.transport.getHost()
        self.address = f"{host.host}:{host.port}"

    @inlineCallbacks
    def test_consumers(self):
        body = heartbeat("c1", "g", {"T": ("red || blue", 5), "U": ("*", 6)})
        yield self.client.ask(34, json.dumps(body).encode(), language="CPP", version=479)
        answer = yield self.rig.ask(203, consumerGroup="g")
        connection = {"clientAddr": self.address, "clientId": "c1", "language": "CPP", "version": 479}
        red = {
            "classFilterMode": False,
            "codeSet": [112785, 3027034],
            "expressionType": "TAG",
            "subString": "red || blue",
            "subVersion": 5,
            "tagsSet": ["red", "blue"],
            "topic": "T",
        }
        every = red | {"codeSet": [], "tagsSet": [], "subString": "*", "subVersion": 6, "topic": "U"}
        wanted = {
            "connectionSet": [connection],
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionTable": {"T": red, "U": every},
        }
        self.assertEqual((answer.code, json.loads(answer.body)), (0, wanted))

    @inlineCallbacks
    def test_group_offline(self):
        answer = yield self.rig.ask(203, consumerGroup="g")
        self.assertEqual((answer.code, answer.remark), (206, "the consumer group[g] not online"))
        answer = yield self.rig.ask(203)
        self.assertEqual((answer.code, answer.remark), (1, "request field consumerGroup is missing"))

    @inlineCallbacks
    def test_producers(self):
        body = {"clientID": "c1", "producerDataSet": [{"groupName": "p"}, {"groupName": "q"}]}
        yield self.client.ask(34, json.dumps(body).encode())
        answer = yield self.rig.ask(204, producerGroup="p")
        connection = {"clientAddr": self.address, "clientId": "c1", "language": "JAVA", "version": 407}
        self.assertEqual(json.loads(answer.body), {"connectionSet": [connection]})
        answer = yield self.rig.ask(204, producerGroup="r")
        self.assertEqual((answer.code, answer.remark), (1, "the producer group[r] not exist"))
        answer = yield self.rig.ask(328)
        producer = {
            "clientId": "c1",
            "language": "JAVA",
            "lastUpdateTimestamp": int(NOW * 1000),
            "remoteIP": f"/{self.address}",
            "version": 407,
        }
        self.assertEqual(json.loads(answer.body), {"data": {"p": [producer], "q": [producer]}})

    @inlineCallbacks
    def test_no_producers(self):
        answer = yield self.rig.ask(328)
        self.assertEqual((answer.code, answer.body), (0, b'{"data":{}}'))
