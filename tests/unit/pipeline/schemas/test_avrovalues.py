"""Avro bodies: the three framings, evolution, every type, and bytes that are none of it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any
from unittest import TestCase
from uuid import UUID

import fastavro
import pyarrow as pa

from hatwisted.pipeline.schemas.avrovalues import AvroDecoder
from hatwisted.pipeline.schemas.values import BadSchema, Misfit
from tests.unit.pipeline.schemas.randombodies import misfits


def record(*fields: Any, name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


def datum(schema: Any, value: Any) -> bytes:
    sink = BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), value)
    return sink.getvalue()


def decoder(schema: Any, framing: str = "avro") -> AvroDecoder:
    return AvroDecoder(json.dumps(schema).encode(), "o.avsc", framing)


FIRST = record(("id", "int"), ("note", "string"))
SECOND = {
    **record(("id", "long")),
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", "double"], "default": None},
    ],
}


class BareTests(TestCase):
    def test_types_and_values(self) -> None:
        logical = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
        when = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
        for kind, column, value, landed in (
            ("int", pa.int64(), 5, 5),
            ("float", pa.float64(), 0.5, 0.5),
            ("boolean", pa.bool_(), True, True),
            ("bytes", pa.binary(), b"\0", b"\0"),
            (["null", "string"], pa.string(), None, None),
            ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.string(), "B", "B"),
            ({"type": "fixed", "name": "F", "size": 2}, pa.binary(), b"ab", b"ab"),
            ({"type": "map", "values": "long"}, pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
            ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC"), when, when),
            ({"type": "int", "logicalType": "date"}, pa.date32(), date(2026, 1, 2), date(2026, 1, 2)),
            ({"type": "string", "logicalType": "uuid"}, pa.string(), UUID(int=1), str(UUID(int=1))),
            (logical, pa.decimal128(6, 2), Decimal("1.25"), Decimal("1.25")),
            (record(("x", "int"), name="In"), pa.struct([("x", pa.int64())]), {"x": 1}, {"x": 1}),
            ({"type": "long", "logicalType": "ours"}, pa.int64(), 7, 7),
        ):
            with self.subTest(kind=kind):
                schema = record(("v", kind))
                made = decoder(schema)
                self.assertEqual(made.type.field("v").type, column)
                row = pa.array([made.decode(datum(schema, {"v": value}))], made.type).to_pylist()[0]
                self.assertEqual(row, {"v": landed})

    def test_a_list_of_a_type_that_was_named_before(self) -> None:
        part = record(("x", "int"), name="In")
        schema = record(("one", part), ("more", {"type": "array", "items": "In"}))
        made = decoder(schema)
        value = {"one": {"x": 1}, "more": [{"x": 2}, {"x": 3}]}
        self.assertEqual(pa.array([made.decode(datum(schema, value))], made.type).to_pylist(), [value])

    def test_bytes_of_another_schema_don_t_fit(self) -> None:
        body = datum(FIRST, {"id": 1, "note": "abc"})
        for wrong in (b"", body[:-1], body + b"\0", b"\xff" * 20):
            with self.assertRaises(Misfit) as found:
                decoder(FIRST).decode(wrong)
            self.assertEqual(found.exception.reason, "malformed")

    def test_any_bytes_fit_or_don_t(self) -> None:
        schema = record(
            ("a", {"type": "array", "items": "long"}),
            ("m", {"type": "map", "values": ["null", "string"]}),
            ("t", {"type": "long", "logicalType": "timestamp-micros"}),
        )
        self.assertGreater(misfits(decoder(schema).decode), 1000)


class FramedTests(TestCase):
    """With a header that says which schema it was written with."""

    def test_single_objects_of_every_schema_that_is_given(self) -> None:
        made = decoder({"v1": FIRST, "v2": SECOND}, "avro-single")
        for schema, value, landed in (
            (FIRST, {"id": 1, "note": "x"}, {"id": 1, "price": None}),
            (SECOND, {"id": 2, "price": 0.5}, {"id": 2, "price": 0.5}),
        ):
            sum64 = fastavro.schema.fingerprint(
                fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO"
            )
            self.assertEqual(made.decode(b"\xc3\x01" + bytes.fromhex(sum64) + datum(schema, value)), landed)
        with self.assertRaisesRegex(Misfit, "was written with schema 0{16}, which isn't given") as found:
            made.decode(b"\xc3\x01" + bytes(8))
        self.assertEqual(found.exception.reason, "unknown")
        with self.assertRaisesRegex(Misfit, "doesn't begin with the header of avro-single"):
            made.decode(datum(SECOND, {"id": 2, "price": 0.5}))

    def test_the_mark_of_single_objects_is_that_of_avro_s_specification(self) -> None:
        """The fingerprint of "int" there, 7275d51a3f395c8f, with the small end first."""
        found = fastavro.schema.fingerprint('"int"', "CRC-64-AVRO")
        self.assertEqual(bytes.fromhex(found), (0x7275D51A3F395C8F).to_bytes(8, "little"))

    def test_confluent_s_numbers(self) -> None:
        made = decoder({"7": FIRST, "300": SECOND}, "avro-confluent")
        body = datum(FIRST, {"id": 1, "note": "x"})
        self.assertEqual(made.decode(b"\0\0\0\0\x07" + body), {"id": 1, "price": None})
        body = datum(SECOND, {"id": 1, "price": 2.0})
        self.assertEqual(made.decode(b"\0\0\0\x01\x2c" + body), {"id": 1, "price": 2.0})
        with self.assertRaisesRegex(Misfit, "was written with schema 8, which isn't given"):
            made.decode(b"\0\0\0\0\x08" + body)
        with self.assertRaisesRegex(Misfit, "doesn't begin"):
            made.decode(b"\0\0\0")


class RefusalTests(TestCase):
    def test_schemas_that_are_no_columns(self) -> None:
        itself = record(("more", ["null", "Order"]))
        for schema, framing, why in (
            ({"a": FIRST, "b": SECOND}, "avro", "a bare datum doesn't say which"),
            (FIRST, "avro-confluent", "needs the registry's numbers"),
            ({"x": FIRST}, "avro-confluent", "needs the registry's numbers"),
            ("long", "avro", "has to be a record"),
            (record(("v", ["int", "string"])), "avro", "o.avsc, v: a union of several types"),
            (record(("v", {"type": "array", "items": "null"})), "avro", "null is no column"),
            (
                record(("v", {"type": "int", "logicalType": "time-millis"})),
                "avro",
                "leave its logicalType out",
            ),
            (record(("v", "Nothing")), "avro", "isn't an Avro schema"),
            (record(), "avro", "has no fields"),
            (itself, "avro", "Order contains itself"),
            ({}, "avro", "has no schema"),
        ):
            with self.subTest(schema=schema), self.assertRaisesRegex(BadSchema, why):
                decoder(schema, framing)
        with self.assertRaisesRegex(BadSchema, "isn't JSON"):
            AvroDecoder(b"\xff", "o.avsc", "avro")
