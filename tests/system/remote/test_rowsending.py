"""The rows of a task on a broker that is slow, refuses or goes away: what is stored, and what is said."""

import unittest

import pyarrow as pa

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.pipeline.remote.batchproducer import BATCH_COUNT
from hatwisted.pipeline.remote.rowcolumns import row_columns
from hatwisted.pipeline.remote.rowmessages import BadRow, RowMessages, RowOptions
from hatwisted.pipeline.remote.rowsending import TaskCounts, WriteFailed, send_rows, total
from hatwisted.wire.codes import ResponseCode
from tests.support.scriptedgroup import BROKER, HANG_UP, TOPIC, ScriptedNameServer, Taker, response

COUNT = 3 * BATCH_COUNT


class TestSending(unittest.TestCase):
    def setUp(self):
        self.broker = self.enterContext(Taker())
        self.names = self.enterContext(ScriptedNameServer({0: self.broker.address}))
        self.settings = ClusterSettings(name_servers=(self.names.address,), retries=1)

    def send(self, bodies, **options):
        batch = pa.RecordBatch.from_pydict({"body": bodies})
        columns = row_columns(batch.schema, topic=options.setdefault("topic", TOPIC))
        messages = RowMessages(RowOptions(columns=columns, **options), "query/0", 0)
        return send_rows(self.settings, "group", messages, [batch])

    def refuse(self, code, remark, after=0):
        self.broker.script = lambda request: (
            response(request, code, remark) if len(self.broker.requests) > after else None
        )

    def test_all_are_stored_and_counted(self):
        bodies = [b"%d" % number for number in range(COUNT)]
        counts = self.send(bodies)
        self.assertEqual(counts, TaskCounts(statuses={"OK": COUNT}, bytes=sum(map(len, bodies))))
        self.assertEqual(sorted(sum(self.broker.stored.values(), [])), sorted(bodies))
        self.assertEqual(total([counts, counts]).messages, 2 * COUNT)

    def test_a_lost_answer_is_a_repetition_that_is_told(self):
        self.broker.script = lambda request: HANG_UP if len(self.broker.requests) == 2 else None
        counts = self.send([b"x"] * COUNT)
        self.assertEqual(counts.messages, COUNT)
        self.assertGreater(counts.resent, 0)

    def test_a_refusal_names_topic_broker_code_and_what_to_do(self):
        self.refuse(ResponseCode.NO_PERMISSION, "sending is forbidden")
        with self.assertRaisesRegex(
            WriteFailed,
            f"{self.broker.address} refuses message 0 for topic {TOPIC} queue 0: code 16 NO_PERMISSION: "
            r"sending is forbidden: give the topic \(updateTopicPerm\) or the account \(PUB\) .* write$",
        ):
            self.send([b"x"])
        self.refuse(ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: No permission")
        with self.assertRaisesRegex(WriteFailed, "AclException.*: see the account"):
            self.send([b"x"])

    def test_a_broker_that_stays_away(self):
        self.broker.script = lambda request: HANG_UP
        told = f"topic {TOPIC} queue 0 of {BROKER}: {self.broker.address}: .*: is it running\\?$"
        with self.assertRaisesRegex(WriteFailed, told):
            self.send([b"x"])

    def test_no_such_topic(self):
        with self.assertRaisesRegex(
            WriteFailed, "topic Nowhere: the name servers don't know it.*: create it"
        ):
            self.send([b"x"], topic="Nowhere")

    def test_a_message_that_the_broker_finds_illegal_fails_the_task(self):
        self.broker.script = lambda request: (
            response(request, ResponseCode.MESSAGE_ILLEGAL, "too long") if b"!" in request.body else None
        )
        with self.assertRaisesRegex(
            WriteFailed, "message 1 is refused by its broker: too long: .*; 2 messages"
        ):
            self.send([b"a", b"!", b"c"])

    def test_a_failure_says_what_is_stored(self):
        self.refuse(ResponseCode.NO_PERMISSION, "read only now", after=2)
        with self.assertRaisesRegex(WriteFailed, f"; {2 * BATCH_COUNT} messages of this task are stored"):
            self.send([b"x"] * (2 * BATCH_COUNT * 40))

    def test_rows_before_a_bad_one_are_counted(self):
        bodies = [b"x"] * 20_000 + [b"y" * (13 << 20)]
        with self.assertRaisesRegex(
            BadRow, "row 20000 of partition 0: a body .* messages of this task are stored"
        ):
            self.send(bodies)
