"""A stream of queues, asked as Spark asks it, and its rows read as its tasks do: topics that are created again,
brokers and name servers that go away, limits. No JVM."""

from __future__ import annotations

import json
from typing import Any, cast
from unittest.mock import patch

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from pyspark.sql.streaming.datasource import ReadAllAvailable

from hatwisted.clientcore.errors import BadSetting, BrokerGone, NoRoute, OffsetsGone
from hatwisted.pipeline.spark import streamlag
from hatwisted.pipeline.spark.queuereads import QueuePartition
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from hatwisted.pipeline.spark.rocketmqstream import QueueStreamReader
from hatwisted.wire.codes import RequestCode
from tests.support.scriptedgroup import BROKER, FIRST_TIME, TOPIC, GroupsCase, ScriptedBroker, record

OTHER = "broker-b"
Offsets = dict[str, Any]


def place(**offsets: int) -> Offsets:
    """Offsets of queue 0 by broker, as a checkpoint of an earlier version had them."""
    return {TOPIC: {name.replace("_", "-"): {"0": offset} for name, offset in offsets.items()}}


class StreamCase(GroupsCase):
    """Their topic as a stream."""

    def stream(self, **options: str) -> QueueStreamReader:
        given = {"namesrvAddr": self.names.address, "topics": TOPIC, "retries": "0", **options}
        source = RocketMQSource(given | {"columns": "broker,queue_offset"})
        reader = cast(QueueStreamReader, source.streamReader(source.schema()))
        self.addCleanup(reader.stop)
        return reader

    def rows(self, reader: QueueStreamReader, start: Offsets, end: Offsets) -> list[tuple[str, int]]:
        """As broker and offset; planned from what a checkpoint would give back."""
        parts = reader.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
        batches = [batch for part in parts for batch in reader.read(part)]
        return [(row["broker"], row["queue_offset"]) for batch in batches for row in batch.to_pylist()]

    def trigger(self, reader: QueueStreamReader, start: Offsets) -> tuple[Offsets, list[tuple[str, int]]]:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        return end, self.rows(reader, start, end)


def of(broker: str, *offsets: int) -> list[tuple[str, int]]:
    return [(broker, offset) for offset in range(*offsets)]


def created_again(broker: ScriptedBroker, count: int, later: int = 1_000_000) -> None:
    """The topic was deleted, and has others messages now."""
    broker.messages = {each: record(each, b"anew", stored=1_700_000_000_000 + later) for each in range(count)}
    broker.low, broker.high = 0, count


class AnotherTopicTest(StreamCase):
    def test_a_topic_that_was_created_again_is_noticed_by_its_last_record(self) -> None:
        master = self.group(100)
        reader = self.stream()
        at, found = self.trigger(reader, reader.initialOffset())
        self.assertEqual(found, of(BROKER, 100))
        created_again(master, 150)
        with self.assertRaisesRegex(OffsetsGone, "another message at 99 than the one that was read"):
            reader.latestOffset(at, ReadAllAvailable())
        with self.assertLogs("hatwisted.pipeline.spark", "WARNING") as told:
            end, found = self.trigger(self.stream(failOnDataLoss="false"), at)
        self.assertEqual(found, of(BROKER, 150))
        self.assertIn("another message at 99", told.output[0])
        self.assertEqual(self.trigger(self.stream(), end), (end, []))

    def test_so_is_a_promoted_slave_that_lacked_messages(self) -> None:
        """It has others at the same numbers and the same places of its log; only their store times differ."""
        master = self.group(100)
        reader = self.stream()
        at, _ = self.trigger(reader, reader.initialOffset())
        for offset in range(95, 120):
            master.messages[offset] = record(offset, stored=1_700_000_900_000)
        master.high = 120
        with self.assertRaisesRegex(OffsetsGone, "another message at 99"):
            reader.latestOffset(at, ReadAllAvailable())

    def test_without_being_pulled_if_it_is_large(self) -> None:
        master = self.group(3)
        master.messages[2] = record(2, bytes(100_000))
        reader = self.stream()
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.assertEqual(end[":last"][TOPIC][BROKER]["0"], [400, None])
        self.assertEqual(master.pulls(), [])

    def test_a_broker_that_shows_no_entries(self) -> None:
        master = self.group(100)
        master.shows_entries = False
        reader = self.stream(maxBytesPerTrigger="5k")
        at = reader.initialOffset()
        for _ in range(3):
            at, found = self.trigger(reader, at)
        created_again(master, 150)
        with self.assertRaisesRegex(OffsetsGone, f"another message at {found[-1][1]}"):
            reader.latestOffset(at, ReadAllAvailable())

    def test_the_same_messages_at_another_broker_of_the_group_are_no_others(self) -> None:
        master = self.group(100)
        reader = self.stream()
        at, _ = self.trigger(reader, reader.initialOffset())
        master.stop()
        self.group(120)
        at, found = self.trigger(self.stream(), at)
        self.assertEqual(found, of(BROKER, 100, 120))

    def test_a_record_that_has_expired_cant_be_compared(self) -> None:
        master = self.group(100)
        reader = self.stream()
        at, _ = self.trigger(reader, reader.initialOffset())
        created_again(master, 150)
        master.low = 100
        self.assertEqual(self.trigger(reader, at)[1], of(BROKER, 100, 150))

    def test_a_checkpoint_of_an_earlier_version_goes_on(self) -> None:
        self.group(100)
        end, found = self.trigger(self.stream(), place(broker_a=60))
        self.assertEqual(found, of(BROKER, 60, 100))
        self.assertEqual(end[TOPIC], place(broker_a=100)[TOPIC])
        self.assertEqual(end[":last"], {TOPIC: {BROKER: {"0": [99 * 200, 1_700_000_000_099]}}})

    def test_a_place_can_be_where_another_stream_starts(self) -> None:
        self.group(100)
        reader = self.stream(maxRecordsPerTrigger="40")
        end, _ = self.trigger(reader, reader.initialOffset())
        other = self.stream(startingOffsets=json.dumps(end))
        self.assertEqual(self.trigger(other, other.initialOffset())[1], of(BROKER, 40, 100))


class PlannedBatchTest(StreamCase):
    """A batch that was planned, and is read by a later run."""

    def planned(self, master: ScriptedBroker, **options: str) -> tuple[Offsets, Offsets]:
        reader = self.stream(**options)
        start, _ = self.trigger(reader, reader.initialOffset())
        for offset in range(master.high, master.high + 30):
            master.messages[offset] = record(offset)
        master.high += 30
        return start, reader.latestOffset(start, ReadAllAvailable())

    def test_it_is_the_same_batch(self) -> None:
        start, end = self.planned(self.group(20))
        self.assertEqual(self.rows(self.stream(), start, end), of(BROKER, 20, 50))

    def test_of_a_new_queue_it_begins_where_it_began(self) -> None:
        master = self.group(50)
        start = place(broker_x=1)
        self.names.others["broker-x"] = {0: master.address}
        end = self.stream().latestOffset(start, ReadAllAvailable())
        self.assertEqual(end[":begin"], {TOPIC: {BROKER: {"0": 0}}})
        self.assertEqual(self.rows(self.stream(), start, end), of(BROKER, 50) + of("broker-x", 1, 50))
        for offset in range(40):
            del master.messages[offset]
        master.low = 40
        with self.assertRaisesRegex(OffsetsGone, "messages 0 to 39 are gone by retention"):
            self.rows(self.stream(), start, end)

    def test_the_first_batch_begins_where_it_began(self) -> None:
        """Spark keeps where batches end alone, and asks for the first one's begin again when it's repeated."""
        for begin, planned in (("latest", of(BROKER, 100, 130)), ("earliest", of(BROKER, 130))):
            for more in (0, 7):
                with self.subTest(begin=begin, more=more):
                    master, other = self.group(100), self.group(20, name="broker-b")
                    reader = self.stream(startingOffsets=begin)
                    start = reader.initialOffset()
                    master.messages |= {offset: record(offset) for offset in range(100, 130 + more)}
                    master.high = 130
                    end = reader.latestOffset(start, ReadAllAvailable())
                    master.high += more
                    other.messages |= {offset: record(offset) for offset in range(20, 20 + more)}
                    other.high += more
                    again = self.stream(startingOffsets=begin)
                    found = self.rows(again, again.initialOffset(), end)
                    unmoved = of("broker-b", 20) if begin == "earliest" else []
                    self.assertEqual(found, planned + unmoved)
                    at, rest = self.trigger(again, end)
                    self.assertEqual(rest, of(BROKER, 130, 130 + more) + of("broker-b", 20, 20 + more))
                    self.assertEqual(self.trigger(again, at), (at, []))
        for offset in range(40):
            del master.messages[offset]
        master.low = 40
        again = self.stream(startingOffsets="earliest")
        with self.assertRaisesRegex(OffsetsGone, "messages 0 to 39 are gone by retention"):
            self.rows(again, again.initialOffset(), end)

    def test_so_does_one_without_rows(self) -> None:
        """Spark makes the first place a batch, also where nothing has come, or not enough."""
        for options in ({}, {"minOffsetsPerTrigger": "50"}):
            master = self.group(100)
            reader = self.stream(startingOffsets="latest", **options)
            end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
            master.messages |= {offset: record(offset) for offset in range(100, 130)}
            master.high = 130
            again = self.stream(startingOffsets="latest")
            self.assertEqual(self.rows(again, again.initialOffset(), end), [])
            self.assertEqual(self.trigger(again, end)[1], of(BROKER, 100, 130))

    def test_a_queue_that_was_begun_again_likewise(self) -> None:
        master = self.group(50)
        reader = self.stream(failOnDataLoss="false")
        at, _ = self.trigger(reader, reader.initialOffset())
        created_again(master, 50)
        master.messages[50] = record(50)
        master.high = 51
        end = reader.latestOffset(at, ReadAllAvailable())
        self.assertEqual(self.rows(self.stream(), at, end), of(BROKER, 51))

    def test_of_a_topic_that_was_created_again(self) -> None:
        """It has nothing to give then; what there is comes with the next trigger."""
        for count, told in (
            (10, "ends at 10, before 50"),
            (200, "another message at 49 than a planned batch"),
        ):
            master = self.group(20)
            start, end = self.planned(master)
            created_again(master, count)
            with self.assertRaisesRegex(OffsetsGone, told):
                self.rows(self.stream(), start, end)
            lossy = self.stream(failOnDataLoss="false")
            with self.assertLogs("hatwisted.pipeline.spark", "WARNING"):
                self.assertEqual(self.rows(lossy, start, end), [])
                self.assertEqual(self.trigger(lossy, end)[1], of(BROKER, count))

    def test_of_a_topic_that_is_gone_and_of_fewer_queues(self) -> None:
        master = self.group(20)
        start, end = self.planned(master)
        for queues, topics in ((0, [TOPIC]), (1, [])):
            self.names.queues, self.names.topics = queues, topics
            with self.assertRaisesRegex(OffsetsGone, "queue 0 of broker-a: no name server knows it any more"):
                self.rows(self.stream(), start, end)
            lossy = self.stream(failOnDataLoss="false")
            with self.assertLogs("hatwisted.pipeline.spark", "WARNING"):
                self.assertEqual(self.rows(lossy, start, end), [])
            self.assertEqual(lossy.latestOffset(end, ReadAllAvailable()), end)

    def test_a_run_to_a_fixed_end_gets_past_a_topic_that_is_gone(self) -> None:
        self.group(30)
        start = {**place(broker_a=20), "Gone": {BROKER: {"0": 7}}}
        with self.assertRaisesRegex(NoRoute, "Gone"):
            self.stream(topics=f"{TOPIC},Gone").prepareForTriggerAvailableNow()
        lossy = self.stream(topics=f"{TOPIC},Gone", failOnDataLoss="false")
        with self.assertLogs("hatwisted.pipeline.spark", "WARNING"):
            lossy.prepareForTriggerAvailableNow()
            self.assertEqual(self.trigger(lossy, start)[1], of(BROKER, 20, 30))
        with self.assertRaisesRegex(NoRoute, "Gone"):
            self.stream(topics="Gone", failOnDataLoss="false").prepareForTriggerAvailableNow()


class StartTest(StreamCase):
    def test_after_the_end(self) -> None:
        self.group(100)
        start = json.dumps(place(broker_a=99999))
        for lossy in ("true", "false"):
            with self.assertRaisesRegex(BadSetting, "startingOffsets: .* ends at 100, before 99999"):
                self.stream(startingOffsets=start, failOnDataLoss=lossy).initialOffset()
        source = RocketMQSource(
            {"namesrvAddr": self.names.address, "topics": TOPIC, "startingOffsets": start, "retries": "0"}
        )
        with self.assertRaisesRegex(BadSetting, "startingOffsets: .* ends at 100, before 99999"):
            source.reader(source.schema()).partitions()

    def test_a_topic_that_nobody_knows(self) -> None:
        self.group(5)
        reader = self.stream(topics=f"{TOPIC},Nowhere")
        with self.assertRaisesRegex(NoRoute, "Nowhere"):
            reader.initialOffset()
        with self.assertRaisesRegex(NoRoute, "Nowhere"):
            reader.latestOffset(place(broker_a=2), ReadAllAvailable())


class AbsenceTest(StreamCase):
    def test_without_a_name_server_a_stream_goes_on(self) -> None:
        master = self.group(10)
        reader = self.stream(retries="8")
        at, _ = self.trigger(reader, reader.initialOffset())
        self.names.stop()
        reader._watch._queues_until = 0.0
        master.messages[10], master.high = record(10), 11
        with self.assertLogs("hatwisted.pipeline.spark", "WARNING") as told:
            self.assertEqual(self.trigger(reader, at)[1], of(BROKER, 10, 11))
        self.assertIn("going on with the queues known before", told.output[0])

    def test_the_queues_of_a_group_that_is_away_wait(self) -> None:
        master, other = self.group(10), self.group(10, name=OTHER)
        reader = self.stream(retries="8")
        at, found = self.trigger(reader, reader.initialOffset())
        self.assertEqual(len(found), 20)
        other.stop()
        for broker in (master, other):
            broker.messages[10], broker.high = record(10), 11
        with self.assertLogs("hatwisted.pipeline.spark", "WARNING") as told:
            at, found = self.trigger(reader, at)
        self.assertEqual(found, of(BROKER, 10, 11))
        self.assertRegex(told.output[0], "broker-b is away: its queues wait for it, up to 300 s")
        # The name servers forget it after two minutes.
        del self.names.others[OTHER]
        reader._watch._queues_until = 0.0
        self.assertEqual(self.trigger(reader, at), (at, []))
        back = self.group(12, name=OTHER)
        self.assertEqual(back.high, 12)
        reader._watch._queues_until = reader._watch._absent[OTHER].ask_again = 0.0
        with self.assertLogs("hatwisted.pipeline.spark", "WARNING"):
            self.assertEqual(self.trigger(reader, at)[1], of(OTHER, 10, 12))

    def test_up_to_a_limit(self) -> None:
        self.group(10)
        other = self.group(10, name=OTHER)
        reader = self.stream(brokerAwayMs="1")
        at, _ = self.trigger(reader, reader.initialOffset())
        other.stop()
        with self.assertLogs("hatwisted.pipeline.spark", "WARNING"):
            reader.latestOffset(at, ReadAllAvailable())
        reader._watch._absent[OTHER].since -= 1.0
        reader._watch._absent[OTHER].ask_again = 0.0
        with self.assertRaisesRegex(
            BrokerGone, "broker-b has been away for 1 s, and brokerAwayMs allows 0 s"
        ):
            reader.latestOffset(at, ReadAllAvailable())

    def test_a_group_that_was_removed_for_good(self) -> None:
        """Beyond the limit it's lost, if that's allowed; should it come back, its queues go on."""
        master, other = self.group(10), self.group(10, name=OTHER)
        reader = self.stream()
        at, _ = self.trigger(reader, reader.initialOffset())
        other.stop()
        del self.names.others[OTHER]
        master.messages[10], master.high = record(10), 11
        for lossy in (False, True):
            reader = self.stream(failOnDataLoss=str(not lossy), brokerAwayMs="1")
            with self.assertLogs("hatwisted.pipeline.spark", "WARNING") as told:
                reader.latestOffset(at, ReadAllAvailable())
                reader._watch._absent[OTHER].since -= 1.0
                if lossy:
                    end, found = self.trigger(reader, at)
                    self.assertEqual(found, of(BROKER, 10, 11))
                    self.assertEqual(end[TOPIC][OTHER], {"0": 10})
                    self.assertEqual(self.trigger(reader, end), (end, []))
                else:
                    with self.assertRaisesRegex(
                        OffsetsGone, "broker-b has been away for 1 s.*failOnDataLoss=false"
                    ):
                        reader.latestOffset(at, ReadAllAvailable())
            self.assertEqual(len(told.output), 1 + lossy)
        self.group(12, name=OTHER)
        reader._watch._queues_until = reader._watch._absent[OTHER].ask_again = 0.0
        with self.assertLogs("hatwisted.pipeline.spark", "WARNING"):
            self.assertEqual(self.trigger(reader, end)[1], of(OTHER, 10, 12))

    def test_a_run_to_a_fixed_end_leaves_nothing_out(self) -> None:
        self.group(10)
        other = self.group(10, name=OTHER)
        reader = self.stream()
        at = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        other.stop()
        with self.assertRaisesRegex(BrokerGone, "broker-b: no broker of its group answers"):
            reader.latestOffset(at, ReadAllAvailable())

    def test_its_tasks_wait_as_long(self) -> None:
        """What is planned has to be read; not so in a run to a fixed end, which may be run again."""
        self.group(10)
        reader = self.stream(brokerAwayMs="7000")
        at = reader.initialOffset()
        (part,) = reader.partitions(at, reader.latestOffset(at, ReadAllAvailable()))
        self.assertEqual(cast(QueuePartition, part).patience, 7.0)
        reader.prepareForTriggerAvailableNow()
        (part,) = reader.partitions(at, reader.latestOffset(at, ReadAllAvailable()))
        self.assertEqual(cast(QueuePartition, part).patience, 0.0)


class LimitTest(StreamCase):
    def test_bytes_of_large_messages_are_limited_without_pulling_them(self) -> None:
        """The limit is that of whole records, as their queue knows them."""
        master = self.group(40)
        for offset in range(40):
            master.messages[offset] = record(offset, bytes(100_000 if offset % 2 else 70_000))
        reader = self.stream(maxBytesPerTrigger="320k")
        at, triggers = reader.initialOffset(), []
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            self.assertEqual(len(master.pulls()), 0)
            found = self.rows(reader, at, end)
            self.assertLessEqual(sum(len(master.messages[offset]) for _, offset in found), 320 << 10)
            triggers.append(len(found))
            master.requests.clear()
            at = end
        self.assertEqual(sum(triggers), 40)
        self.assertEqual(triggers[:3], [3, 3, 3])

    def test_the_rest_is_estimated_by_the_first_ones(self) -> None:
        master = self.group(1000)
        size = len(master.messages[500])
        reader = self.stream(maxBytesPerTrigger=str(500 * size))
        at = reader.initialOffset()
        end = reader.latestOffset(at, reader.getDefaultReadLimit())
        self.assertAlmostEqual(end[TOPIC][BROKER]["0"], 500, delta=10)

    def test_where_a_broker_says_no_sizes_one_record_stands_for_a_thousand(self) -> None:
        master = self.group(1500)
        master.shows_entries = False
        reader = self.stream(maxBytesPerTrigger="20k")
        at = reader.initialOffset()
        sampled = 0
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            sampled += sum(1 for each in master.requests if each.code == RequestCode.PULL_MESSAGE)
            master.requests.clear()
            self.assertLess(end[TOPIC][BROKER]["0"] - at[TOPIC][BROKER]["0"], 200)
            at = end
        # Two samples, and for each trigger the last record of it and of the one before.
        self.assertLess(sampled, 2 + 2 * 14)


class NarrowingTest(StreamCase):
    """What conditions leave out isn't pulled."""

    def pulled(self, master: ScriptedBroker, **options: str) -> tuple[list[int], list[int]]:
        """Offsets of the rows, and of the pulls for them."""
        reader = self.stream(maxRecordsPerTrigger="200", **options)
        at, rows = reader.initialOffset(), []
        pulls: list[int] = []
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            parts = reader.partitions(at, end)
            master.requests.clear()
            rows += [
                row
                for part in parts
                for each in reader.read(part)
                for row in each["queue_offset"].to_pylist()
            ]
            pulls += master.pulls()
            at = end
        return rows, pulls

    def test_offsets(self) -> None:
        master = self.group(1000)
        rows, pulls = self.pulled(master, queueOffsetFrom="350", queueOffsetTo="420")
        self.assertEqual(rows, list(range(350, 420)))
        self.assertTrue(min(pulls) == 350 and max(pulls) < 420, pulls)

    def test_times(self) -> None:
        """But for the minute by which a clock may have been set back."""
        master = self.group(0)
        for offset in range(1000):
            master.messages[offset] = record(offset, stored=FIRST_TIME + offset * 1000)
        master.high = 1000
        options = {
            "storeTimestampFrom": str(FIRST_TIME + 350_000),
            "storeTimestampTo": str(FIRST_TIME + 420_000),
        }
        rows, pulls = self.pulled(master, **options)
        self.assertEqual(rows, list(range(350, 420)))
        self.assertTrue(min(pulls) >= 290 and max(pulls) <= 481, pulls)

    def test_an_edge_is_asked_for_once(self) -> None:
        master = self.group(1000)
        reader = self.stream(maxRecordsPerTrigger="100", storeTimestampTo=str(FIRST_TIME + 70_000))
        at = reader.initialOffset()
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            reader.partitions(at, end)
            at = end
        self.assertEqual(master.codes().count(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP), 10)
        master.requests.clear()
        reader = self.stream(maxRecordsPerTrigger="100", storeTimestampFrom=str(FIRST_TIME + 60_500))
        at = reader.initialOffset()
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            reader.partitions(at, end)
            at = end
        self.assertEqual(master.codes().count(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP), 1)

    def test_a_time_to_come_isnt_asked_for(self) -> None:
        master = self.group(100)
        rows, _ = self.pulled(master, storeTimestampTo="2999-01-01")
        self.assertEqual(len(rows), 100)
        self.assertNotIn(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, master.codes())


class LagTest(StreamCase):
    """What the progress says of it."""

    def test_messages_bytes_and_seconds(self) -> None:
        self.group(100)
        reader = self.stream(maxRecordsPerTrigger="60")
        reader._now = lambda: FIRST_TIME / 1000 + 100.0
        at = reader.initialOffset()
        for left, age in ((40, 99.94), (0, 0.0)):
            at, _ = self.trigger(reader, at)
            told = reader.reportLatestOffset()
            assert told is not None
            lag = told[":lag"]
            self.assertEqual((lag["maxOffsetsBehindLatest"], lag["maxSecondsBehindLatest"]), (left, age))
            self.assertEqual(lag["estimatedTotalBytesBehindLatest"] > 0, left > 0)
        self.assertEqual(told[TOPIC], {BROKER: {"0": 100}})

    def test_of_many_queues_only_some_are_asked(self) -> None:
        master = self.group(100)
        reader = self.stream(maxRecordsPerTrigger="60")
        with patch.object(streamlag, "ASKED", 0):
            reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        told = reader.reportLatestOffset()
        assert told is not None
        self.assertEqual(told[":lag"]["estimatedTotalBytesBehindLatest"], 40 * streamlag.ASSUMED)
        self.assertEqual(told[":lag"]["maxSecondsBehindLatest"], 0.0)
        self.assertLessEqual(len(master.pulls()), 1)
