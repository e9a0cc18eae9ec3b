"""Times as places in queues. No Spark starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast
from unittest import TestCase

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from pyspark.sql.streaming.datasource import ReadAllAvailable

from hatwisted.clientcore.errors import BadSetting
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.positions import Bounds
from hatwisted.pipeline.spark.queuereads import resolve
from hatwisted.pipeline.spark.queuetimes import STRATEGY
from hatwisted.pipeline.spark.readoptions import BadOption, OffsetBound, Start
from hatwisted.pipeline.spark.refusedstream import RefusedStream
from hatwisted.pipeline.spark.rocketmqoptions import place, rocketmq_options
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from hatwisted.wire.messagequeue import MessageQueue

FIRST, HIGH = 1_700_000_000_000, 100
QUEUES: Queues = {MessageQueue(topic="T", broker_name="b", queue_id=number): {} for number in range(4)}
BY_TIME = "startingOffsetsByTimestamp"


class Clocked:
    """A message a millisecond from FIRST on, HIGH of them in each queue."""

    def __init__(self) -> None:
        self.asked = 0

    def offsets_at(self, queues: Queues, bounds: Mapping[MessageQueue, Bounds], at: int) -> dict[Any, int]:
        self.asked += 1
        return dict.fromkeys(queues, max(0, min(at - FIRST, HIGH)))


def start(**options: str) -> Start:
    return place(rocketmq_options(options), "startingOffsets", OffsetBound.EARLIEST)


def tree(*values: object) -> str:
    return json.dumps({"T": {"b": {str(number): value for number, value in enumerate(values)}}})


class TimesTest(TestCase):
    def setUp(self) -> None:
        self.cluster = Clocked()

    def resolved(self, wanted: Start) -> list[int]:
        bounds = {queue: Bounds(0, HIGH, True) for queue in QUEUES}
        found = resolve(cast(ClusterReader, self.cluster), QUEUES, bounds, wanted, OffsetBound.EARLIEST)
        return [found[queue] for queue in QUEUES]

    def test_a_time_for_each_queue(self) -> None:
        self.assertEqual(
            self.resolved(start(**{BY_TIME: tree(FIRST + 7, FIRST + 9, FIRST + 7)})), [7, 9, 7, 0]
        )
        self.assertEqual(self.cluster.asked, 2)

    def test_times_and_offsets_side_by_side(self) -> None:
        iso = datetime.fromtimestamp(FIRST / 1000 + 0.02, UTC).isoformat()
        self.assertEqual(
            self.resolved(start(startingOffsets=tree(5, iso, -1, "latest"))), [5, 20, HIGH, HIGH]
        )

    def test_no_message_that_late(self) -> None:
        late = {BY_TIME: tree(0, FIRST + HIGH)}
        with self.assertRaisesRegex(
            BadSetting, "queue 1 of b has no message stored at 2023-11-14T22:13:20.1"
        ):
            self.resolved(start(**late))
        self.assertEqual(self.resolved(start(**late, **{STRATEGY: "latest"})), [0, HIGH, 0, 0])
        options = rocketmq_options({"endingOffsetsByTimestamp": tree(FIRST + HIGH)})
        self.assertEqual(self.resolved(place(options, "endingOffsets", OffsetBound.LATEST))[0], HIGH)

    def test_a_time_for_all_queues(self) -> None:
        for given in (str(FIRST + 7), datetime.fromtimestamp((FIRST + 7) / 1000, UTC).isoformat()):
            self.assertEqual(self.resolved(start(startingTimestamp=given)), [7] * 4)
        late = {"startingTimestamp": str(FIRST + HIGH)}
        with self.assertRaisesRegex(BadSetting, "has no message stored at 2023-11-14T22:13:20.1"):
            self.resolved(start(**late))
        self.assertEqual(self.resolved(start(**late, **{STRATEGY: "latest"})), [HIGH] * 4)
        options = rocketmq_options({"endingTimestamp": str(FIRST + HIGH)})
        self.assertEqual(self.resolved(place(options, "endingOffsets", OffsetBound.LATEST)), [HIGH] * 4)

    def test_a_time_for_all_and_another_place_contradict_each_other(self) -> None:
        for other in ({"startingOffsets": "latest"}, {BY_TIME: tree(1)}):
            with self.assertRaisesRegex(BadOption, "startingTimestamp='1' must be left out, or startingOff"):
                start(startingTimestamp="1", **other)
        with self.assertRaisesRegex(BadOption, "startingTimestamp='soon' must be a time as"):
            start(startingTimestamp="soon")

    def test_mistakes(self) -> None:
        for wrong in ('{"T": 5}', tree("never"), tree(True), '{"T": {"b": {"x": 5}}}', "[1]", "{"):
            with self.subTest(wrong), self.assertRaises(BadOption):
                start(**{BY_TIME: wrong})
        with self.assertRaisesRegex(BadOption, "both say where"):
            start(**{BY_TIME: tree(1), "startingOffsets": "latest"})
        with self.assertRaisesRegex(BadOption, "must be error or latest"):
            start(**{BY_TIME: tree(1), STRATEGY: "earliest"})
        for name, value in (("endingOffsetsByTimestamp", tree(1)), ("endingTimestamp", "1")):
            source = RocketMQSource({"namesrvAddr": "h:1", "topics": "T", name: value})
            refused = source.streamReader(source.schema())
            assert isinstance(refused, RefusedStream)
            with self.assertRaisesRegex(BadOption, f"a stream has no {name}"):
                refused.latestOffset({}, ReadAllAvailable())
