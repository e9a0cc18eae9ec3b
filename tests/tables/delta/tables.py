"""Rows and runs that the tests of landed tables share."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable

from hatwisted.pipeline.delta.commits import Claim, claim, commit_files
from hatwisted.pipeline.delta.datafiles import DataFile, DataFiles
from hatwisted.pipeline.delta.deltatable import prepare_table
from hatwisted.pipeline.delta.names import Writer

PARTITION_BY = ("topic", "store_date")
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("store_date", pa.date32()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("physical_offset", pa.int64()),
        ("size", pa.int32()),
        ("store_timestamp", pa.timestamp("us", "UTC")),
        ("broker", pa.string()),
        ("body_crc", pa.int32()),
        ("keys", pa.list_(pa.string())),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.binary()),
    ]
)
SIZE = 100
"""Bytes of a record, so record n of a log is at offset 100 n."""
FIRST_DAY = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)


def rows(first: int, count: int, topics: tuple[str, ...] = ("orders",), broker: str = "a") -> pa.RecordBatch:
    """Records `first`... of a log: topics in turn, one a second from a minute before midnight."""
    numbers = range(first, first + count)
    times = [FIRST_DAY + timedelta(seconds=number) for number in numbers]
    columns = {
        "topic": [topics[number % len(topics)] for number in numbers],
        "store_date": [time.date() for time in times],
        "queue_id": [0] * count,
        "queue_offset": list(numbers),
        "physical_offset": [SIZE * number for number in numbers],
        "size": [SIZE] * count,
        "store_timestamp": times,
        "broker": [broker] * count,
        "body_crc": list(numbers),
        "keys": [[f"k{number}"] for number in numbers],
        "properties": [[("KEYS", f"k{number}")] for number in numbers],
        "body": [b"body %d" % number for number in numbers],
    }
    return pa.record_batch([pa.array(columns[item.name], item.type) for item in SCHEMA], schema=SCHEMA)


class Run:
    """One run of a landing: claims its broker and commits batches of rows."""

    def __init__(self, path: str, application: str = "app", brokers: tuple[str, ...] = ("a",)) -> None:
        self.path = path
        self.application = application
        self.schema = prepare_table(path, SCHEMA, PARTITION_BY)
        self.claim: Claim = claim(path, Writer.of(brokers))

    def files(self, *batches: pa.RecordBatch) -> list[DataFile]:
        """Whole files that no commit mentions yet."""
        writer, epoch = self.claim.writer.digest, self.claim.epoch
        files = DataFiles(self.path, self.schema, PARTITION_BY, writer=writer, epoch=epoch)
        for batch in batches:
            files.write(batch)
        return files.close()

    def commit(self, number: int, files: list[DataFile]) -> bool:
        return commit_files(self.path, files, application=self.application, number=number, held=self.claim)

    def land(self, number: int, *batches: pa.RecordBatch) -> bool:
        return self.commit(number, self.files(*batches))


def offsets(path: str) -> list[int]:
    """The physical offsets in the table, in order."""
    found: list[int] = DeltaTable(path).to_pyarrow_table(columns=["physical_offset"])[0].to_pylist()
    return sorted(found)


def upto(count: int) -> list[int]:
    """The offsets of the first `count` records."""
    return [SIZE * number for number in range(count)]


DAYS = (date(2026, 11, 20), date(2026, 11, 21))
