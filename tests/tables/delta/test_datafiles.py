"""Files of a landed table: partitions, names, what's visible while they are written."""

from __future__ import annotations

import errno
import json
import os
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.delta import datafiles, tablefolder
from hatwisted.pipeline.delta.datafiles import DataFiles, split_by_partition
from hatwisted.pipeline.delta.landedrows import END_TIME, FIRST_TIME, with_store_date
from hatwisted.pipeline.delta.names import FOLDER_MAX, UNFINISHED, new_file_name, partition_folder, written_by
from tests.support.examples import examples
from tests.tables.delta.tables import PARTITION_BY, SCHEMA, Run, offsets, rows, upto

RETRY = "%RETRY%g|1"


class TestNames(SynchronousTestCase):
    def test_folder_is_percent_encoded(self) -> None:
        folder = partition_folder({"topic": "%RETRY%g", "store_date": "2026-11-20"})
        self.assertEqual(folder, "topic=%25RETRY%25g/store_date=2026-11-20")

    @examples(30)
    @given(st.text(min_size=1, max_size=127))
    def test_any_topic_is_one_folder_of_bearable_length(self, topic: str) -> None:
        folder = partition_folder({"topic": topic})
        self.assertLessEqual(len(os.fsencode(folder)), FOLDER_MAX)
        self.assertNotIn("/", folder)
        self.assertNotIn("\0", folder)

    def test_a_long_topics_folder_still_names_its_column(self) -> None:
        self.assertTrue(partition_folder({"topic": "x" * 250}).startswith("topic=xxx"))
        for shift in range(3):
            folder = partition_folder({"topic": "x" * shift + "%" * 120})
            self.assertRegex(folder, "^topic=x*(%25)+-[0-9a-f]{16}$")

    def test_long_topics_that_begin_alike_stay_apart(self) -> None:
        one, other = (partition_folder({"topic": "%" * 126 + end}) for end in "ab")
        self.assertNotEqual(one, other)

    def test_a_file_tells_lane_and_epoch_also_while_it_is_written(self) -> None:
        name = new_file_name("0123abcd", 7)
        self.assertEqual(written_by(name), ("0123abcd", 7))
        self.assertEqual(written_by(UNFINISHED + name), ("0123abcd", 7))
        self.assertIsNone(written_by("part-00000-8c1d-c000.zstd.parquet"))


class TestSplitByPartition(SynchronousTestCase):
    def test_rows_keep_their_order_within_a_partition(self) -> None:
        found = dict(split_by_partition(rows(0, 120, (RETRY, "orders", "logs")), PARTITION_BY))
        self.assertEqual(len(found), 6)
        first = found[(RETRY, "2026-11-20")]
        self.assertEqual(first.column("physical_offset").to_pylist(), [300 * number for number in range(20)])
        self.assertNotIn("topic", first.schema.names)

    def test_nothing_makes_no_partition(self) -> None:
        self.assertEqual(split_by_partition(rows(0, 0), PARTITION_BY), [])

    def test_a_missing_value_is_a_partition(self) -> None:
        topics, numbers = pa.array(["a", None, "a"]), pa.array([1, 2, 3])
        split = split_by_partition(pa.record_batch({"topic": topics, "n": numbers}), ["topic"])
        found = {values: part.column("n").to_pylist() for values, part in split}
        self.assertEqual(found, {("a",): [1, 3], (None,): [2]})


class TestDataFiles(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def files(self) -> DataFiles:
        return DataFiles(self.path, SCHEMA, PARTITION_BY, writer="0123abcd", epoch=1)

    def visible(self) -> list[Path]:
        return [found for found in Path(self.path).rglob("*.parquet") if not found.name.startswith(".")]

    def test_no_file_has_its_name_before_it_is_whole(self) -> None:
        self.patch(datafiles, "FLUSH_BYTES", 1)
        files = self.files()
        files.write(rows(0, 90))
        self.assertEqual(self.visible(), [])
        self.assertEqual(len(list(Path(self.path).rglob("*.parquet"))), 2)
        files.close()
        self.assertEqual(sum(pq.read_metadata(found).num_rows for found in self.visible()), 90)

    def test_sums_and_bounds(self) -> None:
        files = self.files()
        files.write(rows(0, 30))
        files.write(rows(30, 30))
        (found,) = files.close()
        self.assertEqual((found.rows, found.log_bytes), (60, 6000))
        self.assertEqual(found.size, Path(self.path, found.path).stat().st_size)
        stats = json.loads(found.stats)
        self.assertEqual(stats["numRecords"], 60)
        self.assertEqual(stats["minValues"]["physical_offset"], 0)
        self.assertEqual(stats["maxValues"]["physical_offset"], 5900)
        self.assertEqual(stats["maxValues"]["store_timestamp"], "2026-11-20T23:59:59.000Z")
        self.assertEqual(stats["maxValues"]["broker"], "a")
        self.assertNotIn("body", stats["minValues"])

    def test_columns_of_our_names_may_have_any_type(self) -> None:
        """A stream of one's own, or a transformation, brings them."""
        for name in ("size", "broker", "queue_offset", "born_timestamp", "queue_id", "tags"):
            for values in (["XL"], [1.5], [7], [True], [b"x"], [["a"]], [{"a": 1}], [None]):
                batch = pa.record_batch({"topic": ["t"], name: pa.array(values)})
                path = self.mktemp()
                files = DataFiles(path, batch.schema, ("topic",), writer="0123abcd", epoch=1)
                files.write(batch)
                (found,) = files.close()
                self.assertEqual(found.log_bytes, 7 if (name, values) == ("size", [7]) else 0)
                self.assertEqual(pq.read_table(Path(path, found.path)).column(name).to_pylist(), values)

    def test_times_that_python_has_no_name_for(self) -> None:
        """A producer writes the time at which it made a message, a broken clock any."""
        for micros, low, high in (
            (10**18, "2026-11-20T23:59:00.000Z", None),
            (-(10**17), None, "2026-11-20T23:59:00.000Z"),
            (253_402_300_799_999_500, "2026-11-20T23:59:00.000Z", None),
        ):
            times = pa.array([micros, 1795219140000000], pa.int64()).cast(pa.timestamp("us", "UTC"))
            column = SCHEMA.get_field_index("store_timestamp")
            files = self.files()
            files.write(rows(0, 2).set_column(column, "store_timestamp", times))
            (found,) = files.close()
            stats = json.loads(found.stats)
            self.assertEqual(stats["minValues"].get("store_timestamp"), low)
            self.assertEqual(stats["maxValues"].get("store_timestamp"), high)
            self.assertEqual(stats["maxValues"]["physical_offset"], 100)

    def test_days_of_times_that_have_none(self) -> None:
        times = pa.array([0, 10**18, -(10**17), FIRST_TIME, END_TIME - 1], pa.int64())
        stored = pa.record_batch({"store_timestamp": times.cast(pa.timestamp("us", "UTC"))})
        days = with_store_date(stored).column("store_date").to_pylist()
        self.assertEqual(days, [date(1970, 1, 1), None, None, date(1, 1, 1), date(9999, 12, 31)])

    def test_more_partitions_than_open_files(self) -> None:
        self.patch(datafiles, "FLUSH_BYTES", 1)
        self.patch(datafiles, "MAX_OPEN_FILES", 3)
        files = self.files()
        topics = tuple(f"t{number}" for number in range(10))
        for first in (0, 20, 40):
            files.write(rows(first, 20, topics))
        self.assertEqual(sum(found.rows for found in files.close()), 60)

    def test_abandoned_files_are_gone(self) -> None:
        self.patch(datafiles, "FLUSH_BYTES", 1)
        self.patch(datafiles, "MAX_OPEN_FILES", 1)
        files = self.files()
        files.write(rows(0, 90, ("a", "b")))
        files.abandon()
        self.assertEqual(list(Path(self.path).rglob("*.parquet")), [])

    def test_a_full_disk_is_left_as_it_was(self) -> None:
        """At whichever of a file's steps the room ends: /dev/full has none, and takes what a buffer holds."""
        for count, names in ((20, ("orders",)), (70_000, ("orders", "logs"))):
            files = self.files()
            make, sinks = tablefolder._HiddenFile, []

            def full(path: Path, make: Any = make, sinks: Any = sinks) -> Any:
                new = make(path)
                new.sink.symlink_to("/dev/full")
                sinks.append(new.sink)
                return new

            with patch.object(tablefolder, "_HiddenFile", full), self.assertRaises(OSError) as told:
                files.write(rows(0, count, names))
                files.close()
            self.assertEqual(told.exception.errno, errno.ENOSPC)
            self.assertTrue(sinks)
            files.abandon()
            self.assertEqual([path for path in Path(self.path).rglob("*") if not path.is_dir()], [])

    def test_values_too_large_for_the_table_are_an_error(self) -> None:
        at = SCHEMA.get_field_index("physical_offset")
        narrow = SCHEMA.set(at, pa.field("physical_offset", pa.int8()))
        files = DataFiles(self.path, narrow, PARTITION_BY, writer="0123abcd", epoch=1)
        self.assertRaises(pa.ArrowInvalid, files.write, rows(0, 10))


class TestPartitionNames(SynchronousTestCase):
    def test_topics_come_back_exactly(self) -> None:
        path = self.mktemp()
        topics = (RETRY, "%DLQ%g", "orders", "a=b/c d", "ü%25", "..")
        Run(path).land(0, rows(0, 120, topics))
        table = DeltaTable(path).to_pyarrow_table()
        self.assertEqual(set(table["topic"].to_pylist()), set(topics))
        self.assertEqual(offsets(path), upto(120))

    def test_one_topic_is_read_by_its_partition_alone(self) -> None:
        path = self.mktemp()
        Run(path).land(0, rows(0, 120, (RETRY, "orders")))
        table = DeltaTable(path)
        retried = table.to_pyarrow_dataset().to_table(filter=ds.field("topic") == RETRY)
        self.assertEqual(retried.num_rows, 60)
