"""Rows of logs into data files of an Iceberg table, and where each broker's rows end in them.

pyiceberg writes a file for each partition of the rows it is given, so they wait until there are `FLUSH_BYTES`. A
file is part of the table only by a snapshot.
"""

from __future__ import annotations

import itertools
import secrets
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.landedrows import END_TIME, FIRST_TIME
from hatwisted.pipeline.delta.tails import COLUMNS, Tail, plain_rows
from hatwisted.pipeline.iceberg.catalogs import plainly
from hatwisted.pipeline.iceberg.nulls import keep_nulls

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

keep_nulls()

RUN_LETTERS: Final = 12
"""Of a run's name, in hexadecimal."""
SEQUENCE_LETTERS: Final = 12
"""The same of the number of the snapshot that alone may bring a file."""
WRITTEN: Final = "hatwisted.written"
"""Key of a snapshot's summary: a run, and the highest number of its files that are settled."""
METRICS: Final = "write.metadata.metrics.column."
"""Properties of a table: what is told of a column of each file."""
FLUSH_BYTES: Final = 128 << 20
"""Arrow bytes that wait before they are written."""
TASKS: Final = 1 << 31
"""Numbers of files that tasks of a run have written, in no order: from here on. No snapshot says that they are
settled, so those of a run that has ended are looked up, all of them."""
ATTEMPT_BITS: Final = 96
"""Of the number that an attempt at a task draws, since its files' names are like those of the others otherwise."""
ATTEMPT_FILES: Final = 1 << 20
"""Files that one call may write in a task, at most: their names have a number of the attempt's and their own."""


class FileGone(WrongTable):
    """A file was removed while it was written: by somebody who knows that it can't be committed any more."""


@dataclass
class Reach:
    """Where some rows lie in the logs. first: the least offset of each broker; tails: the record with its highest
    one."""

    first: dict[str, int] = field(default_factory=dict)
    tails: dict[str, Tail] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows of any brokers."""
        places = rows.select(COLUMNS)
        for broker in pc.unique(rows["broker"]).to_pylist():
            if broker is None:
                continue
            mine = places.filter(pc.equal(places["broker"], broker))
            bounds = pc.min_max(mine["physical_offset"]).as_py()
            last = mine.slice(pc.index(mine["physical_offset"], bounds["max"]).as_py(), 1)
            tail = Tail(**plain_rows(pa.Table.from_batches([last])).to_pylist()[0])
            self._take(broker, bounds["min"], tail)

    def __iadd__(self, other: Reach) -> Reach:
        for broker, tail in other.tails.items():
            self._take(broker, other.first[broker], tail)
        return self

    def _take(self, broker: str, first: int, tail: Tail) -> None:
        self.first[broker] = min(first, self.first.get(broker, first))
        known = self.tails.get(broker)
        if known is None or known.physical_offset < tail.physical_offset:
            self.tails[broker] = tail


class FileIds:
    """Names of a run's files: the run, which snapshot alone may bring them, if any may not, and numbers that rise.
    They have the form that Iceberg's writers use, who take random ones, which differ in their 13th letter.

    - run: its name
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.number = 0
        """Of the last name."""

    def counted(self) -> itertools.count[int]:
        """Numbers of the files of one call, which their names have besides."""
        return itertools.count()

    def next(self) -> uuid.UUID:
        """For the files of one call."""
        self.number += 1
        left = 32 - RUN_LETTERS - SEQUENCE_LETTERS
        return uuid.UUID(f"{self.run}{self.sequence:0{SEQUENCE_LETTERS}x}{self.number:0{left}x}")

    @property
    def sequence(self) -> int:
        """Number of the snapshot that alone may bring the next one; 0: any may."""
        return 0

    @property
    def note(self) -> dict[str, str]:
        """For a snapshot: all files so far are in the table then, or removed."""
        return {WRITTEN: f"{self.run} {self.number}"}

    @staticmethod
    def settled(snapshot: Snapshot, run: str) -> int | None:
        """What a snapshot says of a run; None: nothing.

        - snapshot: which
        - run: its name
        """
        return FileIds.settled_in(
            {} if snapshot.summary is None else snapshot.summary.additional_properties, run
        )

    @staticmethod
    def settled_in(note: Mapping[str, str], run: str) -> int | None:
        """The same of what a snapshot is going to say.

        - note: of its own
        - run: its name
        """
        whose, _, number = note.get(WRITTEN, "").partition(" ")
        return int(number) if whose == run and number.isdigit() else None


class SnapshotIds(FileIds):
    """Names of files that the snapshot right after the one that was looked at may bring, or none: those of
    compactions and merges.

    - table: which they are of; as it is loaded, it's looked at
    """

    def __init__(self, table: Table | None) -> None:
        super().__init__(uuid.uuid4().hex[:RUN_LETTERS])
        self.table = table

    @property
    def sequence(self) -> int:
        """See FileIds. Snapshots of format 1 have no numbers: it's 0 then."""
        return 0 if self.table is None else self.table.metadata.next_sequence_number()


class TaskIds(FileIds):
    """Names of the files of one attempt at a task: nobody else in the run has them, whoever writes as well.

    - run: its name
    """

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.number = TASKS
        self._attempt = secrets.randbits(ATTEMPT_BITS)

    def counted(self) -> itertools.count[int]:
        """See FileIds."""
        return itertools.count(self._attempt * ATTEMPT_FILES)


class IcebergFiles:
    """`write` batches, then `close` for the finished files, or `drop`.

    - table: which
    - name: of the table, for errors
    - ids: names of the run's files
    """

    def __init__(self, table: Table, name: str, ids: FileIds) -> None:
        self._table = table
        self._name = name
        self._ids = ids
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._finished: list[DataFile] = []
        self.rows = 0
        self.log_bytes = 0
        self.reach = Reach()

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows of any brokers."""
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        self.log_bytes += pc.sum(batch["size"]).as_py() or 0
        self.reach.add(batch)
        if self._waiting_bytes >= FLUSH_BYTES:
            self._flush()

    def flush(self) -> None:
        """Write what waits."""
        self._flush()

    def close(self) -> list[DataFile]:
        """Every file, whole; they are the caller's from now on."""
        self._flush()
        finished, self._finished = self._finished, []
        return finished

    def drop(self) -> None:
        """Remove what was written and isn't the caller's: no snapshot mentions it."""
        self._waiting.clear()
        for file in self._finished:
            with suppress(FileNotFoundError):  # a later run has removed it
                self._table.io.delete(file.file_path)
        self._finished = []

    def _flush(self) -> None:
        if self._waiting:
            rows = pa.Table.from_batches(self._waiting)
            self._waiting, self._waiting_bytes = [], 0
            self._finished += data_files(self._table, self._name, rows, self._ids)


def data_files(table: Table, name: str, rows: pa.Table, ids: FileIds) -> list[DataFile]:
    """Rows as files of their partitions, which no snapshot mentions yet. Raises FileGone.

    - table: which
    - name: of the table, for errors
    - rows: of any partitions
    - ids: names of the run's files
    """
    # What `Transaction.append` does, too, but that one writes the files anew if it has to be tried again.
    with plainly(name):
        metadata = table.metadata
        odd = {f"{METRICS}{column}": "counts" for column in _odd_times(rows)}
        if odd:
            metadata = metadata.model_copy(update={"properties": metadata.properties | odd})
        try:
            found = list(_dataframe_to_data_files(metadata, rows, table.io, ids.next(), ids.counted()))
        except FileNotFoundError as error:
            _, _, path = str(error).rpartition(": ")
            raise FileGone(f"{name}: {path} is gone before it was finished") from error
    for file in found:
        file.spec_id = metadata.default_spec_id
    return found


def _odd_times(rows: pa.Table) -> Iterator[str]:
    """The columns with times outside the years 1 to 9999, whose least and greatest pyiceberg can't tell."""
    for item in rows.schema:
        if pa.types.is_timestamp(item.type):
            found = pc.min_max(rows[item.name].cast(pa.int64())).as_py()
            if found["min"] is not None and not FIRST_TIME <= found["min"] <= found["max"] < END_TIME:
                yield item.name
