"""What Spark shows of records: rows and times as the reports read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support import golden

MASTER, SLAVE = str(golden.MASTER), str(golden.SLAVE)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(milliseconds: int) -> datetime:
    """As Spark gives it."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def row(**values: Any) -> tuple[Any, ...]:
    """What a report reads of a record."""
    plain = {
        "broker": "b", "topic": "T", "queue_id": 0, "physical_offset": 0, "size": 100, "stored": 0, "born": 0,
    } | values  # fmt: skip
    times = instant(plain["stored"]), instant(plain["born"])
    return (
        plain["broker"],
        plain["topic"],
        plain["queue_id"],
        plain["physical_offset"],
        plain["size"],
        *times,
    )


ROW_SCHEMA = (
    "broker string, topic string, queue_id int, physical_offset bigint, size int, store_timestamp timestamp, "
    "born_timestamp timestamp"
)
