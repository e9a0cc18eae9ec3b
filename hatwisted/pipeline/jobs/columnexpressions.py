"""Column expressions of the jobs. Each function is pure: columns or a frame in, columns or a frame out.

`select` at the end of a transformation is its schema contract: what it yields, in this order, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hatwisted.pipeline.delta.landedrows import END_TIME, FIRST_TIME, STORE_DATE, landed_names


def store_date(store_timestamp: Column) -> Column:
    """The day that the broker stored a message; in UTC, with a session in UTC. Null as in `with_store_date`."""
    micros = F.unix_micros(store_timestamp)
    return F.when((micros >= FIRST_TIME) & (micros < END_TIME), F.to_date(store_timestamp)).alias(STORE_DATE)


def landed(messages: DataFrame, columns: Sequence[str] | None = None) -> DataFrame:
    """Messages of a source as the rows of a landed table: the log's columns and the date they are filed under."""
    return messages.select(*landed_names(columns), store_date(F.col("store_timestamp")))
