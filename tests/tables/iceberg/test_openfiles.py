"""Data files that stay open: what they have and say is what pyiceberg's own would, in fewer of them."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from hatwisted.pipeline.iceberg import openfiles
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.openfiles import OpenFiles
from tests.support.icebergcatalog import iceberg_catalog

SCHEMA = Schema(
    NestedField(1, "topic", StringType()),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "number", LongType()),
)
SPECS = {
    "none": PartitionSpec(),
    "topic": PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "whole")),
    "day": PartitionSpec(
        PartitionField(2, 1000, DayTransform(), "day"),
        PartitionField(3, 1001, BucketTransform(4), "bucket"),
    ),
    "letters": PartitionSpec(
        PartitionField(1, 1000, TruncateTransform(3), "letters"),
        PartitionField(3, 1001, VoidTransform(), "dropped"),
    ),
}
BEGIN = datetime(2026, 11, 25, 20, tzinfo=UTC)
BATCHES = 6


def batch(number: int) -> pa.RecordBatch:
    """Fifty rows of some topics, one without, over some days."""
    counted = range(number * 50, number * 50 + 50)
    topics = [None if each % 7 == 0 else f"orders-{each % 3}" for each in counted]
    times = [BEGIN + timedelta(hours=each) for each in counted]
    return pa.record_batch(
        {"topic": topics, "at": pa.array(times, pa.timestamp("us", "UTC")), "number": [*counted]}
    )


def rows_in(files: list[DataFile]) -> dict[str, list[tuple[Any, ...]]]:
    """Of each partition, in their order."""
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for file in files:
        table = pq.read_table(file.file_path.removeprefix("file://"), partitioning=None)
        found[str(file.partition)] += zip(*(column.to_pylist() for column in table.columns), strict=True)
    return found


def told(file: DataFile) -> dict[str, Any]:
    """What a manifest says of it, but for its name and its size."""
    names = ("file_format", "record_count", "lower_bounds", "upper_bounds", "null_value_counts")
    return {name: getattr(file, name) for name in names}


class OpenFilesTests(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(iceberg_catalog(self.folder))
        self.catalog = load_catalog("lake")
        self.catalog.create_namespace("open")

    def table(self, name: str, **properties: str) -> Table:
        return self.catalog.create_table(
            ("open", name), SCHEMA, partition_spec=SPECS[name], properties=properties
        )

    def written(self, files: OpenFiles) -> list[DataFile]:
        for number in range(BATCHES):
            files.add(batch(number))
            if number % 2:
                files.flush()
        return files.close()

    def there(self) -> set[str]:
        return {path.name for path in self.folder.rglob("*.parquet")}

    def test_they_are_what_pyiceberg_writes_of_the_same_rows(self) -> None:
        for name in SPECS:
            with self.subTest(name):
                table = self.table(name)
                ours = self.written(OpenFiles(table, FileIds("a" * 12)))
                rows = pa.Table.from_batches([batch(number) for number in range(BATCHES)])
                theirs = list(_dataframe_to_data_files(table.metadata, rows, table.io))
                self.assertEqual(rows_in(ours), rows_in(theirs))
                self.assertEqual(
                    {str(file.partition): told(file) for file in ours},
                    {str(file.partition): told(file) for file in theirs},
                )
                self.assertEqual(len(ours), len(theirs))
                schemas = [pq.read_schema(files[0].file_path[7:]) for files in (ours, theirs)]
                self.assertTrue(schemas[0].equals(schemas[1], check_metadata=True), schemas)
                for file in ours:
                    self.assertEqual(file.file_size_in_bytes, Path(file.file_path[7:]).stat().st_size)
                    self.assertEqual(file.spec_id, table.metadata.default_spec_id)
                with table.transaction() as change, change.update_snapshot().fast_append() as snapshot:
                    for file in ours:
                        snapshot.append_data_file(file)
                again = table.scan().to_arrow().sort_by("number")
                self.assertEqual(again.to_pylist(), rows.to_pylist())

    def test_one_that_is_large_enough_is_closed(self) -> None:
        table = self.table("none", **{"write.target-file-size-bytes": str(2 * batch(0).nbytes)})
        files = self.written(OpenFiles(table, FileIds("a" * 12)))
        self.assertEqual([file.record_count for file in files], [100] * (BATCHES // 2))

    def test_there_are_so_many_open_and_no_more(self) -> None:
        table = self.table("topic")
        with patch.object(openfiles, "MAX_OPEN_FILES", 2):
            files = OpenFiles(table, FileIds("a" * 12))
            for number in range(BATCHES):
                files.add(batch(number))
                files.flush()
                self.assertLessEqual(len(files._open), 2)
            found = files.close()
        self.assertGreater(len(found), 4)
        self.assertEqual(sum(file.record_count for file in found), 50 * BATCHES)

    def test_times_that_pyiceberg_cannot_tell_are_left_out_from_then_on(self) -> None:
        table = self.table("none")
        files = OpenFiles(table, FileIds("a" * 12))
        files.add(batch(0))
        files.flush()
        far = pa.array([1 << 62], pa.timestamp("us", "UTC"))
        files.add(pa.record_batch({"topic": ["far"], "at": far, "number": [1]}))
        files.flush()
        files.add(batch(1))
        usual, odd = files.close()
        self.assertEqual((usual.record_count, odd.record_count), (50, 51))
        self.assertIn(2, usual.lower_bounds)
        self.assertNotIn(2, odd.lower_bounds)
        self.assertIn(3, odd.lower_bounds)

    def test_what_is_dropped_is_gone_and_what_is_closed_stays(self) -> None:
        table = self.table("topic")
        files = OpenFiles(table, FileIds("a" * 12))
        found = self.written(files)
        files.drop()
        self.assertEqual(self.there(), {Path(file.file_path).name for file in found})
        with patch.object(openfiles, "MAX_OPEN_FILES", 1):
            for number in range(BATCHES):
                files.add(batch(number))
                files.flush()
        self.assertGreater(len(self.there()), len(found))
        files.drop()
        self.assertEqual(self.there(), {Path(file.file_path).name for file in found})

    def test_one_that_cannot_be_finished_is_removed(self) -> None:
        table = self.table("none")
        files = OpenFiles(table, FileIds("a" * 12))
        files.add(batch(0))
        files.flush()
        with patch.object(pq.ParquetWriter, "close", side_effect=OSError(28, "full")):
            self.assertRaisesRegex(OSError, "full", files.close)
            files.drop()
        self.assertEqual(self.there(), set())
