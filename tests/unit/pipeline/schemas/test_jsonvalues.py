"""JSON bodies by JSON Schema and by Spark's: what fits and what it becomes, what doesn't, and schemas refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unittest import TestCase

import pyarrow as pa

from hatwisted.pipeline.schemas.jsonvalues import JsonDecoder
from hatwisted.pipeline.schemas.values import DEEPEST, BadSchema, Misfit

NESTED: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def decoder(schema: Any) -> JsonDecoder:
    return JsonDecoder(json.dumps(schema).encode(), "s.json")


def one(part: Any, required: bool = True, **more: Any) -> JsonDecoder:
    """An object with one field, v."""
    schema = {"type": "object", "properties": {"v": part}, "required": ["v"] if required else [], **more}
    return decoder(schema)


class FieldTests(TestCase):
    def test_types_and_values(self) -> None:
        time = pa.timestamp("us", "UTC")
        for part, kind, text, value in (
            ({"type": "integer"}, pa.int64(), "-5", -5),
            ({"type": "number"}, pa.float64(), "3", 3.0),
            ({"type": "boolean"}, pa.bool_(), "true", True),
            ({"type": "string"}, pa.string(), '"\\u00e4"', "ä"),
            ({"type": ["string", "null"]}, pa.string(), "null", None),
            ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, pa.int64(), "null", None),
            ({"type": "string", "format": "uuid"}, pa.string(), '"x"', "x"),
            (
                {"type": "string", "format": "date-time"},
                time,
                '"2026-01-02T03:04:05+01:00"',
                datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC),
            ),
            ({"type": "string", "format": "date"}, pa.date32(), '"2026-01-02"', date(2026, 1, 2)),
            ({"type": "string", "contentEncoding": "base64"}, pa.binary(), '"AAE="', b"\0\x01"),
            ({"enum": ["a", "b"]}, pa.string(), '"b"', "b"),
            ({"enum": [1, 2, None]}, pa.int64(), "null", None),
            ({"type": "array", "items": {"type": "integer"}}, pa.list_(pa.int64()), "[1, 2]", [1, 2]),
            (NESTED, pa.struct([("a", pa.int64())]), '{"b": 1}', {"a": None}),
            (
                {"type": "object", "additionalProperties": {"type": "integer"}},
                pa.map_(pa.string(), pa.int64()),
                '{"x": 1}',
                [("x", 1)],
            ),
            ({}, pa.string(), '{"x": [1]}', '{"x": [1]}'),
            ({"type": "object"}, pa.string(), '{"x": [1]}', '{"x": [1]}'),
            ({}, pa.string(), "null", None),
            ({"$ref": "#/$defs/x"}, pa.int64(), "7", 7),
        ):
            with self.subTest(part=part, text=text):
                made = one(part, **{"$defs": {"x": {"type": "integer"}}})
                row = pa.array([made.decode(b'{"v": %s}' % text.encode())], made.type).to_pylist()[0]
                self.assertEqual(row, {"v": value})
                found = made.type.field("v").type
                self.assertEqual(
                    found, pa.list_(pa.field("element", pa.int64())) if pa.types.is_list(kind) else kind
                )

    def test_what_doesn_t_fit(self) -> None:
        for part, text, reason in (
            ({"type": "integer"}, "1.5", "type"),
            ({"type": "integer"}, '"1"', "type"),
            ({"type": "integer"}, "true", "type"),
            ({"type": "integer"}, "9223372036854775808", "value"),
            ({"type": "integer"}, "null", "type"),
            ({"type": "integer", "minimum": 3.0}, "2", "value"),
            ({"type": "integer", "exclusiveMaximum": 3}, "3", "value"),
            ({"type": "number", "multipleOf": 2}, "3", "value"),
            ({"type": "number"}, "1e999", "value"),
            ({"type": "string", "pattern": "^a"}, '"b"', "value"),
            ({"type": "string", "maxLength": 1}, '"bb"', "value"),
            ({"type": "string", "format": "date-time"}, '"2026-01-02T03:04:05"', "value"),
            ({"type": "string", "format": "date"}, '"soon"', "value"),
            ({"enum": ["a"]}, '"b"', "value"),
            ({"type": "array", "items": {"type": "integer"}, "maxItems": 1}, "[1, 2]", "value"),
            ({"type": "string"}, '"\\ud800"', "malformed"),
            ({"type": "string"}, '"x"} {', "malformed"),
            (NESTED, '{"a": "x"}', "type"),
        ):
            with self.subTest(part=part, text=text), self.assertRaises(Misfit) as found:
                one(part).decode(b'{"v": %s}' % text.encode())
            self.assertEqual(found.exception.reason, reason, text)

    def test_bodies_that_are_no_such_object(self) -> None:
        made = one({"type": "string"}, additionalProperties=False)
        for body, reason in (
            (b"", "malformed"),
            (b"\xff", "malformed"),
            (b'\xef\xbb\xbf{"v": "a"}', "malformed"),
            (b'{"v": "\xff"}', "malformed"),
            (b"[" * 100_000, "type"),
            (b'{"w": ' + b"[" * 100_000, "unknown"),
            (b"{}", "missing"),
            (b'{"v": "a", "w": 1}', "unknown"),
        ):
            with self.subTest(body=body[:20]), self.assertRaises(Misfit) as found:
                made.decode(body)
            self.assertEqual(found.exception.reason, reason)

    def test_a_field_that_needn_t_be_there_may_be_null(self) -> None:
        made = one({"type": "integer"}, required=False)
        self.assertEqual(made.decode(b"{}"), {"v": None})
        self.assertEqual(made.decode(b'{"v": null}'), {"v": None})


class SchemaTests(TestCase):
    def test_schemas_that_can_t_be_columns_say_where(self) -> None:
        for part, why in (
            ({"type": "integer", "uniqueItems": True}, "s.json, v: uniqueItems can't be checked here"),
            ({"not": {}}, "type has to be one of"),
            ({"type": ["integer", "string"]}, "type has to be one of"),
            ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "oneOf of several types is no column"),
            ({"$ref": "other.json"}, "isn't in this file"),
            ({"$ref": "#/$defs/none"}, "isn't in this file"),
            ({"$ref": "#"}, "contains itself"),
            ({"type": "object", "properties": {}}, "has no fields"),
            ({"type": "object", "properties": {"a b": {}}}, "can't be called 'a b'"),
            ({"type": "object", "properties": {"a": {}, "A": {}}}, "a and A would be the same column"),
            ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, "requires b"),
            ({"type": "string", "pattern": "("}, "s.json, v: "),
            ({"type": "integer", "minimum": "x"}, "s.json, v: "),
            ({"enum": [1, "a"]}, "an enum is of texts, or of integers"),
            (7, "isn't a schema"),
        ):
            with self.subTest(part=part), self.assertRaisesRegex(BadSchema, why.replace("(", r"\(")):
                one(part)
        deep: Any = {"type": "integer"}
        for _ in range(100):
            deep = {"type": "array", "items": deep}
        with self.assertRaisesRegex(BadSchema, f"nested deeper than {DEEPEST} levels"):
            one(deep)
        for schema, why in (([], "has to be an object"), ({"type": "integer"}, "an object with properties")):
            with self.assertRaisesRegex(BadSchema, why):
                decoder(schema)
        with self.assertRaisesRegex(BadSchema, "s.json: isn't JSON"):
            JsonDecoder(b"{", "s.json")


class SparkSchemaTests(TestCase):
    def struct(self, kind: Any, nullable: bool = True) -> JsonDecoder:
        field = {"name": "v", "type": kind, "nullable": nullable, "metadata": {}}
        return decoder({"type": "struct", "fields": [field]})

    def test_types_and_values(self) -> None:
        array = {"type": "array", "elementType": "long", "containsNull": True}
        mapping = {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": False}
        for kind, text, value in (
            ("integer", "5", 5),
            ("decimal(5,2)", '"1.25"', Decimal("1.25")),
            ("decimal(5,2)", "1.5", Decimal("1.50")),
            ("binary", '"AAE="', b"\0\x01"),
            (array, "[1, null]", [1, None]),
            (mapping, '{"a": 1}', [("a", 1.0)]),
            ("string", "null", None),
        ):
            with self.subTest(kind=kind):
                made = self.struct(kind)
                row = pa.array([made.decode(b'{"v": %s}' % text.encode())], made.type).to_pylist()[0]
                self.assertEqual(row, {"v": value})

    def test_what_doesn_t_fit(self) -> None:
        for kind, text, reason in (
            ("byte", "128", "value"),
            ("integer", "2147483648", "value"),
            ("string", "null", "type"),
            # pyarrow takes the first for 0, and of the second the process would end.
            ("decimal(5,2)", "1E-77", "value"),
            ("decimal(5,2)", "1E-999999999", "value"),
            ({"type": "array", "elementType": "decimal(5,2)", "containsNull": True}, "[1, 1E-77]", "value"),
            (
                {
                    "type": "map",
                    "keyType": "string",
                    "valueType": "decimal(5,2)",
                    "valueContainsNull": True,
                },
                '{"a": 1E-77}',
                "value",
            ),
        ):
            with self.subTest(kind=kind), self.assertRaises(Misfit) as found:
                self.struct(kind, nullable=False).decode(b'{"v": %s}' % text.encode())
            self.assertEqual(found.exception.reason, reason)

    def test_refusals(self) -> None:
        for kind, why in (
            ("interval", "s.json, v: interval isn't a type for JSON here"),
            ("decimal(39,2)", "isn't a type"),
            ({"type": "map", "keyType": "long", "valueType": "long"}, "isn't a type"),
            ({"type": "array"}, "lacks 'elementType'"),
        ):
            with self.subTest(kind=kind), self.assertRaisesRegex(BadSchema, why):
                self.struct(kind)
