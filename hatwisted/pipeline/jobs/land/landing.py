"""Landing: a replicated log as a table, each record once, however often the landing is killed.

Spark's checkpoint says which offsets make up batch n; the table says whether it has batch n. Of an Iceberg table
the steps are in iceberglanding.py; into a Delta table a run

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

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hatwisted.pipeline.decode.storebytes import is_remote
from hatwisted.pipeline.delta.commits import claim, landed_since
from hatwisted.pipeline.delta.deadletters import dead_letter_table, settle
from hatwisted.pipeline.delta.deltatable import is_table, open_table, prepare_table
from hatwisted.pipeline.delta.fulldisk import telling_full
from hatwisted.pipeline.delta.landedfiles import compact_landed
from hatwisted.pipeline.delta.landedrows import PARTITION_BY
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.notes import Notes
from hatwisted.pipeline.delta.orphans import remove_orphans
from hatwisted.pipeline.delta.queuetails import QueueTails, landed_queues
from hatwisted.pipeline.delta.tablefolder import table_path
from hatwisted.pipeline.delta.tails import landed_tails
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.iceberg.catalogs import is_iceberg
from hatwisted.pipeline.jobs.land.clusterlanding import ClusterLanding
from hatwisted.pipeline.jobs.land.deltalanding import DeltaLanding, DeltaQueues
from hatwisted.pipeline.jobs.land.deltaquery import DeltaQuery
from hatwisted.pipeline.jobs.land.iceberglanding import has_all, iceberg_engine, land_iceberg
from hatwisted.pipeline.jobs.land.landingrun import LOCAL_BYTES, LandingRun
from hatwisted.pipeline.jobs.land.landingsources import Cluster, LandingSource, Stores
from hatwisted.pipeline.jobs.land.landingstate import (
    LOCAL,
    LandingState,
    check_chosen,
    default_folder,
    landing_state,
    spark_state_folder,
    state_in_table,
)
from hatwisted.pipeline.jobs.land.landoptions import (
    CLAIMING,
    DEFAULTS,
    LOOKING,
    READING,
    ChosenEngine,
    LandOptions,
    LandResult,
    Progress,
    tell,
)
from hatwisted.pipeline.jobs.land.locallanding import LocalLanding, unsupported
from hatwisted.pipeline.jobs.land.sparkrun import SparkRun
from hatwisted.pipeline.jobs.land.taskedlanding import TaskedLanding, is_tasked
from hatwisted.pipeline.jobs.workertasks import Tasks
from hatwisted.pipeline.spark.damagetable import listed_damages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LandOptions", "LandResult", "engine_for", "land"]


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
    """Land each record of some logs once in a table, however often the run is interrupted.

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
    run = LandingRun(spark, report, stop, seconds)
    tell(report, READING)
    if options.checkpoint is not None:
        check_chosen(options.checkpoint)
    with telling_full(table):
        if is_iceberg(table):
            if options.vacuum is not None:
                raise PipelineError(f"{table}: snapshots expire as its own properties say: leave vacuum out")
            return land_iceberg(source, table, options, run)
        return _land_delta(source, table_path(table), options, run)


def _land_delta(
    source: LandingSource,
    path: str,
    options: LandOptions,
    run: LandingRun,
) -> LandResult:
    """See `land`.

    - source: what is landed
    - path: of the table
    - options: how
    - run: what it goes by
    """
    report, stop, seconds = run.report, run.stop, run.seconds
    begun = seconds()
    writer = source.writer()
    engine: ChosenEngine = "spark" if run.spark is not None else engine_for(source, path, options)
    tasked = engine == "spark" and is_tasked(source, options)
    prepare_table(path, options.schema(path, lambda: run.session), PARTITION_BY)
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
                tasks = TaskedLanding(into, stores, options, lambda: run.tasks, report, seconds)
                compaction, stopped = tasks.run(stop)
            else:
                compaction, stopped = LocalLanding(into, stores, options, report, seconds).run(stop)
        elif is_done(source, path, options):
            compaction = compact_landed(path, options.compact_below, held, options.vacuum)
            stopped = False
        else:
            query = SparkRun(DeltaQuery(path, held, options, before), source, options, report, seconds)
            state, compaction, stopped = query.run(state, run.session, stop)
        found = landed_since(path, before, state.application)
    return LandResult(
        table=path,
        engine=engine,
        **asdict(found),
        seconds=seconds() - begun,
        removed=len(removed),
        compacted=compaction.removed,
        vacuumed=compaction.vacuumed,
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
        return iceberg_engine(source, table, options)
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
    there = is_table(path)
    tails = landed_tails(path, source.writer().brokers) if there else {}

    def queues(brokers: Collection[str]) -> QueueTails:
        return landed_queues(Notes(path), brokers) if there else {}

    return "local" if source.backlog(tails, queues) <= LOCAL_BYTES else "spark"


def is_done(source: LandingSource, table: str, options: LandOptions) -> bool:
    """Is there nothing that Spark would have to start for: has the table all that the stores have?

    - source: what is landed
    - table: path of the table, or its name
    - options: how
    """
    if options.mode != "once" or not isinstance(source, Stores):
        return False
    if is_iceberg(table):
        return has_all(source, table)
    path = table_path(table)
    if not is_table(path):
        return False
    return not source.backlog(landed_tails(path, source.writer().brokers))


def _state(
    path: str, chosen: str | None, table_id: str, kind: str, identity: Writer
) -> AbstractContextManager[LandingState]:
    """What is kept beside the table, if anything is; in a folder that was chosen, each engine has its own part."""
    here = None if is_remote(path) else path
    if kind != LOCAL:
        folder = spark_state_folder(path, chosen, here, kind, identity)
    elif chosen is not None:
        folder = Path(chosen, LOCAL).absolute()
    elif here is not None:
        folder = default_folder(path, kind, identity)
    else:
        return nullcontext(state_in_table(identity))
    return landing_state(folder, table_id=table_id, kind=kind, identity=identity)


def _paths(sources: str | Sequence[str]) -> tuple[str, ...]:
    return (sources,) if isinstance(sources, str) else tuple(sources)


def _silent(done: int, total: int) -> None:
    pass
