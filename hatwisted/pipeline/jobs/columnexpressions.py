"""Column expressions of the jobs. Each function is pure: columns or a frame in, columns or a frame out.

`select` at the end of a transformation is its schema contract: what it yields, in this order, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hatwisted.pipeline.delta.landedrows import END_TIME, FIRST_TIME, STORE_DATE, landed_names

DAY: Final = 86_400_000_000
"""Microseconds."""


def store_date(store_timestamp: Column) -> Column:
    """The day in UTC that the broker stored a message, whatever the session's zone is. Null as in
    `with_store_date`.
    """
    micros = F.unix_micros(store_timestamp)
    # A multiple of a day is exact as a double, too.
    day = ((micros - F.pmod(micros, F.lit(DAY))) / DAY).cast("int")
    dated = (micros >= FIRST_TIME) & (micros < END_TIME)
    return F.when(dated, F.date_from_unix_date(day)).alias(STORE_DATE)


def landed(messages: DataFrame, columns: Sequence[str] | None = None) -> DataFrame:
    """Messages of a source as the rows of a landed table: the log's columns and the date they are filed under."""
    return messages.select(*landed_names(columns), store_date(F.col("store_timestamp")))
