"""The options of the sink `rocketmq`, and what is told of a write. No Spark starts."""

from __future__ import annotations

import pickle
from unittest import TestCase

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from pyspark.sql.types import StringType, StructType

from hatwisted.clientcore.errors import BadSetting
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.remote.rowsending import TaskCounts
from hatwisted.pipeline.spark import rocketmqsink
from hatwisted.pipeline.spark.readoptions import BadOption
from hatwisted.pipeline.spark.rocketmqsink import GROUP, MessageBatchWriter, Sent, SinkOptions
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource

ROWS = StructType().add("value", StringType()).add("key", StringType())
GIVEN = {"namesrvAddr": "127.0.0.1:9876", "topic": "Orders"}


class SinkOptionsTest(TestCase):
    def test_what_tasks_need(self) -> None:
        found = SinkOptions.parse({**GIVEN, "delayLevel": "3", "queues": "any", "tls": "true"}, ROWS)
        found = pickle.loads(pickle.dumps(found))
        self.assertEqual((found.group, found.rows.topic, found.rows.delay_level), (GROUP, "Orders", 3))
        self.assertFalse(found.rows.keep_queues)
        self.assertIsNotNone(found.settings.tls)

    def test_mistakes(self) -> None:
        for told, options in {
            "no option 'topics'; did you mean topic": {"topics": "Orders"},
            "namesrvAddr is missing": {"namesrvAddr": ""},
            "topic TBW102 is the brokers' own": {"topic": "TBW102"},
            "topic 'a b'": {"topic": "a b"},
            "delayLevel='19' must be a number up to 18": {"delayLevel": "19"},
            "queues='all' must be keep or any": {"queues": "all"},
        }.items():
            with self.subTest(told), self.assertRaisesRegex(BadOption, told):
                SinkOptions.parse({**GIVEN, **options}, ROWS)
        with self.assertRaisesRegex(BadSetting, "group 'a b'"):
            SinkOptions.parse({**GIVEN, "group": "a b"}, ROWS)
        with self.assertRaisesRegex(WrongSchema, "no column body"):
            SinkOptions.parse(GIVEN, StructType().add("text", StringType()))

    def test_writers(self) -> None:
        source = RocketMQSource(GIVEN)
        with self.assertRaisesRegex(BadOption, 'use mode\\("append"\\)'):
            source.writer(ROWS, overwrite=True)
        with self.assertRaisesRegex(BadOption, "a stream has no writeId"):
            RocketMQSource({**GIVEN, "writeId": "x"}).streamWriter(ROWS, overwrite=False)


class ToldTest(TestCase):
    def test_a_commit_tells_messages_and_bytes(self) -> None:
        writer = MessageBatchWriter(SinkOptions.parse(GIVEN, ROWS))
        done = [
            Sent(TaskCounts(statuses={"OK": 7}, bytes=70)),
            Sent(TaskCounts(statuses={"OK": 2, "FLUSH_SLAVE_TIMEOUT": 1}, bytes=30, resent=2)),
        ]
        with self.assertLogs(rocketmqsink.__name__, "INFO") as told:
            writer.commit([*done])
        self.assertIn("a write is stored: 10 messages, 100 bytes, 2 of them sent again", told.output[0])
        self.assertIn("1 messages were stored with FLUSH_SLAVE_TIMEOUT", told.output[1])

    def test_an_abort_tells_what_stays(self) -> None:
        writer = RocketMQSource(GIVEN).streamWriter(ROWS, overwrite=False)
        with self.assertLogs(rocketmqsink.__name__, "WARNING") as told:
            writer.abort([Sent(TaskCounts(statuses={"OK": 7}, bytes=70)), None], 4)
        self.assertIn(
            "batch 4 failed; 7 messages (70 bytes) of tasks that had finished are stored", told.output[0]
        )
