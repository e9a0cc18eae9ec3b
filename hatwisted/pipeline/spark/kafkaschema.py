"""`schema=kafka`: messages as rows of the columns that Spark's Kafka source has, so that a query is moved by
changing its format and its servers.

`key` is all of KEYS, `partition` the queue's number, `timestamp` the time of storing (`timestampType` 1, as Kafka
calls that), headers are the program's own properties, and tags. A queue's number isn't unique among brokers, as a
partition's is in Kafka, hence a column more: `broker`. Numbers counted over all brokers were rejected: another
broker's first queue would change most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.errors import WrongSchema
from hatwisted.pipeline.remote.rowmessages import NOT_COPIED
from hatwisted.pipeline.spark.readoptions import BadOption, Options
from hatwisted.wire import layout

SCHEMAS: Final = ("own", "kafka")
LOG_APPEND_TIME: Final = 1
"""Kafka's number for times that the broker gives."""
NO_HEADERS: Final = tuple(sorted(NOT_COPIED | {layout.PROPERTY_KEYS}))
"""Properties that aren't the program's, and the key, which has a column."""
_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_COLUMNS: Final[dict[str, tuple[pa.DataType, str]]] = {
    "key": (pa.binary(), "keys"),
    "value": (pa.binary(), "body"),
    "topic": (pa.string(), "topic"),
    "partition": (pa.int32(), "queue_id"),
    "offset": (pa.int64(), "queue_offset"),
    "timestamp": (pa.timestamp("us", tz="UTC"), "store_timestamp"),
    "timestampType": (pa.int32(), "store_timestamp"),
    "headers": (pa.list_(pa.field("element", _HEADER)), "properties"),
    "broker": (pa.string(), "broker"),
}
"""Kafka's names and types in its order, and which of our columns each is made of."""


def is_kafka(options: Options) -> bool:
    """Is it wanted?"""
    return options.choice("schema", SCHEMAS, "own") == "kafka"


def kafka_schema(options: Options) -> StructType:
    """What the options ask for: columns by name, or all, of which headers only if they are included."""
    columns = options.items("columns")
    if not columns:
        with_headers = options.flag("includeHeaders", False)
        columns = tuple(name for name in _COLUMNS if with_headers or name != "headers")
    for name in columns:
        if name not in _COLUMNS:
            raise BadOption(f"rocketmq: schema=kafka has no column {name!r}; it has {', '.join(_COLUMNS)}")
    return from_arrow_schema(pa.schema([(name, _COLUMNS[name][0]) for name in columns]))


def kafka_wire_schema(schema: StructType) -> pa.Schema:
    """How Spark expects batches of this schema; WrongSchema unless its columns are Kafka's."""
    for field in schema.fields:
        if field.name not in _COLUMNS:
            raise WrongSchema(f"schema=kafka has no column {field.name}; it has {', '.join(_COLUMNS)}")
        own = from_arrow_schema(pa.schema([(field.name, _COLUMNS[field.name][0])])).fields[0]
        if field.dataType.simpleString() != own.dataType.simpleString():
            raise WrongSchema(f"column {field.name} is {own.dataType.simpleString()}: cast it in a select")
    return to_arrow_schema(schema, timezone="UTC")


def needed_for(names: Iterable[str]) -> pa.Schema:
    """Our columns that these are made of."""
    return arrow_schema(tuple(dict.fromkeys(_COLUMNS[name][1] for name in names)))


def kafka_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of our columns as one of Kafka's."""
    arrays = []
    for field in schema:
        column = batch.column(_COLUMNS[field.name][1])
        made = _MADE[field.name](column) if field.name in _MADE else column
        arrays.append(made if made.type == field.type else made.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _key(keys: pa.Array) -> pa.Array:
    return pc.binary_join(keys, layout.KEY_SEPARATOR).cast(pa.binary())


def _timestamp_type(times: pa.Array) -> pa.Array:
    return pa.array(np.full(len(times), LOG_APPEND_TIME, np.int32))


def _headers(properties: pa.MapArray) -> pa.Array:
    """Null where there's none, as in Kafka."""
    bounds = np.asarray(properties.offsets)
    names = properties.keys.slice(bounds[0], bounds[-1] - bounds[0])
    values = properties.items.slice(bounds[0], bounds[-1] - bounds[0])
    taken = pc.invert(pc.is_in(names, pa.array(NO_HEADERS)))
    places = np.concatenate(([0], np.cumsum(np.asarray(taken)))).astype(np.int32)[bounds - bounds[0]]
    headers = pa.StructArray.from_arrays(
        [names.filter(taken), values.filter(taken).cast(pa.binary())], fields=list(_HEADER)
    )
    nothing = pa.array(places[1:] == places[:-1])
    return pa.ListArray.from_arrays(pa.array(places), headers, type=_COLUMNS["headers"][0], mask=nothing)


_MADE: Final[dict[str, Callable[[Any], pa.Array]]] = {
    "key": _key,
    "timestampType": _timestamp_type,
    "headers": _headers,
}
