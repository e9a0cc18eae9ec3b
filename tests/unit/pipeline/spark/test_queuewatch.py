"""How long a trigger of the source `rocketmq` tries again while nobody answers, counted by its pauses."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import TestCase
from unittest.mock import patch

from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import RETRIES, ClusterSettings
from hatwisted.clientcore.errors import BrokerGone, NoNameServer
from hatwisted.clientcore.rounds import pause_after
from hatwisted.pipeline.remote import clusterreader
from hatwisted.pipeline.remote.clusterreader import ClusterReader
from hatwisted.pipeline.spark.queuewatch import QueueWatch
from hatwisted.pipeline.spark.rocketmqoptions import TopicChoice
from hatwisted.wire.messagequeue import MessageQueue

PAUSES = [pause_after(tried) for tried in range(RETRIES)]
QUEUE = MessageQueue(topic="T", broker_name="broker-a", queue_id=0)
OTHER = MessageQueue(topic="T", broker_name="broker-b", queue_id=0)
SETTINGS = ClusterSettings(name_servers=("127.0.0.1:1",))


def refused(address: str, *more: Any) -> Any:
    raise BrokerGone(f"{address}: refused")


class DeadClusterTests(TestCase):
    """Its name server and its brokers refuse all connections."""

    def setUp(self) -> None:
        self.paused: list[float] = []
        self.lost: list[str] = []

        def clock() -> float:
            return 1_000 + sum(self.paused)

        with patch.object(clusterreader, "Links", partial(Links, connect=refused)):
            self.cluster = ClusterReader(SETTINGS, clock, self.paused.append)
        self.addCleanup(self.cluster.close)
        self.watch = QueueWatch(self.cluster, TopicChoice(("T",), None), 300.0, self.lost.append, clock)

    def test_the_documented_16_seconds_are_the_sum_of_the_pauses(self) -> None:
        self.assertEqual(int(sum(PAUSES)), 16)

    def test_a_streams_first_trigger_tries_as_often_as_is_said(self) -> None:
        with self.assertRaises(NoNameServer):
            self.watch.first_queues()
        self.assertEqual(self.paused, PAUSES)

    def test_so_does_one_that_has_read_something(self) -> None:
        for wait in (False, True):
            self.paused.clear()
            with self.assertRaises(NoNameServer):
                self.watch.queues([QUEUE], wait=wait, retries=RETRIES)
            self.assertEqual(self.paused, PAUSES)

    def test_so_does_one_that_has_read_nothing(self) -> None:
        with self.assertRaises(NoNameServer):
            self.watch.queues([], wait=False, retries=RETRIES)
        self.assertEqual(self.paused, PAUSES)

    def test_so_does_one_that_waits_for_its_brokers(self) -> None:
        with self.assertRaises(BrokerGone):
            self.watch.bounds({QUEUE: {0: "127.0.0.1:1"}, OTHER: {0: "127.0.0.1:2"}}, wait=True)
        self.assertEqual(self.paused, PAUSES)

    def test_one_that_does_not_wait_goes_on_without_them(self) -> None:
        self.assertEqual(self.watch.bounds({QUEUE: {0: "127.0.0.1:1"}}, wait=False), {})
        self.assertEqual(self.paused, [])
