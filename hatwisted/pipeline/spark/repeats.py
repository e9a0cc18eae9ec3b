"""Rows of messages that were stored more than once, each once: what makes at-least-once writing exactly once.

Spark's own operators do it, with their state in the query's checkpoint. Within the source it couldn't be done: its
tasks have no memory, and which queue a repetition went to depends on which brokers were up.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hatwisted.pipeline.errors import WrongSchema

NEEDED: Final = ("unique_key", "broker", "physical_offset")
_IDENTITY: Final = "__hatwisted_identity"
_READ_AT: Final = "__hatwisted_read_at"


def without_repeats(rows: DataFrame, within: str = "1 hour") -> DataFrame:
    """The rows of a source, without those whose `unique_key` an earlier one has. Rows without a key stay.

    within: of a stream, for how long a key is remembered after it was read: longer than the writing query may
    stand still between a failure and its restart. A batch has all its rows at hand and needs none.

    Raises WrongSchema for rows without the columns in NEEDED.
    """
    missing = [name for name in NEEDED if name not in rows.columns]
    if missing:
        raise WrongSchema(f"without_repeats: rows have no column {missing[0]}; it needs {', '.join(NEEDED)}")
    place = F.concat_ws(":", F.col("broker"), F.col("physical_offset"))
    told = rows.withColumn(_IDENTITY, F.coalesce(F.col("unique_key"), place))
    if rows.isStreaming:
        # The time of reading, not of storing: rows of a queue that is read later than others would be late for
        # Spark, and dropped.
        told = told.withColumn(_READ_AT, F.current_timestamp()).withWatermark(_READ_AT, within)
        told = told.dropDuplicatesWithinWatermark([_IDENTITY]).drop(_READ_AT)
    else:
        told = told.dropDuplicates([_IDENTITY])
    return told.drop(_IDENTITY)
