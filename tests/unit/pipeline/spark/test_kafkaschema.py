"""Messages as rows of Kafka's columns. No Spark starts."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

import pyarrow as pa
from pyspark.sql.types import LongType, StructType

from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.spark.kafkaschema import kafka_rows, kafka_schema, kafka_wire_schema, needed_for
from hatwisted.pipeline.spark.readoptions import BadOption
from hatwisted.pipeline.spark.rocketmqoptions import rocketmq_options
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource


def chosen(**options: str) -> StructType:
    return kafka_schema(rocketmq_options({"schema": "kafka", **options}))


def converted(rows: list[dict[str, Any]], skip: int = 0, **options: str) -> list[dict[str, Any]]:
    """Rows of our columns as Kafka's; `skip` are left out by a slice, which shifts all offsets."""
    schema = kafka_wire_schema(chosen(**options))
    batch = pa.RecordBatch.from_pylist(rows, schema=needed_for(schema.names))
    return list(kafka_rows(batch.slice(skip), schema).to_pylist())


class KafkaSchemaTest(TestCase):
    def test_columns_are_those_of_sparks_source_and_the_broker(self) -> None:
        names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
        self.assertEqual(chosen().fieldNames(), [*names, "broker"])
        self.assertEqual(chosen(includeHeaders="true").fieldNames(), [*names, "headers", "broker"])
        self.assertEqual(chosen(columns="value,key").fieldNames(), ["value", "key"])
        types = [field.dataType.simpleString() for field in chosen(includeHeaders="true").fields]
        self.assertEqual(
            types,
            ["binary", "binary", "string", "int", "bigint", "timestamp", "int"]
            + ["array<struct<key:string,value:binary>>", "string"],
        )

    def test_only_what_is_needed_is_decoded(self) -> None:
        self.assertEqual(
            needed_for(["value", "timestampType", "timestamp"]).names, ["body", "store_timestamp"]
        )

    def test_rows(self) -> None:
        system = [("UNIQ_KEY", "u"), ("KEYS", "a b"), ("CLUSTER", "c")]
        rows: list[dict[str, Any]] = [
            {"keys": None, "body": b"0", "properties": [("left", "out")]},
            {"keys": ["a", "b"], "body": b"1", "properties": [*system, ("own", "x"), ("TAGS", "t")]},
            {"keys": None, "body": None, "properties": system},
            {"keys": ["c"], "body": b"3", "properties": [("own", "y")]},
        ]
        found = converted(rows, skip=1, columns="key,value,headers,timestampType")
        self.assertEqual([row["key"] for row in found], [b"a b", None, b"c"])
        self.assertEqual([row["value"] for row in found], [b"1", None, b"3"])
        headers = [{"key": "own", "value": b"x"}, {"key": "TAGS", "value": b"t"}]
        self.assertEqual([row["headers"] for row in found], [headers, None, [{"key": "own", "value": b"y"}]])
        self.assertEqual([row["timestampType"] for row in found], [1, 1, 1])
        self.assertEqual(converted([], includeHeaders="true"), [])

    def test_mistakes(self) -> None:
        with self.assertRaisesRegex(BadOption, "schema=kafka has no column 'body'; it has key, value"):
            chosen(columns="body")
        with self.assertRaisesRegex(BadOption, "schema='avro' must be own or kafka"):
            RocketMQSource({"schema": "avro"}).schema()
        with self.assertRaisesRegex(WrongSchema, "column value is binary: cast it"):
            kafka_wire_schema(StructType().add("value", LongType()))
        with self.assertRaisesRegex(BadOption, "subscribe and topics are the same option"):
            rocketmq_options({"subscribe": "A", "topics": "B"})

    def test_without_it_columns_are_the_sources_own(self) -> None:
        self.assertEqual(RocketMQSource({}).schema().fieldNames(), arrow_schema().names)
