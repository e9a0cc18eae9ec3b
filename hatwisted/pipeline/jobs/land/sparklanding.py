"""The engine `spark`: a streaming query whose triggers are the table's commits.

Spark's checkpoint says which offsets make up batch n; the table says whether it has batch n.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.fulldisk import no_room
from hatwisted.pipeline.delta.landedrows import landed_names
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.columnexpressions import landed
from hatwisted.pipeline.jobs.land.absence import Absence
from hatwisted.pipeline.jobs.land.landingsources import LandingSource
from hatwisted.pipeline.jobs.land.landingstate import LandingState
from hatwisted.pipeline.jobs.land.landoptions import COMPACT_EVERY, LandOptions, Progress
from hatwisted.pipeline.jobs.land.sparktable import SparkTable
from hatwisted.pipeline.jobs.land.stopping import stop_on_signals
from hatwisted.pipeline.spark.failures import reason_of
from hatwisted.pipeline.spark.ownpython import use_own_python
from hatwisted.pipeline.spark.planstream import FORMAT as PLAN_FORMAT
from hatwisted.pipeline.spark.planstream import PLAN_OF, PlanSource
from hatwisted.pipeline.spark.rocketmqoptions import NAME as ROCKETMQ

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at a running query."""
NO_SPACE: Final = "No space left on device"
"""What Java says of a full disk."""
STOP_WITHIN: Final = 60.0
"""Seconds a trigger may still take when the landing is asked to stop; beyond that its work is repeated."""


@dataclass
class SparkLanding:
    """One run: a query, and what the driver does meanwhile."""

    table: SparkTable
    source: LandingSource
    state: LandingState
    how: LandOptions
    progress: Progress
    seconds: Callable[[], float]

    def run(self, spark: SparkSession, stop: threading.Event) -> tuple[Compaction, bool]:
        """(what was compacted, whether it was stopped before its end)."""
        self._compaction = Compaction()
        self._compacted_at = self.seconds()
        self._batch = -1
        self._absence = Absence()
        tails = self.table.tails()
        self._total = self.source.backlog(tails)
        query = self._start(spark, tails)
        try:
            with stop_on_signals(stop.set):
                self._watch(query, stop)
        except StreamingQueryException as error:
            reason = reason_of(error)
            # The checkpoint is where the table is, by default, and what fails then is Java's.
            if NO_SPACE in str(error) or reason == str(no_room(self.table.name)):
                raise no_room(self.table.name) from error
            if reason is None:
                raise
            raise PipelineError(reason) from error
        finally:
            query.stop()
        if not stop.is_set():
            self._compact()
        return self._compaction, stop.is_set()

    def _start(self, spark: SparkSession, tails: Mapping[str, Tail]) -> StreamingQuery:
        use_own_python(spark)
        spark.dataSource.register(PlanSource)
        cores = spark.sparkContext.defaultParallelism
        tasks = self.source.tasks(self.how.max_bytes_per_trigger, self.how.partitions, cores)
        options = self.source.options() | tasks | self.how.read_options()
        if self.state.fresh and (tails or self.source.by_queue):
            options |= self.source.resume(tails, self.table.queues)
        query = (self._plans if self.how.transform is None else self._rows)(spark, options)
        query = query.option("checkpointLocation", self.state.spark_folder)
        return query.queryName(f"land {self.table.name}").trigger(**self.how.trigger()).start()

    def _rows(self, spark: SparkSession, options: Mapping[str, str]) -> DataStreamWriter:
        """Messages as Spark's rows, so that the caller can transform them."""
        assert self.how.transform is not None
        messages = spark.readStream.format(self.source.format).options(**options).load()
        rows = self.how.transform(landed(messages, self.how.columns))
        return self.table.write(rows, self.state.application, None)

    def _plans(self, spark: SparkSession, options: Mapping[str, str]) -> DataStreamWriter:
        """Plans: the sink's tasks read the messages themselves."""
        plans = spark.readStream.format(PLAN_FORMAT).option(PLAN_OF, self.source.format)
        columns = landed_names(self.how.columns)
        return self.table.write(plans.options(**options).load(), self.state.application, columns)

    def _watch(self, query: StreamingQuery, stop: threading.Event) -> None:
        while not _ended(query, LOOK_EVERY):
            if stop.is_set():
                self._drain(query)
                return
            self._report_progress(query)
            if self.how.mode == "continuous" and self.seconds() - self._compacted_at >= COMPACT_EVERY:
                self._compact()
        self._report_progress(query)

    def _drain(self, query: StreamingQuery) -> None:
        """Let the trigger under way finish, so that no work is repeated."""
        until = self.seconds() + STOP_WITHIN
        batch = _batch_of(query)
        while query.status["isTriggerActive"] and _batch_of(query) == batch and self.seconds() < until:
            if _ended(query, LOOK_EVERY / 5):
                return

    def _report_progress(self, query: StreamingQuery) -> None:
        batch = _batch_of(query)
        if batch != self._batch:
            self._batch = batch
            if self.source.format == ROCKETMQ and query.lastProgress is not None:
                self._absence.look(json.loads(query.lastProgress.json)["sources"])
            done = self.table.log_bytes(self.state.application)
            self.progress(min(done, self._total), self._total)

    def _compact(self) -> None:
        self._compaction += self.table.upkeep()
        self._compacted_at = self.seconds()


def _ended(query: StreamingQuery, within: float) -> bool:
    """Wait for the query's end; PySpark takes fractions of a second, if not its annotations."""
    return bool(query.awaitTermination(within))  # type: ignore[arg-type]


def _batch_of(query: StreamingQuery) -> int:
    """The last finished batch; -1 before the first."""
    last = query.lastProgress
    return -1 if last is None else int(last["batchId"])
