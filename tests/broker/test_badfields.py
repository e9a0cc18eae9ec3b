"""Requests about clients with fields missing, empty, of another type or absurd: always answered, never a
traceback, never a closed connection."""

from itertools import product

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from tests.broker.rig import BrokerRig, TalkingClient

CODES = (
    14,
    15,
    34,
    35,
    38,
    41,
    42,
    46,
    203,
    204,
    208,
    222,
    223,
    303,
    307,
    308,
    309,
    314,
    315,
    317,
    324,
    325,
    328,
)
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
    *("defaultTopicQueueNums", "bornTimestamp", "flag", "reconsumeTimes"),
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
    @inlineCallbacks
    def test_every_request_is_answered_whatever_is_in_it(self):
        rig = BrokerRig(self)
        rig.put()
        rig.tables.offsets.commit("g", "T", 0, 1)
        client = yield TalkingClient.connected(rig)
        for code, value in product(CODES, VALUES):
            answer = yield client.ask(code, BODIES[len(value) % len(BODIES)], **dict.fromkeys(NAMES, value))
            self.assertNotIn("Error:", answer.remark or "", (code, value))
        for code, body in product(CODES, BODIES):
            answer = yield client.ask(code, body)
            self.assertNotIn("Error:", answer.remark or "", (code, body))
        self.assertTrue(client.connected)
