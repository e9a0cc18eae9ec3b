"""Which queues a stream takes, from when on and how often, asked as Spark asks it. No JVM."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.clientcore.errors import BadSetting
from tests.support.scriptedgroup import BROKER, FIRST_TIME, TOPIC, record
from tests.system.remote import test_queuestream
from tests.system.remote.test_queuestream import OTHER, of


class ChoiceTest(test_queuestream.StreamCase):
    def test_single_queues(self) -> None:
        self.group(10)
        self.group(20, name=OTHER)
        reader = self.stream(topics="", assign=json.dumps({TOPIC: {OTHER: [0]}}))
        at, found = self.trigger(reader, reader.initialOffset())
        self.assertEqual(found, of(OTHER, 20))
        with self.assertRaisesRegex(BadSetting, "has no queue 5 of broker-b"):
            self.stream(topics="", assign=json.dumps({TOPIC: {OTHER: [0, 5]}})).initialOffset()
        both = self.stream(topics="", assign=json.dumps({TOPIC: [0]}))
        self.assertEqual(len(self.trigger(both, both.initialOffset())[1]), 30)

    def test_a_trigger_waits_for_enough_messages(self) -> None:
        master = self.group(10)
        reader = self.stream(minOffsetsPerTrigger="5", maxTriggerDelay="1h")
        at, found = self.trigger(reader, reader.initialOffset())
        self.assertEqual(found, of(BROKER, 10))

        def grow(end: int) -> None:
            master.messages |= {each: record(each) for each in range(master.high, end)}
            master.high = end

        grow(14)
        self.assertEqual(self.trigger(reader, at), (at, []))
        grow(15)
        at, found = self.trigger(reader, at)
        self.assertEqual(found, of(BROKER, 10, 15))
        grow(17)
        reader.prepareForTriggerAvailableNow()
        self.assertEqual(self.trigger(reader, at)[1], of(BROKER, 15, 17))

    def test_a_time_for_each_queue(self) -> None:
        self.group(10)
        self.group(20, name=OTHER)
        times = {TOPIC: {BROKER: {"0": FIRST_TIME + 7}, OTHER: {"0": FIRST_TIME + 15}}}
        reader = self.stream(startingOffsetsByTimestamp=json.dumps(times))
        found = self.trigger(reader, reader.initialOffset())[1]
        self.assertEqual(sorted(found), of(BROKER, 7, 10) + of(OTHER, 15, 20))
        late = {TOPIC: {BROKER: {"0": FIRST_TIME + 70}}}
        with self.assertRaisesRegex(BadSetting, "queue 0 of broker-a has no message stored at"):
            self.stream(startingOffsetsByTimestamp=json.dumps(late)).initialOffset()
