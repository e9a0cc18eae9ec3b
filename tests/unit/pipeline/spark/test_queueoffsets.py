"""Offsets as JSON, and ranges put together into tasks. No Spark starts."""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path
from typing import cast
from unittest import TestCase
from unittest.mock import patch

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from pyspark.sql.streaming.datasource import ReadAllAvailable

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.tls import Tls
from hatwisted.pipeline.remote.queuepull import QueueRange
from hatwisted.pipeline.spark.queueoffsets import (
    TASK_MESSAGES,
    offsets_json,
    packed,
    parse_offsets,
    stored_offsets,
)
from hatwisted.pipeline.spark.readoptions import BadOption, Limits, OffsetBound
from hatwisted.pipeline.spark.refusedstream import RefusedStream
from hatwisted.pipeline.spark.rocketmqoptions import cluster_settings, place, rocketmq_options
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from hatwisted.wire.messagequeue import MessageQueue


def queue(topic: str, broker: str, number: int) -> MessageQueue:
    return MessageQueue(topic=topic, broker_name=broker, queue_id=number)


class OffsetsTest(TestCase):
    def test_there_and_back_in_an_order_of_its_own(self) -> None:
        offsets = {queue("T", "b", 10): 5, queue("T", "b", 9): 0, queue("A", "b", 0): 1 << 40}
        text = json.dumps(offsets_json(offsets))
        self.assertEqual(text, '{"A": {"b": {"0": 1099511627776}}, "T": {"b": {"9": 0, "10": 5}}}')
        self.assertEqual(stored_offsets(json.loads(text)), offsets)
        self.assertEqual(json.dumps(offsets_json(dict(reversed(offsets.items())))), text)

    def test_ends_by_name(self) -> None:
        found = parse_offsets({"T": {"b": {"0": "latest", "1": 7, "2": "earliest"}}})
        self.assertEqual(list(found.values()), [OffsetBound.LATEST, 7, OffsetBound.EARLIEST])

    def test_ends_by_kafkas_numbers(self) -> None:
        found = parse_offsets({"T": {"b": {"0": -1, "1": -2}}})
        self.assertEqual(list(found.values()), [OffsetBound.LATEST, OffsetBound.EARLIEST])

    def test_what_is_no_offset(self) -> None:
        for wrong in ({"T": 5}, {"T": {"b": 5}}, {"T": {"b": {"x": 5}}}, {"T": {"b": {"0": -3}}}):
            self.assertRaises(ValueError, parse_offsets, wrong)
        for value in (True, 1.5, -1.0, None, "first", "5", [1]):
            self.assertRaises(ValueError, parse_offsets, {"T": {"b": {"0": value}}})


class PackedTest(TestCase):
    def ranges(self, *sizes: int) -> list[QueueRange]:
        return [QueueRange(queue("T", "b", at), 10, 10 + size, {}) for at, size in enumerate(sizes)]

    def test_small_ranges_share_a_task_and_long_ones_stay_whole(self) -> None:
        tasks = packed(self.ranges(5, 0, 7, TASK_MESSAGES * 3, 1))
        self.assertEqual(
            [[each.end - 10 for each in task] for task in tasks], [[5, 7], [TASK_MESSAGES * 3], [1]]
        )

    def test_nothing_to_read(self) -> None:
        self.assertEqual(packed(self.ranges(0, 0)), [])
        self.assertEqual(packed([], 8), [])

    def test_every_offset_once_in_at_least_the_tasks_asked_for(self) -> None:
        dice = random.Random(7)
        for _ in range(200):
            ranges = self.ranges(*(dice.randrange(0, 60) for _ in range(dice.randrange(1, 9))))
            at_least = dice.randrange(1, 30)
            tasks = packed(ranges, at_least)
            wanted = [(each.queue, at) for each in ranges for at in range(each.begin, each.end)]
            got = [(each.queue, at) for task in tasks for each in task for at in range(each.begin, each.end)]
            self.assertEqual(got, wanted)
            self.assertGreaterEqual(len(tasks), min(at_least, len(wanted)))


class OptionsTest(TestCase):
    def options(self, **given: str) -> ClusterSettings:
        return cluster_settings(rocketmq_options({"namesrvAddr": "a:1;b:2", **given}))

    def test_a_cluster(self) -> None:
        settings = cluster_settings(
            rocketmq_options(
                {"NAMESRVADDR": "a:1; b:2", "readfrom": "Master", "retries": "0", "answerTimeoutMs": "500"}
            )
        )
        self.assertEqual(settings.name_servers, ("a:1", "b:2"))
        self.assertEqual((settings.read_from, settings.retries, settings.answer_timeout), ("master", 0, 0.5))
        self.assertIsNone(settings.tls)
        self.assertIsNone(settings.credentials)

    def test_tls_is_on_as_soon_as_something_of_it_is_given(self) -> None:
        settings = cluster_settings(rocketmq_options({"namesrvAddr": "a:1", "tlsVerify": "chain"}))
        assert settings.tls is not None
        self.assertEqual(settings.tls.verify, "chain")

    def test_tls_alone_is_as_the_user_s_file_says(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "properties")
            file.write_text("tls.client.trustCertPath=/ca.pem\ntls.client.authServer=false\n")
            with patch.dict(os.environ, {"HATWISTED_TLS_PROPERTIES": str(file)}):
                for given, tls in (
                    ({"tls": "true"}, Tls("/ca.pem", verify="none")),
                    ({"tls": "true", "tlsVerify": "chain"}, Tls("/ca.pem", verify="chain")),
                    ({"tlsTrustFile": "/mine.pem"}, Tls("/mine.pem")),
                    ({}, None),
                ):
                    self.assertEqual(self.options(**given).tls, tls)
                with patch.dict(os.environ, {"HATWISTED_TLS": "true"}):
                    self.assertEqual(self.options().tls, Tls("/ca.pem", verify="none"))
                    self.assertIsNone(self.options(tls="false").tls)

    def test_mistakes(self) -> None:
        for given, told in (
            ({"readFrom": "slaves"}, "readFrom='slaves' must be slave or master or auto"),
            ({"accessKey": "me"}, "secretKey is missing"),
            ({"tls": "false", "tlsKey": "k"}, "tlsKey and tls=false contradict each other"),
            ({"topicPattern": "x"}, "did you mean topicsPattern"),
            ({"namesrvAddr": ""}, "namesrvAddr is missing"),
        ):
            with self.assertRaisesRegex(BadOption, told):
                self.options(**given)

    def test_a_limit_as_kafkas_source_calls_it(self) -> None:
        options = rocketmq_options({"maxOffsetsPerTrigger": "7"})
        self.assertEqual(Limits.of(options, OffsetBound.EARLIEST).max_records, 7)

    def test_a_streams_mistakes_are_told_when_spark_asks(self) -> None:
        """Spark fails over a reader that couldn't be made, before it tells why."""
        for given, told in (
            ({"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger='much' must be bytes"),
            ({"tlsKey": "k", "tls": "false"}, "contradict"),
            ({"endingOffsets": "latest"}, "a stream has no endingOffsets"),
            ({"namesrvAddr": "nowhere"}, "nowhere"),
        ):
            source = RocketMQSource({"namesrvAddr": "a:1", "topics": "T", **given})
            reader = cast(RefusedStream, source.streamReader(source.schema()))
            for ask in (
                reader.initialOffset,
                reader.getDefaultReadLimit,
                reader.prepareForTriggerAvailableNow,
                lambda reader=reader: reader.latestOffset({}, ReadAllAvailable()),
                lambda reader=reader: reader.partitions({}, {}),
            ):
                with self.assertRaisesRegex((BadOption, BadSetting), told):
                    ask()
            reader.stop()

    def test_places(self) -> None:
        options = rocketmq_options({"startingOffsets": '{"T": {"b": {"0": "first"}}}'})
        with self.assertRaisesRegex(
            BadOption, "startingOffsets=.*offsets by topic, broker and queue.*'first'"
        ):
            place(options, "startingOffsets", OffsetBound.EARLIEST)
        self.assertIs(place(options, "endingOffsets", OffsetBound.LATEST), OffsetBound.LATEST)
