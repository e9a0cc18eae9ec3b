"""Landing: a replicated log as a Delta table, each record once, however often the landing is killed.

Spark's checkpoint says which offsets make up batch n; Delta's log says whether batch n is in the table. A run

1. takes the lock of its checkpoint (landingstate.py) and widens the table if need be (delta/deltatable.py);
2. claims its brokers in Delta's log, so that an earlier run can't commit any more, and removes
   the files it left (delta/commits.py, delta/orphans.py);
3. makes sure that every store holds the record the table has last of that broker (delta/tails.py);
4. streams: each trigger is one commit of whole files (spark/deltasink.py);
5. compacts partitions of many small files, meanwhile and at the end (delta/compaction.py).

Two stores whose brokers have one name are distinguished by step 3: a slave continues where its master's
log left off, a store of another cluster is refused. If the checkpoint is lost, new, or behind what others have
landed since (checkpoint.py), the landing continues after the table's last records instead of repeating them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from hatwisted.pipeline.delta.commits import Claim, claim, landed_since, last_application
from hatwisted.pipeline.delta.compaction import Compaction, compact
from hatwisted.pipeline.delta.deltatable import local_folder, open_table, prepare_table
from hatwisted.pipeline.delta.landedrows import LANDING_KEYS, STORE_DATE, landed_names, landed_schema
from hatwisted.pipeline.delta.orphans import remove_orphans
from hatwisted.pipeline.delta.tails import Tail, landed_tails
from hatwisted.pipeline.errors import PipelineError, WrongSchema
from hatwisted.pipeline.jobs.columnexpressions import landed
from hatwisted.pipeline.jobs.land.checkpoint import reached
from hatwisted.pipeline.jobs.land.landingsources import LandingSource, Stores
from hatwisted.pipeline.jobs.land.landingstate import LandingState, default_folder, landing_state
from hatwisted.pipeline.jobs.land.stopping import stop_on_signals
from hatwisted.pipeline.spark.damagetable import count_damages
from hatwisted.pipeline.spark.deltasink import FORMAT, PARTITION_BY, DeltaSink, encode_claim
from hatwisted.pipeline.spark.failures import reason_of
from hatwisted.pipeline.spark.planstream import FORMAT as PLAN_FORMAT
from hatwisted.pipeline.spark.planstream import PLAN_OF, PlanSource
from hatwisted.pipeline.spark.sparksession import spark_session

_log = logging.getLogger(__name__)

Mode = Literal["once", "continuous"]
Progress = Callable[[int, int], None]

MAX_BYTES_PER_TRIGGER: Final = 4 << 30
"""Bytes of log per commit: seconds of work to repeat after a kill, and few large files."""
COMPACT_BELOW: Final = 128 << 20
"""Bytes of a Parquet file that small ones are made into."""
COMPACT_EVERY: Final = 60.0
"""Seconds between two looks for small files while a landing goes on."""
LOOK_EVERY: Final = 0.5
"""Seconds between two looks at a running query."""
STOP_WITHIN: Final = 60.0
"""Seconds a trigger may still take when the landing is asked to stop; beyond that its work is repeated."""


@dataclass(frozen=True, kw_only=True)
class LandOptions:
    """How to land.

    - mode: `once` ends when everything there is now has landed; `continuous` follows the logs until Ctrl-C or
      `stop`
    - every: seconds between two triggers of `continuous`
    - checkpoint: folder for the progress; None: next to the table
    - columns: to land; None: all
    - partitions: tasks of a full trigger; None: by size and cores
    - max_bytes_per_trigger: of log
    - compact_below: bytes of the files that small ones are merged into; None: leave them
    - transform: from the rows of a landed table to those that are to land, which keep LANDING_KEYS and the
      date; with it, rows pass through Spark's JVM, which takes about three times as long
    """

    mode: Mode = "once"
    every: float = 5.0
    checkpoint: str | None = None
    columns: Sequence[str] | None = None
    partitions: int | None = None
    max_bytes_per_trigger: int = MAX_BYTES_PER_TRIGGER
    compact_below: int | None = COMPACT_BELOW
    transform: Callable[[DataFrame], DataFrame] | None = None

    def schema(self, path: str, spark: SparkSession | None) -> pa.Schema:
        """The columns that are to land; WrongSchema if the transformation drops one that's needed."""
        rows = landed_schema(self.columns)
        if self.transform is None or spark is None:
            return rows
        shape = from_arrow_schema(rows)
        changed = self.transform(spark.createDataFrame([], shape)).schema
        for name in (*LANDING_KEYS, STORE_DATE):
            if name not in changed.fieldNames():
                raise WrongSchema(f"{path}: the transformation must keep column {name}")
        return to_arrow_schema(changed, timezone="UTC")

    def read_options(self) -> dict[str, str]:
        options = {
            "columns": ",".join(landed_names(self.columns)),
            "maxBytesPerTrigger": str(self.max_bytes_per_trigger),
        }
        return options

    def trigger(self) -> dict[str, Any]:
        if self.mode == "once":
            return {"availableNow": True}
        return {"processingTime": f"{self.every} seconds"}


@dataclass(frozen=True, kw_only=True)
class LandResult:
    """What a landing did: sums over the commits it made itself.

    `bytes` of Parquet, `log_bytes` of records, `versions` of the table it made with rows, `removed` files an
    earlier run had left without a commit, `compacted` small files replaced, `put_off` compactions that lost
    against another writer, `damages` ranges of the log recorded in the source's `damagePath`, `stopped`
    before its end by Ctrl-C.
    """

    table: str
    rows: int
    bytes: int
    log_bytes: int
    files: int
    versions: tuple[int, ...]
    seconds: float
    removed: int
    compacted: int
    put_off: tuple[str, ...]
    damages: int
    stopped: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def land(
    sources: Sequence[str] | LandingSource,
    table: str,
    options: LandOptions = LandOptions(),
    *,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> LandResult:
    """Land each record of some logs once in a Delta table, however often the run is interrupted.

    - sources: store folders, one per broker, or a Cluster
    - table: folder of the table
    - options: how
    - spark: the session; None: one is made
    - progress: called with (bytes done, bytes in all)
    - stop: ends a continuous run
    - seconds: the clock that durations are taken from

    Raises PipelineError: WrongSchema naming the column, WrongTable, WrongStore, WrongCheckpoint, LandingBusy.
    """
    source = Stores(_paths(sources)) if isinstance(sources, Sequence) else sources
    path = local_folder(table)
    begun = seconds()
    writer = source.writer()
    spark = spark or (spark_session() if options.transform else None)
    prepare_table(path, options.schema(path, spark), PARTITION_BY)
    source.check(landed_tails(path, writer.brokers))
    table_id = str(open_table(path).metadata().id)
    identity = source.identity()
    chosen = options.checkpoint
    folder = Path(chosen).absolute() if chosen else default_folder(path, source.format, identity)
    with landing_state(folder, table_id=table_id, kind=source.format, identity=identity) as state:
        held = claim(path, writer)
        if _is_behind(state, path, source, landed_tails(path, writer.brokers)):
            _log.warning("%s: the table has rows of beyond this checkpoint: going on after those", folder)
            state = state.renewed()
        removed = remove_orphans(path, held)
        before, known = open_table(path).version(), _damages(source)
        landing = _Landing(path, source, state, held, options, before, progress or _silent, seconds)
        compaction, stopped = landing.run(spark or spark_session(), stop or threading.Event())
        found = landed_since(path, before, state.application)
    return LandResult(
        table=path,
        **asdict(found),
        seconds=seconds() - begun,
        removed=len(removed),
        compacted=compaction.removed,
        put_off=compaction.put_off,
        damages=_damages(source) - known,
        stopped=stopped,
    )


def _is_behind(state: LandingState, path: str, source: LandingSource, tails: Mapping[str, Tail]) -> bool:
    """Has somebody else landed what this checkpoint would land again?"""
    if state.fresh or last_application(path) == state.application:
        return False
    table = open_table(path)
    found = reached(
        state.spark_folder, lambda batch: (table.transaction_version(state.application) or -1) >= batch
    )
    return found is not None and source.is_beyond(found, path, tails)


def _paths(sources: str | Sequence[str]) -> tuple[str, ...]:
    return (sources,) if isinstance(sources, str) else tuple(sources)


def _damages(source: LandingSource) -> int:
    """Ranges that the source's table of damages has, if it has one."""
    options = {name.lower(): value for name, value in source.options().items()}
    folder = options.get("damagepath")
    return 0 if folder is None else count_damages(folder)


def _silent(done: int, total: int) -> None:
    pass


@dataclass
class _Landing:
    """One run: a query, and what the driver does meanwhile."""

    path: str
    source: LandingSource
    state: LandingState
    held: Claim
    how: LandOptions
    before: int
    progress: Progress
    seconds: Callable[[], float]

    def run(self, spark: SparkSession, stop: threading.Event) -> tuple[Compaction, bool]:
        """(what was compacted, whether it was stopped before its end)."""
        self._compaction = Compaction()
        self._compacted_at = self.seconds()
        self._batch = -1
        tails = landed_tails(self.path, self.held.writer.brokers)
        self._total = self.source.backlog(tails)
        query = self._start(spark, tails)
        try:
            with stop_on_signals(stop.set):
                self._watch(query, stop)
        except StreamingQueryException as error:
            reason = reason_of(error)
            if reason is None:
                raise
            raise PipelineError(reason) from error
        finally:
            query.stop()
        if not stop.is_set():
            self._compact()
        return self._compaction, stop.is_set()

    def _start(self, spark: SparkSession, tails: Mapping[str, Tail]) -> StreamingQuery:
        spark.dataSource.register(DeltaSink)
        spark.dataSource.register(PlanSource)
        cores = spark.sparkContext.defaultParallelism
        tasks = self.source.tasks(self.how.max_bytes_per_trigger, self.how.partitions, cores)
        options = self.source.options() | tasks | self.how.read_options()
        if self.state.fresh and tails:
            options |= self.source.resume(self.path, tails)
        if self.how.transform is not None:
            return self._rows(spark, options).trigger(**self.how.trigger()).start()
        return self._plans(spark, options).trigger(**self.how.trigger()).start()

    def _rows(self, spark: SparkSession, options: Mapping[str, str]) -> DataStreamWriter:
        """Messages as Spark's rows, so that the caller can transform them."""
        assert self.how.transform is not None
        messages = spark.readStream.format(self.source.format).options(**options).load()
        return self._write(self.how.transform(landed(messages, self.how.columns)))

    def _plans(self, spark: SparkSession, options: Mapping[str, str]) -> DataStreamWriter:
        """Plans: the sink's tasks read the messages themselves."""
        plans = spark.readStream.format(PLAN_FORMAT).option(PLAN_OF, self.source.format)
        columns = ",".join(landed_names(self.how.columns))
        return self._write(plans.options(**options).load()).option("rows", "plans").option("columns", columns)

    def _write(self, frame: DataFrame) -> DataStreamWriter:
        return (
            frame.writeStream.format(FORMAT)
            .option("path", self.path)
            .option("txnAppId", self.state.application)
            .option("claim", encode_claim(self.held))
            .option("checkpointLocation", self.state.spark_folder)
            .queryName(f"land {self.path}")
        )

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
            done = landed_since(self.path, self.before, self.state.application).log_bytes
            self.progress(min(done, self._total), self._total)

    def _compact(self) -> None:
        if self.how.compact_below is not None:
            self._compaction += compact(self.path, self.how.compact_below)
        self._compacted_at = self.seconds()


def _ended(query: StreamingQuery, within: float) -> bool:
    """Wait for the query's end; PySpark takes fractions of a second, if not its annotations."""
    return bool(query.awaitTermination(within))  # type: ignore[arg-type]


def _batch_of(query: StreamingQuery) -> int:
    """The last finished batch; -1 before the first."""
    last = query.lastProgress
    return -1 if last is None else int(last["batchId"])
