"""Triggers that wait for enough messages, but not for ever. No Spark starts."""

from __future__ import annotations

from unittest import TestCase

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.pipeline.spark.readoptions import BadOption
from hatwisted.pipeline.spark.rocketmqoptions import rocketmq_options
from hatwisted.pipeline.spark.triggerpace import TriggerPace


class PaceTest(TestCase):
    now = 1000.0

    def pace(self, **options: str) -> TriggerPace:
        made = TriggerPace.of(rocketmq_options(options))
        made._clock = lambda: self.now
        return made

    def after(self, pace: TriggerPace, seconds: float, waiting: int) -> bool:
        self.now += seconds
        return pace.is_due(waiting)

    def test_few_messages_wait_and_many_dont(self) -> None:
        pace = self.pace(minOffsetsPerTrigger="100", maxTriggerDelay="30s")
        self.assertTrue(self.after(pace, 0, 1))
        self.assertEqual(
            [self.after(pace, 5, count) for count in (0, 99, 100, 99)], [False, False, True, False]
        )

    def test_few_messages_dont_wait_for_ever(self) -> None:
        pace = self.pace(minRecordsPerTrigger="100", maxTriggerDelay="30s")
        self.assertTrue(self.after(pace, 0, 1))
        self.assertEqual(
            [self.after(pace, seconds, 7) for seconds in (20, 9, 1, 29)], [False, False, True, False]
        )

    def test_the_delay_counts_from_the_last_messages(self) -> None:
        """Triggers without any have taken nothing."""
        pace = self.pace(minRecordsPerTrigger="100", maxTriggerDelay="1m")
        self.assertTrue(self.after(pace, 0, 1))
        self.assertTrue(self.after(pace, 61, 0))
        self.assertTrue(self.after(pace, 1, 1))

    def test_without_it_nothing_waits(self) -> None:
        pace = self.pace()
        self.assertEqual([self.after(pace, 0, count) for count in (1, 1, 0)], [True] * 3)

    def test_mistakes(self) -> None:
        for options in (
            {"maxTriggerDelay": "15m"},
            {"maxTriggerDelay": "soon", "minRecordsPerTrigger": "5"},
            {"minRecordsPerTrigger": "0"},
        ):
            with self.subTest(options), self.assertRaises(BadOption):
                self.pace(**options)
