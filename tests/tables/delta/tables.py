"""Rows and runs that the tests of landed tables share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.delta import commits
from hatwisted.pipeline.delta.commits import Brought, Claim, claim, commit_files
from hatwisted.pipeline.delta.datafiles import DataFile, DataFiles
from hatwisted.pipeline.delta.deltatable import prepare_table
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.reach import Reach

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
        """As a landing of stores does it."""
        reach = Reach()
        for batch in batches:
            reach.add(batch)
        return commit_files(
            self.path,
            self.files(*batches),
            application=self.application,
            number=number,
            held=self.claim,
            brought=Brought(tails=reach.tails),
        )


class RaceCase(SynchronousTestCase):
    """Somebody else commits."""

    def race(self, rival: Callable[[], object]) -> None:
        """Let `rival` commit once between a commit's look at the table and its leap."""
        rivals = [rival]

        def look(path: str) -> DeltaTable:
            table = DeltaTable(path)
            if rivals:
                rivals.pop()()
            return table

        self.patch(commits, "open_table", look)

    def race_at_the_end(self, rival: Callable[[], object]) -> None:
        """The same right before the leap, when all has been looked at."""
        rivals, leap = [rival], commits._commit

        def leap_late(*given: Any) -> None:
            if rivals:
                rivals.pop()()
            leap(*given)

        self.patch(commits, "_commit", leap_late)


def commit_as_before(path: str, note: Mapping[str, Any], files: Sequence[DataFile] = ()) -> None:
    """A commit with this note alone, as landings of earlier versions made them."""
    table = DeltaTable(path)
    adds = [
        AddAction(file.path, file.size, dict(file.partition), file.modified, True, file.stats)
        for file in files
    ]
    properties = CommitProperties(custom_metadata={"hatwisted": dict(note)})
    columns = table.metadata().partition_columns
    table.create_write_transaction(adds, "append", table.schema(), columns, commit_properties=properties)


def write_commit(path: str, operation: str, *actions: Mapping[str, Any], **more: Any) -> None:
    """A commit by hand, without what delta-rs would see a conflict in."""
    version = DeltaTable(path).version() + 1
    information = {"commitInfo": {"timestamp": 1_795_651_047_625 + version, "operation": operation, **more}}
    text = "\n".join(map(json.dumps, (information, *actions)))
    Path(path, "_delta_log", f"{version:020}.json").write_text(text)


def offsets(path: str) -> list[int]:
    """The physical offsets in the table, in order."""
    found: list[int] = DeltaTable(path).to_pyarrow_table(columns=["physical_offset"])[0].to_pylist()
    return sorted(found)


def upto(count: int) -> list[int]:
    """The offsets of the first `count` records."""
    return [SIZE * number for number in range(count)]


DAYS = (date(2026, 11, 20), date(2026, 11, 21))
