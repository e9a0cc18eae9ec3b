"""Conditions on times leave out what they can of a log, and never what they mustn't; no JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.spark.commitlogsource import LogReader
from hatwisted.pipeline.spark.logplaces import CLOCK_SLACK, time_bounds
from hatwisted.pipeline.spark.logtask import LogPartition, ReadTask
from hatwisted.pipeline.spark.readoptions import Options
from hatwisted.pipeline.spark.sourcecolumns import spark_schema
from hatwisted.pipeline.spark.storelist import StoreList
from tests.support.growing import FIRST_TIME, STEP, GrowingStore


class TimeBoundsTests(SynchronousTestCase):
    GRAIN = 4 << 10

    def setUp(self) -> None:
        self.log = GrowingStore(Path(self.mktemp()) / "broker-a")

    def bounds(self, *where: Condition) -> tuple[int, int]:
        return time_bounds(LogStore.open(str(self.log.root)), where, self.GRAIN)

    def test_a_span_in_the_middle(self) -> None:
        log = self.log
        log.append(3000)
        first, last = (datetime.fromtimestamp((FIRST_TIME + STEP * at) / 1000, UTC) for at in (1500, 1600))
        begin, end = self.bounds(
            Condition("store_timestamp", ">=", first), Condition("store_timestamp", "<", last)
        )
        slack = CLOCK_SLACK // timedelta(milliseconds=STEP)
        self.assertTrue(log.offsets[1500 - slack] - self.GRAIN <= begin <= log.offsets[1500 - slack])
        self.assertTrue(log.offsets[1599 + slack] < end <= log.offsets[1600 + slack] + self.GRAIN)

    def test_one_moment_and_several(self) -> None:
        log = self.log
        log.append(3000)
        times = [datetime.fromtimestamp((FIRST_TIME + STEP * at) / 1000, UTC) for at in (1000, 2000)]
        begin, end = self.bounds(Condition("store_timestamp", "in", tuple(times)))
        self.assertTrue(begin <= log.offsets[1000] and log.offsets[2000] < end)
        self.assertTrue(end - begin < log.offsets[-1])
        begin, end = self.bounds(Condition("store_timestamp", "=", times[0]))
        self.assertTrue(begin <= log.offsets[1000] < end < log.offsets[2000])

    def test_times_at_which_nothing_was_stored(self) -> None:
        log = self.log
        log.append(500)
        whole = (0, LogStore.open(str(log.root)).end())
        year = datetime(2020, 1, 1, tzinfo=UTC)
        self.assertEqual(self.bounds(Condition("store_timestamp", ">=", year)), whole)
        begin, end = self.bounds(Condition("store_timestamp", "<", year))
        self.assertTrue(end - begin <= self.GRAIN)
        ages = Condition("store_timestamp", ">=", datetime.min.replace(tzinfo=UTC))
        ever = Condition("store_timestamp", "<", datetime.max.replace(tzinfo=UTC))
        self.assertEqual(self.bounds(ages, ever), whole)
        self.assertEqual(self.bounds(Condition("born_timestamp", "<", year)), whole)

    def test_an_empty_store(self) -> None:
        self.assertEqual(self.bounds(Condition("store_timestamp", "<", datetime.now(UTC))), (0, 0))

    def test_a_read_skips_what_it_leaves_out(self) -> None:
        log = self.log
        log.append(3000)
        at = datetime.fromtimestamp((FIRST_TIME + STEP * 1500) / 1000, UTC)
        given = {"storeTimestampFrom": at.isoformat(), "physicalOffsetTo": "600000"}
        task = ReadTask.of(Options("commitlog", given, given), spark_schema(("physical_offset",)))
        reader = LogReader(StoreList((str(log.root),)), task, 10 << 10, self.GRAIN)
        partitions = reader.partitions()
        found = [
            offset for each in partitions for batch in reader.read(each) for offset in batch[0].to_pylist()
        ]
        self.assertEqual(found, [offset for offset in log.offsets[1500:] if offset < 600_000])
        assert isinstance(partitions[0], LogPartition)
        self.assertTrue(log.offsets[1000] < partitions[0].split.begin)
