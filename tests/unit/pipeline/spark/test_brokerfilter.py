"""Which conditions brokers are told, and how."""

from __future__ import annotations

from unittest import TestCase

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.clientcore.pullprogress import ALL_AT_ONCE, PullTerms
from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.spark.brokerfilter import MAX_TAGS, broker_filter
from hatwisted.pipeline.spark.filters import conditions
from hatwisted.pipeline.spark.rocketmqoptions import rocketmq_options
from hatwisted.wire.messagequeue import MessageQueue

QUEUE = MessageQueue(topic="Orders", broker_name="broker-a", queue_id=0)


class BrokerFilterTest(TestCase):
    def told(self, *where: Condition, topic: str = "Orders", sql92: str | None = None) -> PullTerms:
        queue = MessageQueue(topic=topic, broker_name="broker-a", queue_id=0)
        return broker_filter(queue, where, sql92)

    def test_tags(self) -> None:
        self.assertEqual(self.told(Condition("tags", "=", "paid")).expression, "paid")
        found = self.told(Condition("queue_id", "=", 1), Condition("tags", "in", ("paid", "open")))
        self.assertEqual((found.expression, found.expression_type), ("paid || open", "TAG"))

    def test_what_is_left_to_the_task(self) -> None:
        for value in ("", " paid", "a||b", "*", None):
            self.assertEqual(self.told(Condition("tags", "in", ("x", value))), ALL_AT_ONCE, repr(value))
        self.assertEqual(self.told(Condition("tags", ">", "paid")), ALL_AT_ONCE)
        self.assertEqual(self.told(Condition("tags", "in", ())), ALL_AT_ONCE)
        many = tuple(map(str, range(MAX_TAGS + 1)))
        self.assertEqual(self.told(Condition("tags", "in", many)), ALL_AT_ONCE)
        for topic in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"):
            self.assertEqual(self.told(Condition("tags", "=", "paid"), topic=topic), ALL_AT_ONCE)

    def test_an_expression_over_properties(self) -> None:
        found = self.told(Condition("tags", "=", "paid"), sql92="a > 5")
        self.assertEqual((found.expression, found.expression_type), ("a > 5", "SQL92"))

    def test_the_option(self) -> None:
        options = rocketmq_options({"tags": "paid, open"})
        self.assertEqual(conditions(options), (Condition("tags", "in", ("paid", "open")),))
