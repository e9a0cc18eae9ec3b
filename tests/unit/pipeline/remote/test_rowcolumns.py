"""Which columns are part of a message, and what is said of the others."""

from __future__ import annotations

from unittest import TestCase

import pyarrow as pa

from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.remote.rowcolumns import row_columns


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


class RowColumnsTest(TestCase):
    def test_what_the_sources_give_can_be_written(self) -> None:
        found = row_columns(arrow_schema())
        self.assertEqual(found.body, "body")
        self.assertEqual(
            set(found.used),
            {"topic", "queue_id", "tags", "keys", "unique_key", "properties", "flag", "body", "broker"},
        )

    def test_what_kafkas_sink_takes_can_be_written(self) -> None:
        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        rows = schema(
            key=pa.binary(),
            value=pa.string(),
            headers=pa.list_(header),
            topic=pa.string(),
            partition=pa.int32(),
        )
        self.assertEqual(row_columns(rows).body, "value")
        self.assertNotIn("topic", row_columns(rows, topic="Orders").used)

    def refused(self, told: str, rows: pa.Schema, **options: object) -> None:
        with self.assertRaisesRegex(WrongSchema, told):
            row_columns(rows, **options)  # type: ignore[arg-type]

    def test_mistakes(self) -> None:
        text = pa.string()
        self.refused("no column body", schema(topic=text))
        self.refused("both body and value", schema(topic=text, body=text, value=text))
        self.refused("no column topic: give the option", schema(body=text))
        self.refused("body must be binary or a string, not int64", schema(body=pa.int64()), topic="Orders")
        self.refused(
            r"tag is no part of a message \(did you mean tags\?\)", schema(body=text, tag=text), topic="T"
        )
        self.refused("hashBy: there's no column custmer", schema(body=text), topic="T", hash_by=["custmer"])
        self.refused("properties must be a map", schema(body=text, properties=text), topic="T")
        for fields in ([("name", text), ("value", pa.binary())], [("key", text), ("value", pa.int64())]):
            headers = pa.list_(pa.struct(fields))
            self.refused("headers must be an array of structs", schema(body=text, headers=headers), topic="T")

    def test_a_column_that_only_chooses_the_queue(self) -> None:
        found = row_columns(schema(body=pa.string(), customer=pa.int64()), topic="T", hash_by=["customer"])
        self.assertEqual((found.used, found.hashed), (("body",), ("customer",)))
