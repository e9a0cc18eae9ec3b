"""Requests of every code with fields missing, empty, of another type or absurd: always answered, never a
traceback, never a closed connection."""

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.node.masterrole import MasterRole
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.transaction.transactioncheck import CheckOptions
from tests.unit.broker.rig import BrokerRig, GroupMember

NAMES = (
    *("consumerGroup", "producerGroup", "group", "topic", "queueId", "offset", "commitOffset", "timestamp"),
    *(
        "isForce",
        "clientId",
        "msgId",
        "statsName",
        "statsKey",
        "isOrder",
        "srcGroup",
        "destGroup",
        "compareGroup",
    ),
    *("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "m", "properties", "defaultTopic", "sysFlag"),
    *("defaultTopicQueueNums", "bornTimestamp", "flag", "reconsumeTimes", "groupName", "key", "maxNum"),
    *(
        "beginTimestamp",
        "endTimestamp",
        "delayLevel",
        "commitLogOffset",
        "tranStateTableOffset",
        "index",
        "count",
    ),
    *(
        "readQueueNums",
        "writeQueueNums",
        "perm",
        "queueOffset",
        "maxMsgNums",
        "subVersion",
    ),
)
VALUES = ("", "0", "-1", "99999999999999999999", "x", "T", "g", "%s%n{}@@", "ü" * 300, "true")
BODIES = (
    *(
        b"",
        b"{}",
        b"[]",
        b"7",
        b'"x"',
        b"\xff\xfe",
        b'{"clientID":"c","consumerDataSet":[7,{"groupName":[]}]}',
    ),
    *(b"[" * 5000, b'{"clientId":{},"consumerGroup":[]}', b'{"clientId":"c","consumerGroup":"g","mqSet":{}}'),
)


class TestBadFields(TestCase):
    timeout = 60

    @inlineCallbacks
    def test_every_request_is_answered_whatever_is_in_it(self):
        rig = BrokerRig(self, delay_levels=(1000, 5000))
        acks = PutAcks(rig.clock, rig.store.flush, 5.0, None)
        writes = MasterRole(rig.parts, acks, SendState(lambda: 6, "127.0.0.1"), CheckOptions())
        table = rig.table.joined(writes.processors)
        rig.factory.serve(table)
        writes.start()
        rig.put()
        rig.tables.offsets.commit("g", "T", 0, 1)
        client = yield GroupMember.connected(rig)
        codes = sorted({*table.handlers, *table.batch_handlers})
        self.assertGreater(len(codes), 50)
        for code in codes:
            asked = [
                client.ask(code, BODIES[len(value) % len(BODIES)], **dict.fromkeys(NAMES, value))
                for value in VALUES
            ]
            asked += [client.ask(code, body) for body in BODIES]
            for asking, what in zip(asked, [*VALUES, *BODIES], strict=True):
                answer = yield asking
                self.assertNotIn("Error:", answer.remark or "", (code, what))
        self.assertTrue(client.connected)
        rig.turn()
        yield writes.stop()
