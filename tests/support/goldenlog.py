"""The golden store as rows, decoded record by record by the server's own codec: what the jobs are held against."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hatwisted.wire.record import decode_record
from hatwisted.wire.storedrecord import Record

GOLDEN = Path(__file__).parents[1] / "golden" / "rocketmq-4.9.7"
MASTER, SLAVE = str(GOLDEN / "master"), str(GOLDEN / "slave")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records(store: str = MASTER) -> list[Record]:
    """All, in log order."""
    found = []
    for path in sorted(Path(store, "commitlog").iterdir()):
        data, position = path.read_bytes(), 0
        while isinstance(record := decode_record(data, position), Record):
            position += record.total_size
            found.append(record)
    return found


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
