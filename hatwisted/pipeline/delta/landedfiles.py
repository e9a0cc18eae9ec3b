"""Files of a batch: those of the table and, where topics have schemas, those of its dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.delta.commits import Brought, Claim, commit_files
from hatwisted.pipeline.delta.compaction import FAILURES, Compaction, compact
from hatwisted.pipeline.delta.datafiles import DataFile, DataFiles
from hatwisted.pipeline.delta.deadletters import (
    dead_letter_note,
    dead_letter_schema,
    dead_letter_table,
    settle,
)
from hatwisted.pipeline.delta.deltatable import is_table, open_table, prepare_table
from hatwisted.pipeline.delta.errors import taken_over
from hatwisted.pipeline.delta.fulldisk import telling_full
from hatwisted.pipeline.delta.landedrows import PARTITION_BY, landed_names, landed_schema
from hatwisted.pipeline.delta.orphans import remove_orphans, remove_unmentioned
from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.delta.reach import Reach
from hatwisted.pipeline.delta.vacuuming import remove_replaced
from hatwisted.pipeline.errors import said
from hatwisted.pipeline.schemas.topicschemas import TopicSchema
from hatwisted.pipeline.schemas.typedcolumns import NEEDED, WHY, TypedColumns


def columns_to_read(columns: Sequence[str] | None, schemas: Sequence[TopicSchema]) -> tuple[str, ...]:
    """Of the log: those that land, and those that bodies are decoded by.

    - columns: to land; None: all
    - schemas: of topics
    """
    wanted = {*landed_names(columns), *(NEEDED if schemas else ())}
    return tuple(name for name in COLUMNS if name in wanted)


def typed_schema(columns: Sequence[str] | None, schemas: Sequence[TopicSchema]) -> pa.Schema:
    """The columns of a landed table whose topics have schemas.

    - columns: of the log; None: all
    - schemas: of topics

    Raises BadSchema.
    """
    return pa.schema([*landed_schema(columns), *TypedColumns(schemas).fields])


def commit_landed(
    path: str,
    written: WrittenFiles,
    *,
    application: str,
    number: int,
    held: Claim | None,
    queues: QueueTails | None = None,
) -> bool:
    """Add a batch to the table, then its dead letters to the one beside; False if the batch is there already.
    Raises Fenced if the claim has ended.

    - path: of the table
    - written: the batch
    - application: who writes, across restarts
    - number: of the batch
    - held: the claim
    - queues: where the files' queues end, for a claim by queue
    """
    brought = Brought(queues or {}, dead_letter_note(written.dead, written.counts), written.reach.tails)
    if not commit_files(
        path, written.files, application=application, number=number, held=held, brought=brought
    ):
        settle(path)  # the attempt that made it may have ended before its dead letters' commit
        return False
    if written.dead:
        beside = dead_letter_table(path)
        commit_files(beside, written.dead, application=application, number=number, held=None)
    return True


def commit_next(
    path: str,
    written: WrittenFiles,
    *,
    application: str,
    held: Claim,
    queues: QueueTails | None = None,
) -> None:
    """As `commit_landed`, with the number after the last; nothing happens without rows.

    - path: of the table
    - written: the batch
    - application: who writes, across restarts
    - held: the claim
    - queues: where the files' queues end, for a claim by queue
    """
    if not written.files:
        return
    last = open_table(path).transaction_version(application)
    number = 0 if last is None else last + 1
    commit_landed(path, written, application=application, number=number, held=held, queues=queues)


def remove_files(path: str, files: Sequence[str], dead: Sequence[str]) -> None:
    """Remove files of a failed attempt, but for those that a commit mentions.

    - path: of the table
    - files: within it
    - dead: within the table of dead letters
    """
    remove_unmentioned(path, files)
    if dead:
        # The table's own commit promises them to the one beside.
        remove_unmentioned(dead_letter_table(path), dead, beside=path)


def compact_landed(path: str, below: int | None, held: Claim, vacuum: timedelta | None = None) -> Compaction:
    """Rewrite small files of the table and of its dead letters, and remove what was replaced long ago.

    - path: of the table
    - below: bytes of a file; None: leave them
    - held: the claim of the landing
    - vacuum: how long replaced files stay; None: for good
    """
    done = Compaction() if below is None else _compacted(path, below, held)
    if vacuum is None:
        return done
    try:
        for table in filter(is_table, (path, dead_letter_table(path))):
            done += Compaction(vacuumed=len(remove_replaced(table, vacuum)))
    except FAILURES as error:
        done += Compaction(put_off=(f"vacuum: {said(error)}",))
    return done


def _compacted(path: str, below: int, held: Claim) -> Compaction:
    beside = dead_letter_table(path)
    done = compact(path, below, held=held)
    if not is_table(beside):
        return done
    letters = compact(beside, below)
    if letters.added:
        with suppress(
            *FAILURES
        ):  # left of a killed one, which the table's next version makes sure to stay out
            remove_orphans(beside)
    return done + letters


@dataclass(frozen=True)
class Shape:
    """What is written where; picklable, as Spark's tasks need it.

    - path: of the table
    - rows: its columns that are written, with its types
    - partition_by: columns that become folders
    - schemas: of topics
    - dead: columns of the table of dead letters, if topics have schemas
    """

    path: str
    rows: pa.Schema
    partition_by: tuple[str, ...] = PARTITION_BY
    schemas: tuple[TopicSchema, ...] = ()
    dead: pa.Schema | None = None

    @classmethod
    def prepare(
        cls, path: str, rows: pa.Schema, partition_by: Sequence[str], schemas: Sequence[TopicSchema] = ()
    ) -> Shape:
        """Make or widen the tables. Raises WrongSchema, WrongTable.

        - path: of the table
        - rows: what is to be written
        - partition_by: columns that become folders
        - schemas: of topics
        """
        types, dead = prepare_table(path, rows, partition_by), None
        if schemas:
            dead = prepare_table(dead_letter_table(path), dead_letter_schema(), PARTITION_BY)
        return cls(path, types, tuple(partition_by), tuple(schemas), dead)


@dataclass
class WrittenFiles:
    """Whole files that no commit mentions yet; `counts` of dead letters by reason; `reach` of a log's rows."""

    files: list[DataFile] = field(default_factory=list)
    dead: list[DataFile] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    reach: Reach = field(default_factory=Reach)

    def __iadd__(self, other: WrittenFiles) -> WrittenFiles:
        self.files += other.files
        self.dead += other.dead
        self.counts += other.counts
        self.reach += other.reach
        return self

    def remove(self, path: str) -> None:
        """Remove the files, but for those that a commit mentions. path: of the table."""
        remove_files(path, [file.path for file in self.files], [file.path for file in self.dead])


def landed_files(
    path: str, held: Claim, columns: Sequence[str] | None, schemas: Sequence[TopicSchema]
) -> LandedFiles:
    """Files of a landing's next batch; the tables are made or widened for them.

    - path: of the table
    - held: the claim
    - columns: of the log; None: all
    - schemas: of topics
    """
    shape = landed_shape(path, columns, schemas)
    return LandedFiles(shape, writer=held.writer.digest, epoch=held.epoch, by_queue=held.by_queue)


def landed_shape(path: str, columns: Sequence[str] | None, schemas: Sequence[TopicSchema]) -> Shape:
    """What of a log is written where; the tables are made or widened for it.

    - path: of the table
    - columns: of the log
    - schemas: of topics
    """
    return Shape.prepare(path, typed_schema(columns, schemas), PARTITION_BY, schemas)


class LandedFiles:
    """Writes one task's files of both tables.

    - shape: what is written where
    - writer: digest of who writes, for the files' names
    - epoch: of the run, for the files' names; 0: of no landing
    - by_queue: does it land queues? Then it doesn't matter where in the logs the rows lie
    """

    def __init__(self, shape: Shape, *, writer: str, epoch: int, by_queue: bool = False) -> None:
        self._shape = shape
        self._typed = TypedColumns(shape.schemas, shape.rows)
        self._counts = Counter[str]()
        self._reach: Reach | None = Reach() if epoch and not by_queue else None
        self._files = DataFiles(shape.path, shape.rows, shape.partition_by, writer=writer, epoch=epoch)
        self._dead: DataFiles | None = None
        if shape.dead is not None:
            self._dead = DataFiles(
                dead_letter_table(shape.path), shape.dead, PARTITION_BY, writer=writer, epoch=epoch
            )

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows with their date and, if topics have schemas, with the columns for decoding. Raises NoRoom."""
        with telling_full(self._shape.path):
            if self._dead is not None:
                batch, misfits = self._typed.apply(batch)
                if misfits.rows:
                    self._counts += misfits.counts()
                    self._dead.write(misfits.of(batch, _dead_names()))
            self._files.write(batch)
        if self._reach is not None and batch.num_rows:
            self._reach.add(batch)

    def close(self) -> WrittenFiles:
        """Finish every file. Raises NoRoom, and Fenced if one is gone."""
        try:
            with telling_full(self._shape.path):
                dead = self._dead.close() if self._dead is not None else []
                return WrittenFiles(self._files.close(), dead, self._counts, self._reach or Reach())
        except FileNotFoundError as error:
            gone = f"{self._shape.path}: {error.filename} is gone before it was finished"
            raise taken_over(gone) from error

    def abandon(self) -> None:
        """Remove what was written; for a task that failed."""
        self._files.abandon()
        if self._dead is not None:
            self._dead.abandon()

    def drop(self) -> tuple[list[str], list[str]]:
        """Remove what isn't finished; the paths of what is in either table, which a commit may mention."""
        return self._files.drop(), [] if self._dead is None else self._dead.drop()


def _dead_names() -> tuple[str, ...]:
    return tuple(name for name in dead_letter_schema().names if name not in WHY.names)
