"""A landed Iceberg table and what is only in the log: each row once, whatever a landing does meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform

from hatwisted.pipeline import union_arrow
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.errors import PipelineError, WrongSchema
from hatwisted.pipeline.iceberg import queuenotes, snapshots
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.icebergfiles import data_files
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.jobs.union.icebergversion import IcebergVersion
from tests.support import unioncase
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.unioncase import LOCAL, UnionCase

NAME = "iceberg:lake.rocketmq.messages"


class IcebergUnionCase(UnionCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(iceberg_catalog(self.folder))
        self.table = NAME

    @property
    def landed(self) -> Table:
        return load_catalog("lake").load_table(("rocketmq", "messages"))

    def halve(self) -> None:
        end = self.landed.current_snapshot()
        assert end is not None
        with self.landed.manage_snapshots() as change:
            change.rollback_to_snapshot(end.parent_snapshot_id or 0)


class StoreUnionTests(IcebergUnionCase, unioncase.AnyUnionCase):
    meanwhile = LandOptions(engine="local", compact_below=1 << 20)

    def test_deleted_rows_stay_so_and_the_user_s_columns_are_null_in_the_log(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        self.landed.delete(f"physical_offset >= {self.store.offsets[30]}")
        with self.landed.update_schema() as change:
            change.union_by_name(pa.schema([("note", pa.string())]))
        self.store.append(10)
        rows = union_arrow(self.table, str(self.store.root), ["physical_offset", "note"]).read_all()
        self.assertEqual(sorted(rows[0].to_pylist()), self.store.offsets[:30] + self.store.offsets[40:])
        self.assertEqual(rows["note"].null_count, 40)
        with self.assertRaisesRegex(WrongSchema, "has no column bodies; it has "):
            union_arrow(self.table, str(self.store.root), ["bodies"])

    def test_what_is_in_neither_and_another_log_are_told(self) -> None:
        self.assert_loss_is_told()
        self.assert_another_log_is_refused()

    def test_a_file_that_is_gone_is_told_in_a_line(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        path = next(iter(self.landed.scan().plan_files())).file.file_path
        Path(path.removeprefix("file://")).unlink()
        with self.assertRaisesRegex(WrongTable, "^iceberg:lake.rocketmq.messages: .*No such file") as told:
            self.offsets(str(self.store.root))
        self.assertNotIn("\n", str(told.exception))


class VersionTests(IcebergUnionCase):
    """What a snapshot says to a query."""

    def test_its_topics_wherever_they_stand(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        by_partition = IcebergVersion(self.table).topics()
        self.assertEqual(len(by_partition), 4)
        with patch.object(ArrowScan, "to_record_batches", side_effect=AssertionError):
            IcebergVersion(self.table).topics()
        with self.landed.update_spec() as spec:
            spec.remove_field("topic").remove_field("store_date")
            spec.add_field("store_timestamp", DayTransform(), "day")
        rows = self.landed.scan().to_arrow()
        self.landed.overwrite(rows)
        self.assertEqual(IcebergVersion(self.table).topics(), by_partition)

    def test_a_store_cannot_say_what_a_table_of_queues_lacks(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        table, broker = self.landed, "broker-a"
        rows = table.scan().to_arrow()
        table.delete("broker == 'broker-a'")
        held = snapshots.claim(table, NAME, [broker], by_queue=True)
        ids = FileIds(held.run)
        files = data_files(table, NAME, rows, ids)
        tails = queuenotes.last_of_queues(rows)
        brought = queuenotes.BroughtQueues(tails, table.current_snapshot().snapshot_id, complete=True)  # type: ignore[union-attr]
        queuenotes.append_queues(table, NAME, files, held=held, brought=brought, note=ids.note)
        self.assertEqual(IcebergVersion(NAME).queues([broker]), tails)
        with self.assertRaisesRegex(PipelineError, "queue by queue, so .*broker-a can't say what it lacks"):
            self.offsets(str(self.store.root))

    def refused(self) -> str:
        with self.assertRaises(WrongTable) as told:
            IcebergVersion(NAME).frames(None, None)  # type: ignore[arg-type]
        return str(told.exception)

    def test_what_spark_would_read_wrong_is_refused(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        plan = IcebergVersion(NAME)._files
        plan[0].delete_files = {plan[1].file}
        with patch.object(IcebergVersion, "_files", plan):
            self.assertIn("merge on read; rewrite its data files", self.refused())
        with self.landed.update_schema() as change:
            change.rename_column("tags", "tag")
        self.assertIn("its column tag had another name", self.refused())
        with self.landed.update_schema() as change:
            change.rename_column("tag", "tags")
        self.assertIn("its column tags had another name", self.refused())

    def test_files_that_were_added_as_they_were_are_refused_for_spark(self) -> None:
        self.store.append(40)
        land([str(self.store.root)], self.table, LOCAL)
        rows: Any = self.landed.scan().to_arrow().slice(0, 1)
        path = self.folder / "added.parquet"
        pa.parquet.write_table(rows, path)
        self.landed.add_files([f"file://{path}"])
        self.assertIn("files that were added as they were; union_arrow reads it", self.refused())
        self.assertEqual(len(self.offsets(str(self.store.root))), 41)
