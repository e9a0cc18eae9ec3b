"""What RocketMQ 4.9.7 wrote: every column of every record is what the server's own codec says."""

from __future__ import annotations

import zlib
from unittest import TestCase

import pyarrow as pa

from hatwisted.pipeline import read_arrow
from hatwisted.pipeline.decode.arrowschema import COLUMNS, arrow_schema
from hatwisted.pipeline.decode.decode import decode_buffer
from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.wire.record import encode_record
from hatwisted.wire.storedrecord import Record
from tests.support.golden import GOLDEN, records
from tests.support.logbuilder import FILE_SIZE
from tests.support.logdrafts import row_of, rows_of


def body_of(record: Record) -> bytes:
    """The golden store has zlib only."""
    return zlib.decompress(record.body) if record.sys_flag & 1 else record.body


class GoldenStore(TestCase):
    def expected(self, node: str, broker: str) -> list[dict[str, object]]:
        rows = []
        for record in records(node):
            name = f"{record.physical_offset // FILE_SIZE * FILE_SIZE:020d}"
            rows.append(row_of(record, body_of(record), broker, name))
        return rows

    def test_all_columns_of_all_records(self) -> None:
        for node in ("master", "slave"):
            expected = self.expected(node, node)
            self.assertEqual(len(expected), 246)
            self.assertEqual(rows_of(read_arrow(str(GOLDEN / node))), expected)

    def test_the_commitlog_folder_itself_and_a_name_for_the_broker(self) -> None:
        store = LogStore.open(str(GOLDEN / "master" / "commitlog"), "broker-a")
        rows = rows_of(batch for split in store.splits() for batch in read_split(split))
        self.assertEqual(rows, self.expected("master", "broker-a"))
        self.assertEqual(LogStore.open(str(GOLDEN / "master" / "commitlog")).broker, "master")

    def test_kinds_of_messages_that_must_be_in_there(self) -> None:
        rows = rows_of(read_arrow(str(GOLDEN / "master")))
        compressed = [row for row in rows if row["sys_flag"] & 1]
        self.assertIn(b"x" * 5000, {row["body"] for row in compressed})
        self.assertIn("commit", {row["transaction"] for row in rows})
        self.assertTrue([row for row in rows if row["topic"] == "SCHEDULE_TOPIC_XXXX"])
        self.assertTrue([row for row in rows if len(row["keys"]) > 1])
        self.assertTrue(all(row["body_crc_ok"] for row in rows))

    def test_each_column_alone_and_any_order(self) -> None:
        expected = self.expected("master", "master")
        for name in COLUMNS:
            self.assertEqual(
                rows_of(read_arrow(str(GOLDEN / "master"), [name])), [{name: row[name]} for row in expected]
            )
        chosen = ["body", "topic", "keys"]
        table = read_arrow(str(GOLDEN / "master"), chosen).read_all()
        self.assertEqual(table.schema, arrow_schema(chosen))

    def test_end_is_after_the_last_record(self) -> None:
        last = records()[-1]
        self.assertEqual(LogStore.open(str(GOLDEN / "master")).end(), last.physical_offset + last.total_size)

    def test_the_answer_to_a_pull_is_records_from_here_and_there(self) -> None:
        chosen = records()[::3]
        data = b"".join(encode_record(record) for record in chosen)
        batch = decode_buffer(data, broker="b", file="b:10911")
        self.assertEqual(rows_of([batch]), [row_of(one, body_of(one), "b", "b:10911") for one in chosen])

    def test_two_stores_are_one_stream(self) -> None:
        both = read_arrow([str(GOLDEN / "master"), str(GOLDEN / "slave")], ["broker"]).read_all()
        self.assertEqual(both.column("broker").to_pylist(), ["master"] * 246 + ["slave"] * 246)

    def test_offsets_cut_out_a_part(self) -> None:
        expected = [
            row for row in self.expected("master", "master") if 227 <= row["physical_offset"] < 66_000
        ]
        self.assertEqual(rows_of(read_arrow(str(GOLDEN / "master"), begin=227, end=66_000)), expected)
        self.assertEqual(rows_of(read_arrow(str(GOLDEN / "master"), begin=1, end=66_000)), expected)


class Types(TestCase):
    def test_types_are_those_spark_asks_for(self) -> None:
        kinds = {field.type for field in arrow_schema()}
        self.assertLessEqual(
            {str(kind) for kind in kinds},
            {
                *("string", "int32", "int64", "timestamp[us, tz=UTC]", "binary", "bool"),
                *("list<element: string>", "map<string, string>"),
            },
        )
        self.assertTrue(all(isinstance(kind, pa.DataType) for kind in kinds))
