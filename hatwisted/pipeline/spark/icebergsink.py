"""Rows of a stream into an Iceberg table: tasks write data files, and the driver's own process commits them.

Spark has no part of Iceberg's here: tasks write with pyiceberg, as the engine `local` does, and hand over what
they wrote. Where the sink for Delta tables is a data source, whose commits Spark leaves to a process of its own
each time, this one is called with each batch (`foreachBatch`), so that catalog, claim and keys of the object store
are those of the running landing.

A task that fails removes its own files. Those of other tasks of a batch that failed stay until the next landing,
which knows them by the run's name.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.delta.queuetails import QueueTails, last_of_queues
from hatwisted.pipeline.delta.tails import further
from hatwisted.pipeline.iceberg.landedfiles import WrittenFiles
from hatwisted.pipeline.iceberg.tasktables import TaskTables
from hatwisted.pipeline.spark.planstream import planned_rows

WRITTEN: Final = "written"
SCHEMA: Final = pa.schema([(WRITTEN, pa.binary())])


@dataclass
class WrittenBatch:
    """What tasks wrote. queues: where they end, if queues are landed."""

    whole: WrittenFiles = field(default_factory=WrittenFiles)
    queues: QueueTails = field(default_factory=dict)


@dataclass(frozen=True)
class TaskWriter:
    """What a task does: `write` as Spark's mapInArrow wants it.

    - tables: where
    - run: the name of the run, for its files
    - planned: do the rows come as plans (planstream.py)?
    - by_queue: are queues landed?
    """

    tables: TaskTables
    run: str
    planned: bool
    by_queue: bool

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In a task: every row into files of its own, finished or removed; one row that says which."""
        queues: QueueTails = {}
        whole = self.tables.write(self.run, self._rows(batches, queues))
        if whole.rows:
            written = pickle.dumps(WrittenBatch(whole, queues))
            yield pa.record_batch([pa.array([written], pa.binary())], schema=SCHEMA)

    def _rows(self, batches: Iterator[pa.RecordBatch], queues: QueueTails) -> Iterator[pa.RecordBatch]:
        for rows in map(with_store_date, planned_rows(batches)) if self.planned else batches:
            if self.by_queue:
                further(queues, last_of_queues(rows), "end")
            yield rows


@dataclass(frozen=True)
class IcebergSink:
    """For `foreachBatch`.

    - writer: what tasks do now
    - commit: what is done with what they wrote, and the batch's number
    """

    writer: Callable[[], TaskWriter]
    commit: Callable[[WrittenBatch, int], None]

    def __call__(self, rows: DataFrame, number: int) -> None:
        writer = self.writer()
        batch = WrittenBatch()
        for row in rows.mapInArrow(lambda batches: writer.write(batches), f"{WRITTEN} binary").collect():
            part: WrittenBatch = pickle.loads(row[WRITTEN])
            batch.whole += part.whole
            further(batch.queues, part.queues, "end")
        if batch.whole.files:
            self.commit(batch, number)
