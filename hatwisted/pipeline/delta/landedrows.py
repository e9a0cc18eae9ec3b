"""The rows of a landed table, as Arrow: the columns of the log and the day they are filed under.

The same as `hatwisted.pipeline.jobs.columnexpressions`, for rows that never become Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.decode.arrowschema import COLUMNS, arrow_schema, check_columns

STORE_DATE: Final = "store_date"
FIRST_TIME: Final = -62_135_596_800_000_000
END_TIME: Final = 253_402_300_800_000_000
"""From the year 1 to the year 10000, in microseconds since 1970."""
PARTITION_BY: Final = ("topic", STORE_DATE)
"""Columns that become folders of a landed table."""
LANDING_KEYS: Final = (
    *("topic", "queue_id", "queue_offset", "physical_offset"),
    *("size", "store_timestamp", "body_crc", "broker"),
)
"""Columns of the log that a landed table can't be without: partitions, identity, and what a landing needs to
continue."""


def landed_names(columns: Sequence[str] | None = None) -> tuple[str, ...]:
    """Columns to read for a landed table: `columns` and those it can't be without, in the log's order."""
    wanted = {*check_columns(COLUMNS if columns is None else columns), *LANDING_KEYS}
    return tuple(name for name in COLUMNS if name in wanted)


def landed_schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """The columns of a landed table."""
    return arrow_schema(landed_names(columns)).append(pa.field(STORE_DATE, pa.date32()))


def with_store_date(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Messages and the day (UTC) that the broker stored them; null outside the years 1 to 9999, for which tables
    have no partitions."""
    stored = messages.column("store_timestamp")
    micros = stored.cast(pa.int64())
    dated = pc.and_(pc.greater_equal(micros, FIRST_TIME), pc.less(micros, END_TIME))
    return messages.append_column(
        STORE_DATE, pc.if_else(dated, pc.cast(stored, pa.date32()), pa.scalar(None, pa.date32()))
    )
