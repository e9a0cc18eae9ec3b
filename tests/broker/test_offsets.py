"""Consumers' progress."""

import json
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.offsets import ConsumerOffsetTable
from hatwisted.broker.slavesync import DelayOffsets

GOLDEN = Path(__file__).parent.parent / "golden" / "rocketmq-4.9.7"
ANSWERS = json.loads((GOLDEN / "remoting-answers.json").read_text())


class TestOffsets(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.changes = []
        self.offsets = ConsumerOffsetTable(self.clock, lambda: self.changes.append(1))

    def test_captured_files_come_out_byte_for_byte(self):
        for role in ("master", "slave"):
            content = (GOLDEN / role / "config" / "consumerOffset.json").read_bytes()
            self.offsets.decode(content)
            self.assertEqual(self.offsets.encode(), content)

    def test_commit_and_query(self):
        self.assertIsNone(self.offsets.query("g", "T", 0))
        self.offsets.commit("g", "T", 0, 5)
        self.offsets.commit("g", "T", 0, 3)
        self.assertEqual(self.offsets.query("g", "T", 0), 3)
        self.assertIsNone(self.offsets.query("g", "T", 1))
        self.assertIsNone(self.offsets.query("h", "T", 0))
        self.assertEqual(len(self.changes), 2)

    def test_B103_received_entries_overwrite_and_none_is_removed(self):
        self.offsets.commit("only-here", "T", 0, 9)
        self.offsets.commit("GoldenConsumer", "TopicB", 7, 1)
        self.offsets.merge(ANSWERS["GET_ALL_CONSUMER_OFFSET"]["body"].encode())
        self.assertEqual(self.offsets.query("only-here", "T", 0), 9)
        self.assertEqual(self.offsets.query("GoldenConsumer", "TopicB", 2), 20)
        self.assertIsNone(self.offsets.query("GoldenConsumer", "TopicB", 7))

    def test_answer_is_the_captured_one_with_quoted_keys(self):
        self.offsets.merge(ANSWERS["GET_ALL_CONSUMER_OFFSET"]["body"].encode())
        wanted = {"offsetTable": {"TopicB@GoldenConsumer": {"0": 20, "1": 20, "2": 20}}}
        self.assertEqual(json.loads(self.offsets.encode_compact()), wanted)

    def test_slaves_of_5x_get_a_version_that_changes_with_the_table(self):
        first = json.loads(self.offsets.encode_compact(with_version=True))["dataVersion"]
        self.clock.advance(1)
        self.offsets.commit("g", "T", 0, 1)
        second = json.loads(self.offsets.encode_compact(with_version=True))["dataVersion"]
        self.assertEqual(second, {"counter": first["counter"] + 1, "timestamp": 1000})
        self.assertEqual(json.loads(self.offsets.encode_compact(with_version=True))["dataVersion"], second)

    def test_unreadable_tables_are_refused(self):
        for broken in (
            b"",
            b"[]",
            b"{}",
            b'{"offsetTable":[]}',
            b'{"offsetTable":{"a@b":5}}',
            b'{"offsetTable":{"a":{"x":1}}}',
        ):
            self.assertRaises(ValueError, self.offsets.decode, broken)
            self.assertRaises(ValueError, self.offsets.merge, broken)


class TestDelayOffsets(SynchronousTestCase):
    def test_B104_slaves_file_is_the_answer_as_received(self):
        answer = ANSWERS["GET_ALL_DELAY_OFFSET"]["body"].encode()
        delays = DelayOffsets()
        delays.take(answer)
        self.assertEqual(delays.encode(), (GOLDEN / "slave/config/delayOffset.json").read_bytes())

    def test_masters_file_is_answered_compact(self):
        delays = DelayOffsets()
        self.assertEqual(delays.encode_compact(), b'{"offsetTable":{}}')
        delays.decode((GOLDEN / "master/config/delayOffset.json").read_bytes())
        self.assertEqual(json.loads(delays.encode_compact()), {"offsetTable": {"1": 3, "2": 2}})
        self.assertRaises(ValueError, delays.take, b"nonsense")
        self.assertRaises(ValueError, delays.take, b"[]")
