"""An Iceberg table as a stream of Spark's lands into it: tasks write, this process commits (spark/icebergsink.py).

Claim, dead letters, compaction and expiry are the engine `local`'s (icebergbatches.py), and so is what snapshots
say of where rows end; a batch of Spark's has its number besides (iceberg/numberedbatches.py).

Commits happen in a thread of Spark's, while this one looks after small files: each has the table as it loaded it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.errors import Fenced
from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.iceberg.catalogs import plainly
from hatwisted.pipeline.iceberg.fileids import FileIds
from hatwisted.pipeline.iceberg.landedfiles import LandedBatch, LandedTables
from hatwisted.pipeline.iceberg.numberedbatches import (
    NumberedBatch,
    append_numbered,
    last_batch,
    was_taken_back,
)
from hatwisted.pipeline.iceberg.queuenotes import landed_queues
from hatwisted.pipeline.iceberg.tasktables import TaskTables
from hatwisted.pipeline.jobs.land.icebergbatches import IcebergLanding, IcebergQueues, rows_note

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from hatwisted.pipeline.spark.icebergsink import TaskWriter, WrittenBatch


@dataclass
class IcebergQuery:
    """See SparkTable. landing: the table, claimed."""

    landing: IcebergLanding | IcebergQueues

    @property
    def name(self) -> str:
        """See SparkTable."""
        return self.landing.name

    def widen(self, brokers: Collection[str]) -> bool:
        """See SparkTable."""
        return self.landing.widen(brokers)

    def tails(self) -> Mapping[str, Tail]:
        """See SparkTable. Of a cluster's brokers that would be all rows' columns read, and nobody asks."""
        if isinstance(self.landing, IcebergQueues):
            return {}
        self._table()
        return self.landing.tails()

    def queues(self, brokers: Collection[str]) -> QueueTails:
        """See SparkTable."""
        return landed_queues(self._table(), self.name, brokers)[0]

    def note_queues(self) -> None:
        """See SparkTable."""
        if isinstance(self.landing, IcebergQueues):
            self.landing.tails()

    def last_batch(self, application: str) -> int | None:
        """See SparkTable."""
        return last_batch(self._table(), application)

    def was_taken_back(self, application: str) -> bool:
        """See SparkTable."""
        return was_taken_back(self._table(), application)

    def _table(self) -> Table:
        """As it is now."""
        table = self.landing.table
        with plainly(self.name):
            return table.refresh()

    def write(self, frame: DataFrame, application: str, planned: Sequence[str] | None) -> DataStreamWriter:
        """See SparkTable."""
        from hatwisted.pipeline.spark.icebergsink import IcebergSink

        commits = _Commits(self.landing, application, planned is not None)
        return frame.writeStream.foreachBatch(IcebergSink(commits.writer, commits.commit))

    def log_bytes(self, application: str) -> int:
        """See SparkTable."""
        return self.landing.done.log_bytes

    def upkeep(self) -> Compaction:
        """See SparkTable."""
        return self.landing.upkeep()


class _Commits:
    """What is done with each batch of a query.

    - landing: the table, claimed
    - application: the landing's name
    - planned: do rows come as plans?
    """

    def __init__(self, landing: IcebergLanding | IcebergQueues, application: str, planned: bool) -> None:
        into = landing.into
        beside = None if into.beside is None else into.name.beside.load()
        self._into: LandedTables = replace(into, table=into.name.load(), beside=beside)
        self._held = landing.held
        self._landing = landing
        self._application = application
        self._planned = planned

    def writer(self) -> TaskWriter:
        """For the tasks of the next batch. What a catalog lends for the files is lent anew."""
        from hatwisted.pipeline.spark.icebergsink import TaskWriter

        tables = TaskTables.refreshed(self._into)
        return TaskWriter(tables, self._held.run, self._planned, self._landing.by_queue)

    def commit(self, batch: WrittenBatch, number: int) -> None:
        """The batch into the table, unless it's there; its dead letters follow."""
        ids, whole = FileIds(self._held.run), batch.whole
        ids.number = number  # of the list of dead letters, and up to which they are settled then
        landed = LandedBatch(self._into, whole, ids)
        queues, note = None, rows_note(whole) | landed.note
        if isinstance(self._landing, IcebergQueues):
            queues, note = batch.queues, self._landing.note | note
        which = NumberedBatch(self._application, number, queues)
        table, name = self._into.table, self._landing.name
        try:
            made = append_numbered(table, name, whole, held=self._held, batch=which, note=note)
        except Fenced:
            landed.remove()
            raise
        if not made:
            landed.remove()
            return
        landed.keep()
        self._landing.done.add(whole, table)
