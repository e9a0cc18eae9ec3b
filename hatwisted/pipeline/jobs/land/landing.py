"""Landing: a replicated log as a Delta table, each record once, however often the landing is killed.

Spark's checkpoint says which offsets make up batch n; Delta's log says whether batch n is in the table. A run

1. takes the lock of its checkpoint (landingstate.py) and widens the table if need be (delta/deltatable.py);
2. claims its brokers in Delta's log, so that an earlier run can't commit any more, and removes
   the files it left (delta/commits.py, delta/orphans.py); dead letters that it didn't come to commit
   are made up for (delta/deadletters.py);
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
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from hatwisted.pipeline.decode.storebytes import is_remote
from hatwisted.pipeline.delta.commits import Claim, claim, landed_since, note_queues, widened
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.deadletters import dead_letter_table, settle
from hatwisted.pipeline.delta.deltatable import is_table, open_table, prepare_table
from hatwisted.pipeline.delta.fulldisk import telling_full
from hatwisted.pipeline.delta.landedfiles import compact_landed
from hatwisted.pipeline.delta.landedrows import PARTITION_BY
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.orphans import remove_orphans
from hatwisted.pipeline.delta.queuetails import was_taken_back
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.delta.tails import landed_tails
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from hatwisted.pipeline.jobs.land.checkpoint import reached
from hatwisted.pipeline.jobs.land.clusterlanding import ClusterLanding
from hatwisted.pipeline.jobs.land.deltalanding import DeltaLanding, DeltaQueues
from hatwisted.pipeline.jobs.land.iceberglanding import check_iceberg, land_iceberg
from hatwisted.pipeline.jobs.land.landingsources import Cluster, LandingSource, Stores
from hatwisted.pipeline.jobs.land.landingstate import (
    LOCAL,
    LandingState,
    check_chosen,
    default_folder,
    landing_state,
    state_in_table,
)
from hatwisted.pipeline.jobs.land.landoptions import (
    CLAIMING,
    DEFAULTS,
    FIRST_BATCH,
    LOOKING,
    READING,
    ChosenEngine,
    LandOptions,
    LandResult,
    Progress,
    tell,
)
from hatwisted.pipeline.jobs.land.locallanding import LocalLanding, unsupported
from hatwisted.pipeline.jobs.land.taskedlanding import TaskedLanding, is_tasked
from hatwisted.pipeline.jobs.workertasks import SparkTasks, Tasks
from hatwisted.pipeline.spark.damagetable import listed_damages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LandOptions", "LandResult", "engine_for", "land"]

LOCAL_BYTES: Final = 1 << 30
"""Of log: what `auto` lands without Spark."""

_log = logging.getLogger(__name__)


def land(
    sources: Sequence[str] | LandingSource,
    table: str,
    options: LandOptions = DEFAULTS,
    *,
    spark: SparkSession | Tasks | Callable[[], SparkSession] | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> LandResult:
    """Land each record of some logs once in a Delta table, however often the run is interrupted.

    - sources: store folders, one per broker, or a Cluster
    - table: folder of the table, or its address at an object store, or `iceberg:CATALOG.NAMESPACE.TABLE`
    - options: how
    - spark: the session, or what makes it once it's needed, which makes Spark the engine; other tasks in its
      place, where no stream is needed; None: one is made if that's the engine and there's something to land
    - progress: called with (bytes done, bytes in all); a `landoptions.Watcher` is told what is waited for, too
    - stop: ends a continuous run
    - seconds: the clock that durations are taken from

    Raises PipelineError: WrongSchema naming the column, WrongTable, WrongStore, WrongCheckpoint, LandingBusy,
    NoRoom.
    """
    source = Stores(_paths(sources)) if isinstance(sources, Sequence) else sources
    stop, report = stop or threading.Event(), progress or _silent
    with telling_full(table):
        if is_iceberg(table):
            how = options if spark is None else replace(options, engine="spark")
            return land_iceberg(source, table, how, progress=report, stop=stop, seconds=seconds)
        return _land_delta(source, table_path(table), options, spark, _Run(report, stop, seconds))


@dataclass(frozen=True)
class _Run:
    """What a run goes by. report: its progress; stop: its end; seconds: its clock."""

    report: Progress
    stop: threading.Event
    seconds: Callable[[], float]


def _land_delta(
    source: LandingSource,
    path: str,
    options: LandOptions,
    spark: SparkSession | Tasks | Callable[[], SparkSession] | None,
    run: _Run,
) -> LandResult:
    """See `land`.

    - source: what is landed
    - path: of the table
    - options: how
    - spark: the session, or what makes it, if it's given
    - run: what it goes by
    """
    report, stop, seconds = run.report, run.stop, run.seconds
    begun = seconds()
    if options.checkpoint is not None:
        check_chosen(options.checkpoint)
    tell(report, READING)
    writer = source.writer()
    engine: ChosenEngine = "spark" if spark is not None else engine_for(source, path, options)
    tasked = engine == "spark" and is_tasked(source, options)
    typed_by = _session(spark) if options.transform is not None else None
    prepare_table(path, options.schema(path, typed_by), PARTITION_BY)
    source.check(landed_tails(path, writer.brokers))
    table_id = str(open_table(path).metadata().id)
    identity, kind = source.identity(), LOCAL if engine == "local" or tasked else source.format
    with _state(path, options.checkpoint, table_id, kind, identity) as state:
        tell(report, CLAIMING)
        held = claim(path, writer, source.by_queue, settle(path))
        settle(path)  # what an earlier run committed before the claim took effect
        removed, beside = remove_orphans(path, held), dead_letter_table(path)
        if is_table(beside):
            removed += remove_orphans(beside, held)
        before, known = open_table(path).version(), listed_damages(source.options())
        tell(report, LOOKING)
        if engine == "local" and isinstance(source, Cluster):
            queues = DeltaQueues(path, state, held, options)
            compaction, stopped = ClusterLanding(queues, source, options, report, seconds).run(stop)
        elif engine == "local" or tasked:
            stores = cast(Stores, source)
            into = DeltaLanding(path, state, held, options, stores)
            if tasked:
                tasks = cache(partial(_tasks, spark))
                compaction, stopped = TaskedLanding(into, stores, options, tasks, report, seconds).run(stop)
            else:
                compaction, stopped = LocalLanding(into, stores, options, report, seconds).run(stop)
        elif is_done(source, path, options):
            compaction, stopped = compact_landed(path, options.compact_below, held), False
        else:
            tell(report, FIRST_BATCH)
            query = _SparkRun(path, source, held, options, report, seconds)
            state, compaction, stopped = query.run(state, _session(spark), stop)
        found = landed_since(path, before, state.application)
    return LandResult(
        table=path,
        engine=engine,
        **asdict(found),
        seconds=seconds() - begun,
        removed=len(removed),
        compacted=compaction.removed,
        put_off=compaction.put_off,
        damages=listed_damages(source.options()) - known,
        stopped=stopped,
    )


def engine_for(source: LandingSource, table: str, options: LandOptions) -> ChosenEngine:
    """What lands: as the options say, or by what there is to do.

    - source: what is landed
    - table: folder of the table
    - options: how

    Raises PipelineError if the engine that the options name can't do it.
    """
    if is_iceberg(table):
        check_iceberg(source, table, options)
        return "local"
    if options.engine == "spark":
        return "spark"
    reason = unsupported(source, options)
    if options.engine == "local":
        if reason is not None:
            raise PipelineError(f"the engine local can't land this: {reason}; use the engine spark")
        return "local"
    if reason is not None:
        return "spark"
    path = table_path(table)
    tails = landed_tails(path, source.writer().brokers) if is_table(path) else {}
    return "local" if source.backlog(tails, path) <= LOCAL_BYTES else "spark"


def is_done(source: LandingSource, table: str, options: LandOptions) -> bool:
    """Is there nothing that Spark would have to start for: has the table all that the stores have?

    - source: what is landed
    - table: path of the table
    - options: how
    """
    path = table_path(table)
    if options.mode != "once" or not isinstance(source, Stores) or not is_table(path):
        return False
    return not source.backlog(landed_tails(path, source.writer().brokers))


def _session(given: SparkSession | Tasks | Callable[[], SparkSession] | None) -> SparkSession:
    if given is None:
        from hatwisted.pipeline.spark.sparksession import spark_session

        return spark_session()
    if isinstance(given, Tasks):
        raise PipelineError("this landing needs a stream of Spark's, not just tasks: give a session")
    return given() if callable(given) else given


def _tasks(given: SparkSession | Tasks | Callable[[], SparkSession] | None) -> Tasks:
    return given if isinstance(given, Tasks) else SparkTasks(_session(given))


def _state(
    path: str, chosen: str | None, table_id: str, kind: str, identity: Writer
) -> AbstractContextManager[LandingState]:
    """What is kept beside the table, if anything is; in a folder that was chosen, each engine has its own part."""
    if chosen is not None:
        folder = Path(chosen, LOCAL).absolute() if kind == LOCAL else Path(chosen).absolute()
    elif not is_remote(path):
        folder = default_folder(path, kind, identity)
    elif kind == LOCAL:
        return nullcontext(state_in_table(identity))
    else:
        raise PipelineError(
            f"{path}: Spark keeps its progress in a folder: give a checkpoint that this machine has or has mounted"
        )
    return landing_state(folder, table_id=table_id, kind=kind, identity=identity)


@dataclass
class _SparkRun:
    """A query, and another one with more brokers if some appear meanwhile: what isn't claimed isn't committed.

    - path: of the table
    - source: what is landed
    - held: the claim
    - options: how
    - report: the progress
    - seconds: the clock
    """

    path: str
    source: LandingSource
    held: Claim
    options: LandOptions
    report: Progress
    seconds: Callable[[], float]

    def run(
        self, state: LandingState, spark: SparkSession, stop: threading.Event
    ) -> tuple[LandingState, Compaction, bool]:
        """(the progress at its end, what was compacted, whether it was stopped before its end).

        - state: the progress
        - spark: the session
        - stop: ends it
        """
        from hatwisted.pipeline.jobs.land.sparklanding import SparkLanding

        before = open_table(self.path).version()
        if self.held.by_queue:
            note_queues(self.path, self.held)
        while True:
            if (why := self._unfit(state)) is not None:
                _log.warning("%s: %s: going on after the table's last rows", state.folder, why)
                state = state.renewed()
            query = SparkLanding(
                self.path, self.source, state, self.held, self.options, before, self.report, self.seconds
            )
            try:
                return state, *query.run(spark, stop)
            except PipelineError:
                held = widened(self.path, self.held, self.source.writer().brokers)
                if held == self.held:
                    raise
                self.held, state = held, state.looked_at_again()
                self.source.check(landed_tails(self.path, held.writer.brokers))
                _log.info("%s: landing the brokers %s", self.path, ", ".join(held.writer.brokers))

    def _unfit(self, state: LandingState) -> str | None:
        """Why this checkpoint isn't followed: somebody else has landed what it would land again, or it says of
        rows that they have landed, and a version without them was restored. None: it is."""
        if state.fresh:
            return None
        table = open_table(self.path)
        if was_taken_back(table, state.application):
            return "the table was restored to a version from before this checkpoint"
        last = table.transaction_version(state.application)
        found = reached(state.spark_folder, lambda batch: last is not None and last >= batch)
        tails = landed_tails(self.path, self.held.writer.brokers)
        if found is not None and self.source.is_beyond(found, self.path, tails):
            return "the table has rows of beyond this checkpoint"
        return None


def _paths(sources: str | Sequence[str]) -> tuple[str, ...]:
    return (sources,) if isinstance(sources, str) else tuple(sources)


def _silent(done: int, total: int) -> None:
    pass
