"""Column expressions of the jobs. Each function is pure: columns or a frame in, columns or a frame out.

`select` at the end of a transformation is its schema contract: what it yields, in this order, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hatwisted.pipeline.decode.schema import COLUMNS, arrow_schema

STORE_DATE: Final = "store_date"
LANDING_KEYS: Final = ("topic", "physical_offset", "size", "store_timestamp", "broker")
"""Columns of the log that a landed table can't be without: partitions, identity and where a log goes on."""


def store_date(store_timestamp: Column) -> Column:
    """The day (UTC, with a session in UTC) that the broker stored a message."""
    return F.to_date(store_timestamp).alias(STORE_DATE)


def landed_names(columns: Sequence[str] | None = None) -> tuple[str, ...]:
    """Columns to read for a landed table: `columns` and those it can't be without, in the log's order."""
    wanted = set(COLUMNS if columns is None else columns) | set(LANDING_KEYS)
    return tuple(name for name in COLUMNS if name in wanted)


def landed_schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """The columns of `landed` as Arrow has them."""
    return arrow_schema(landed_names(columns)).append(pa.field(STORE_DATE, pa.date32()))


def landed(messages: DataFrame, columns: Sequence[str] | None = None) -> DataFrame:
    """Messages of a source as the rows of a landed table: the log's columns and the date they are filed under."""
    return messages.select(*landed_names(columns), store_date(F.col("store_timestamp")))
