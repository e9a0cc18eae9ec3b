"""Who is connected: 203, 204, 328."""

import json

from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from hatwisted.broker.admin import connections
from hatwisted.broker.admin.connections import ConnectionProcessors
from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.consumer.heartbeat import parse_heartbeat
from hatwisted.wire.remoting import RemotingCommand
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


class TestSteps(TestCase):
    """One client may fill the table: no answer is made of it in one go."""

    @inlineCallbacks
    def setUp(self):
        self.patch(connections, "MEMBERS_PER_STEP", 2)
        self.patch(connections, "SUBSCRIPTIONS_PER_STEP", 2)
        self.rig = BrokerRig(self)
        for _ in range(5):
            yield GroupMember.connected(self.rig)
        self.keys = list(self.rig.factory.connections)[:5]
        self.clients = ClientTable(Clock(), lambda group, members: None)
        self.processors = ConnectionProcessors(Clock(), self.clients)

    def walked(self, walk, meanwhile=lambda: None):
        """How many steps it took, and the answer's JSON; meanwhile: done after the first."""
        count = 1
        while True:
            try:
                next(walk)
            except StopIteration as end:
                return count, json.loads(end.value.body)
            if count == 1:
                meanwhile()
            count += 1

    def produce(self, key, *groups):
        body = {"clientID": "c", "producerDataSet": [{"groupName": group} for group in groups]}
        self.clients.heartbeat(key, parse_heartbeat(body), "JAVA", 407)

    def test_all_producers_of_many_groups(self):
        self.produce(self.keys[0], *"abcdef")
        steps, answer = self.walked(self.processors.all_producers(None, RemotingCommand(328)))
        self.assertEqual((steps, list(answer["data"])), (3, list("abcdef")))

    def test_members_of_one_group(self):
        for key in self.keys:
            self.produce(key, "p")
        steps, answer = self.walked(self.processors.all_producers(None, RemotingCommand(328)))
        self.assertEqual((steps, len(answer["data"]["p"])), (3, 5))
        request = RemotingCommand(204, ext={"producerGroup": "p"})
        steps, answer = self.walked(self.processors.producers(None, request))
        self.assertEqual((steps, len(answer["connectionSet"])), (3, 5))

    def test_who_leaves_meanwhile_is_left_out(self):
        self.produce(self.keys[0], *"abcdef")
        walk = self.processors.all_producers(None, RemotingCommand(328))
        _, answer = self.walked(walk, lambda: self.clients.unregister(self.keys[0], "e", None))
        self.assertEqual(list(answer["data"]), list("abcdf"))
        for key in self.keys:
            self.produce(key, "p")
        walk = self.processors.producers(None, RemotingCommand(204, ext={"producerGroup": "p"}))
        _, answer = self.walked(walk, lambda: self.clients.closed(self.keys[4]))
        self.assertEqual(
            [each["clientAddr"] for each in answer["connectionSet"]], [k.peer for k in self.keys[:4]]
        )

    def test_consumers(self):
        body = heartbeat("c", "g", dict.fromkeys("TUVWX", ("*", 1)))
        for key in self.keys:
            self.clients.heartbeat(key, parse_heartbeat(body), "JAVA", 407)
        request = RemotingCommand(203, ext={"consumerGroup": "g"})
        steps, answer = self.walked(self.processors.consumers(None, request))
        self.assertEqual((steps, len(answer["connectionSet"])), (5, 5))
        self.assertEqual(list(answer["subscriptionTable"]), list("TUVWX"))
