"""Tables are made, widened or refused by column; compaction; where a broker's rows end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.delta.compaction import compact
from hatwisted.pipeline.delta.deltatable import prepare_table
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.queuetails import landed_queues
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.delta.tails import landed_tails
from hatwisted.pipeline.errors import WrongSchema
from tests.tables.delta.tables import PARTITION_BY, SCHEMA, Run, offsets, rows, upto


def without(*names: str) -> pa.Schema:
    return pa.schema([item for item in SCHEMA if item.name not in names])


def retyped(name: str, kind: pa.DataType) -> pa.Schema:
    return pa.schema([item.with_type(kind) if item.name == name else item for item in SCHEMA])


class TestPrepare(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def make(self, schema: pa.Schema, partition_by: tuple[str, ...] = PARTITION_BY) -> None:
        DeltaTable.create(self.path, Schema.from_arrow(schema), partition_by=list(partition_by))

    def refusal(self, error: type[Exception]) -> str:
        return str(self.assertRaises(error, prepare_table, self.path, SCHEMA, PARTITION_BY))

    def test_an_older_table_is_widened_and_its_rows_stay(self) -> None:
        old = without("keys", "properties", "body_crc")
        self.make(old)
        write_deltalake(self.path, rows(0, 10).select(old.names), mode="append")
        Run(self.path).land(0, rows(10, 10))
        table = DeltaTable(self.path).to_pyarrow_table().sort_by("physical_offset")
        self.assertEqual(offsets(self.path), upto(20))
        self.assertEqual(table["keys"].to_pylist()[9:11], [None, ["k10"]])
        self.assertEqual(dict(table["properties"].to_pylist()[19]), {"KEYS": "k19"})

    def test_the_user_s_own_columns_stay_and_are_empty_in_new_rows(self) -> None:
        self.make(SCHEMA.append(pa.field("mine", pa.string())))
        Run(self.path).land(0, rows(0, 10))
        self.assertEqual(DeltaTable(self.path).to_pyarrow_table()["mine"].to_pylist(), [None] * 10)

    def test_a_wider_integer_of_the_table_stays(self) -> None:
        self.make(retyped("size", pa.int64()))
        Run(self.path).land(0, rows(0, 10))
        self.assertEqual(DeltaTable(self.path).to_pyarrow_table()["size"].type, pa.int64())

    def test_a_column_of_another_type_is_named(self) -> None:
        for name, kind in (
            ("size", pa.string()),
            ("physical_offset", pa.int32()),
            ("keys", pa.list_(pa.int32())),
        ):
            self.path = self.mktemp()
            self.make(retyped(name, kind))
            self.assertIn(f"column {name} ", self.refusal(WrongSchema))

    def test_a_column_that_may_not_be_null_is_named(self) -> None:
        self.make(SCHEMA.append(pa.field("mine", pa.string(), nullable=False)))
        self.assertIn("column mine", self.refusal(WrongSchema))

    def test_other_partitions_are_refused(self) -> None:
        self.make(SCHEMA, ("topic",))
        self.assertIn("partitioned by topic, not by topic, store_date", self.refusal(WrongTable))

    def test_constraints_are_refused(self) -> None:
        self.make(SCHEMA)
        DeltaTable(self.path).alter.add_constraint({"positive": "size > 0"})
        self.assertIn("delta.constraints.positive", self.refusal(WrongTable))

    def test_a_folder_of_something_else_is_refused(self) -> None:
        Path(self.path).mkdir()
        Path(self.path, "letters.txt").write_text("dear")
        self.assertIn("isn't a Delta table", self.refusal(WrongTable))

    def test_a_scheme_that_tables_have_not_is_refused_with_what_to_do(self) -> None:
        for path, why in (("ftp://host/table", "to folders and to s3"), ("s3://", "Give s3://BUCKET/FOLDER")):
            self.assertIn(why, str(self.assertRaises(WrongTable, table_path, path)))
        self.assertEqual(table_path("file:///lake/t"), "/lake/t")
        self.assertEqual(table_path("s3://bucket/t/"), "s3://bucket/t")


class TestCompaction(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()
        self.run_ = Run(self.path)
        for number in range(8):
            self.run_.land(number, rows(5 * number, 5, ("%RETRY%g",)))

    def test_many_small_files_become_one_with_the_same_rows(self) -> None:
        found = compact(self.path, 1 << 20)
        self.assertEqual((found.removed, found.added, found.put_off), (8, 1, ()))
        self.assertEqual(offsets(self.path), upto(40))
        table = DeltaTable(self.path)
        self.assertEqual(len(table.file_uris()), 1)
        self.assertEqual(set(table.to_pyarrow_table()["topic"].to_pylist()), {"%RETRY%g"})

    def test_few_or_large_files_are_left_alone(self) -> None:
        before = DeltaTable(self.path).version()
        self.assertEqual(compact(self.path, 1 << 20, min_files=9).removed, 0)
        self.assertEqual(compact(self.path, 10).removed, 0)
        self.assertEqual(DeltaTable(self.path).version(), before)

    def test_a_reader_of_the_version_before_goes_on(self) -> None:
        reader = DeltaTable(self.path)
        compact(self.path, 1 << 20)
        self.assertEqual(reader.to_pyarrow_table().num_rows, 40)

    def test_batches_stay_known_and_later_ones_land(self) -> None:
        compact(self.path, 1 << 20)
        self.assertFalse(self.run_.land(7, rows(35, 5)))
        self.assertTrue(self.run_.land(8, rows(40, 5)))
        self.assertEqual(offsets(self.path), upto(45))

    def test_a_batch_may_be_committed_meanwhile(self) -> None:
        files = self.run_.files(rows(40, 5))
        compact(self.path, 1 << 20)
        self.assertTrue(self.run_.commit(8, files))
        self.assertEqual(offsets(self.path), upto(45))


class TestTails(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def test_the_last_record_of_each_broker(self) -> None:
        run = Run(self.path, brokers=("a", "b"))
        run.land(0, rows(0, 10), rows(100, 7, broker="b"))
        run.land(1, rows(10, 90, ("%RETRY%x", "y")))
        found = landed_tails(self.path, ["a", "b", "c"])
        self.assertEqual(
            {name: tail.physical_offset for name, tail in found.items()}, {"a": 9900, "b": 10600}
        )
        self.assertEqual((found["a"].end, found["a"].body_crc), (10000, 99))

    def test_after_a_compaction(self) -> None:
        run = Run(self.path)
        for number in range(8):
            run.land(number, rows(5 * number, 5))
        compact(self.path, 1 << 20)
        self.assertEqual(landed_tails(self.path, ["a"])["a"].physical_offset, 3900)

    def test_in_a_table_that_delta_rs_has_rewritten(self) -> None:
        run = Run(self.path)
        run.land(0, rows(0, 10))
        DeltaTable(self.path).delete("physical_offset = 300")
        self.assertEqual(landed_tails(self.path, ["a"])["a"].physical_offset, 900)
        DeltaTable(self.path).update({"queue_id": "7"}, predicate="physical_offset = 900")
        self.assertEqual(landed_tails(self.path, ["a"])["a"].body_crc, 9)
        self.assertEqual(self.ends(), {("orders", "a", 0): 9, ("orders", "a", 7): 10})
        DeltaTable(self.path).optimize.z_order(["physical_offset"])
        self.assertEqual(landed_tails(self.path, ["a"])["a"].physical_offset, 900)
        run.land(1, rows(10, 5))
        self.assertEqual(landed_tails(self.path, ["a"])["a"].physical_offset, 1400)

    def test_a_record_of_a_time_that_python_has_no_name_for(self) -> None:
        run = Run(self.path)
        times = pa.array([0, 10**18], pa.int64()).cast(pa.timestamp("us", "UTC"))
        column = SCHEMA.get_field_index("store_timestamp")
        run.land(0, rows(0, 2).set_column(column, "store_timestamp", times))
        self.assertEqual(landed_tails(self.path, ["a"])["a"].store_timestamp, 10**18)

    def ends(self) -> dict[tuple[str, str, int], int]:
        found = landed_queues(Notes(self.path), ["a"]).items()
        return {(queue.topic, queue.broker_name, queue.queue_id): tail.end for queue, tail in found}

    def test_the_ends_of_queues(self) -> None:
        run = Run(self.path)
        run.land(0, rows(0, 10, ("%RETRY%x",)))
        run.land(1, rows(10, 20, ("%RETRY%x", "y")))
        self.assertEqual(self.ends(), {("%RETRY%x", "a", 0): 29, ("y", "a", 0): 30})

    def test_an_empty_table_has_none(self) -> None:
        Run(self.path)
        self.assertEqual(landed_tails(self.path, ["a"]), {})
