"""Single queues instead of all of a topic's. No Spark starts."""

from __future__ import annotations

from typing import cast
from unittest import TestCase

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.clientcore.errors import BadSetting
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.spark.readoptions import BadOption
from hatwisted.pipeline.spark.rocketmqoptions import TopicChoice, rocketmq_options
from hatwisted.wire.messagequeue import MessageQueue


class Cluster:
    """Two brokers with two queues of each topic."""

    def queues(self, topics: tuple[str, ...], pattern: str | None) -> Queues:
        return {
            MessageQueue(topic=topic, broker_name=name, queue_id=number): {}
            for topic in topics
            for name in ("a", "b")
            for number in range(2)
        }

    def queues_now(self, topics: tuple[str, ...], pattern: str | None) -> tuple[Queues, frozenset[str]]:
        return self.queues(topics[:1], pattern), frozenset(topics[1:])


def choice(assign: str, **options: str) -> TopicChoice:
    return TopicChoice.of(rocketmq_options({"assign": assign, **options}))


class AssignTest(TestCase):
    cluster = cast(ClusterReader, Cluster())

    def test_queues_of_a_broker_and_of_all(self) -> None:
        chosen = choice('{"T": {"a": [1], "b": [0]}, "U": [1]}')
        self.assertEqual(chosen.topics, ("T", "U"))
        found = [(queue.topic, queue.broker_name, queue.queue_id) for queue in chosen.queues(self.cluster)]
        self.assertEqual(found, [("T", "a", 1), ("T", "b", 0), ("U", "a", 1), ("U", "b", 1)])

    def test_what_is_left_while_a_topic_is_away(self) -> None:
        queues, unknown = choice('{"T": [1], "U": [1]}').queues_now(self.cluster)
        self.assertEqual(({queue.queue_id for queue in queues}, unknown), ({1}, {"U"}))

    def test_a_queue_that_isnt_there(self) -> None:
        with self.assertRaisesRegex(BadSetting, "topic T has no queue 7 of a that can be read"):
            choice('{"T": {"a": [0, 7]}}').queues(self.cluster)
        with self.assertRaisesRegex(BadSetting, "topic T has no queue 9 that"):
            choice('{"T": [9]}').queues(self.cluster)

    def test_mistakes(self) -> None:
        for wrong in (
            "{}",
            "[]",
            '{"T": 5}',
            '{"T": {"a": 5}}',
            '{"T": [-1]}',
            '{"T": ["0"]}',
            '{"T": []}',
            "x",
        ):
            with self.subTest(wrong), self.assertRaises(BadOption):
                choice(wrong)
        with self.assertRaisesRegex(BadOption, "it names topics itself"):
            choice('{"T": [0]}', subscribe="T")
