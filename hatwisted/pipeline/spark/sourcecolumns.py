"""Columns as Spark's schemas and as Arrow's: what a source offers, and what a user's schema asks of it.

Spark's interface for sources in Python has no column pruning. There are two substitutes: the option `columns`,
and a schema the user gives, whose names choose columns; its types must be the columns' own, since a source that
converted would hide mistakes. Columns that aren't asked for are never built.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from hatwisted.pipeline.decode.arrowschema import arrow_schema, check_columns
from hatwisted.pipeline.errors import WrongSchema


def spark_schema(columns: Sequence[str] | None = None) -> StructType:
    """The schema of these columns in this order; of all, if None."""
    return from_arrow_schema(arrow_schema(columns))


def wire_schema(schema: StructType) -> pa.Schema:
    """How Spark expects batches of this schema; raises WrongSchema unless its columns are ours."""
    names = schema.fieldNames()
    check_columns(names)
    for field, own in zip(schema.fields, spark_schema(names).fields, strict=True):
        if field.dataType.simpleString() != own.dataType.simpleString():
            raise WrongSchema(
                f"column {field.name} is {own.dataType.simpleString()}, not {field.dataType.simpleString()}: "
                "read it as it is and cast it in a select"
            )
    return to_arrow_schema(schema, timezone="UTC")


def shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns in the order and with the nullability Spark compares a batch with; copies nothing."""
    return pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
