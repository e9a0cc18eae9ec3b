"""Landing into an Iceberg table; the table as engines see it is in icebergbatches.py (`local`) and icebergquery.py
(`spark`).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.jobs.land.clusterlanding import ClusterLanding
from hatwisted.pipeline.jobs.land.icebergbatches import Done, IcebergLanding, IcebergQueues, settle_ended
from hatwisted.pipeline.jobs.land.landingrun import LOCAL_BYTES, LandingRun
from hatwisted.pipeline.jobs.land.landingsources import Cluster, LandingSource, Stores
from hatwisted.pipeline.jobs.land.landingstate import landing_state, spark_state_folder
from hatwisted.pipeline.jobs.land.landoptions import (
    CLAIMING,
    LOOKING,
    ChosenEngine,
    LandOptions,
    LandResult,
    tell,
)
from hatwisted.pipeline.jobs.land.locallanding import LocalLanding, unsupported
from hatwisted.pipeline.jobs.land.sparkrun import SparkRun
from hatwisted.pipeline.jobs.land.taskedlanding import TaskedLanding, is_tasked
from hatwisted.pipeline.spark.damagetable import listed_damages
from hatwisted.pipeline.spark.javahome import NoJava, find_java_home

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from hatwisted.pipeline.iceberg.landedfiles import LandedTables


def iceberg_engine(source: LandingSource, table: str, how: LandOptions) -> ChosenEngine:
    """What lands: as the options say, or by what there is to do. Raises PipelineError if the engine that they name
    can't do it.

    - source: what is landed
    - table: its name
    - how: options
    """
    if how.engine == "spark":
        return "spark"
    reason = unsupported(source, how)
    if how.engine == "local":
        if reason is None and how.checkpoint is not None:
            reason = "it keeps no checkpoint, as the table says how far it is"
        if reason is not None:
            raise PipelineError(f"{table}: the engine local can't land this: {reason}; use the engine spark")
        return "local"
    if reason is not None:
        return "spark"
    name = IcebergName.parse(table)
    there = name.load_if_any()
    streamed = not _is_tasked(source, how)
    if streamed and how.checkpoint is None and (there is None or _folder(there) is None):
        return "local"  # nobody knows a place for a stream's progress
    return "spark" if _backlog(source, there, str(name)) > LOCAL_BYTES and _has_spark() else "local"


def _is_tasked(source: LandingSource, how: LandOptions) -> bool:
    """Does it need no stream? A checkpoint is a stream's: the table says how far tasks are."""
    return how.checkpoint is None and is_tasked(source, how)


def has_all(source: LandingSource, table: str) -> bool:
    """Has the table all that the stores have?

    - source: the stores
    - table: its name
    """
    there = IcebergName.parse(table).load_if_any()
    return there is not None and not _backlog(source, there, table)


def _backlog(source: LandingSource, table: Table | None, name: str) -> int:
    from hatwisted.pipeline.iceberg.queuenotes import landed_queues
    from hatwisted.pipeline.iceberg.snapshots import landed_tails

    def queues(brokers: Collection[str]) -> QueueTails:
        return {} if table is None else landed_queues(table, name, brokers)[0]

    tails = {}
    if table is not None and not source.by_queue:
        tails = landed_tails(table, name, source.writer().brokers)
    return source.backlog(tails, queues)


def _has_spark() -> bool:
    """Could it start here?"""
    if importlib.util.find_spec("pyspark") is None:
        return False
    try:
        find_java_home(os.environ)
    except NoJava:
        return False
    return True


def _folder(table: Table) -> str | None:
    """Of a table on this machine; None: it's elsewhere."""
    location = table.location()
    if location.startswith("file:"):
        return location.removeprefix("file://").removeprefix("file:")
    return None if "://" in location else location


def land_iceberg(source: LandingSource, table: str, how: LandOptions, run: LandingRun) -> LandResult:
    """As `land`.

    - source: what is landed
    - table: its name
    - how: options
    - run: what it goes by
    """
    name = IcebergName.parse(table)
    name.open_catalog()  # or what is said about that
    engine: ChosenEngine = "spark" if run.spark is not None else iceberg_engine(source, table, how)
    from hatwisted.pipeline.iceberg.landedfiles import LandedTables

    begun = run.seconds()
    rows = how.schema(table, lambda: run.session)
    landing = _Landing(source, how, run, LandedTables.prepare(name, rows, how.schemas))
    known = listed_damages(source.options())
    landing.check()
    if engine == "local":
        compaction, stopped = landing.by_itself()
    else:
        compaction, stopped = landing.by_tasks() if _is_tasked(source, how) else landing.by_stream()
    done = landing.done
    return LandResult(
        table=table,
        engine=engine,
        rows=done.rows,
        bytes=done.bytes,
        log_bytes=done.log_bytes,
        files=done.files,
        versions=tuple(done.snapshots),
        seconds=run.seconds() - begun,
        removed=landing.removed,
        compacted=compaction.removed,
        put_off=compaction.put_off,
        dead_letters=dict(sorted(done.dead_letters.items())),
        damages=listed_damages(source.options()) - known,
        stopped=stopped,
    )


class _Landing:
    """One run.

    - source: what is landed
    - how: options
    - run: what it goes by
    - tables: where, prepared
    """

    def __init__(
        self, source: LandingSource, how: LandOptions, run: LandingRun, tables: LandedTables
    ) -> None:
        self._source = source
        self._how = how
        self._run = run
        self._tables = tables
        self.done = Done()
        self.removed = 0
        """Files that runs before it had left."""

    def check(self) -> None:
        """Stores have to be those of which the table has rows."""
        from hatwisted.pipeline.iceberg.snapshots import check_whole, landed_tails

        if not self._source.by_queue:
            brokers, table, name = self._source.writer().brokers, self._tables.table, str(self._tables.name)
            check_whole(table, name, brokers)
            self._source.check(landed_tails(table, name, brokers))

    def _claimed(self) -> IcebergLanding | IcebergQueues:
        """The table, claimed, without what runs before this one have left."""
        from hatwisted.pipeline.iceberg.deadletters import settle
        from hatwisted.pipeline.iceberg.fileids import FileIds
        from hatwisted.pipeline.iceberg.snapshots import claim

        source, name, table = self._source, self._tables.name, self._tables.table
        tell(self._run.report, CLAIMING)
        settled = settle(table, name)
        brokers = source.writer().brokers
        held = claim(table, str(name), brokers, by_queue=source.by_queue, settled=settled)
        # What they committed before the claim took effect is settled, too.
        self.removed = len(settle_ended(table, name, held.ended))
        tell(self._run.report, LOOKING)
        common: Any = {"into": self._tables, "held": held, "how": self._how, "ids": FileIds(held.run)}
        common["done"] = self.done
        if isinstance(source, Cluster):
            return IcebergQueues(source=source, **common)
        return IcebergLanding(source=cast(Stores, source), **common)

    def by_itself(self) -> tuple[Compaction, bool]:
        """By the engine `local`: (what was compacted, whether it was stopped before its end)."""
        into, run = self._claimed(), self._run
        if isinstance(into, IcebergQueues):
            return ClusterLanding(into, into.source, self._how, run.report, run.seconds).run(run.stop)
        return LocalLanding(into, into.source, self._how, run.report, run.seconds).run(run.stop)

    def by_tasks(self) -> tuple[Compaction, bool]:
        """The same by Spark's tasks."""
        into, run = self._claimed(), self._run
        assert isinstance(into, IcebergLanding)
        tasks = TaskedLanding(into, into.source, self._how, lambda: run.tasks, run.report, run.seconds)
        return tasks.run(run.stop)

    def by_stream(self) -> tuple[Compaction, bool]:
        """The same by a stream of Spark's, which keeps its progress in a folder."""
        from hatwisted.pipeline.jobs.land.icebergquery import IcebergQuery

        source, table, name = self._source, self._tables.table, str(self._tables.name)
        identity, kind = source.identity(), source.format
        folder = spark_state_folder(name, self._how.checkpoint, _folder(table), kind, identity)
        table_id = str(table.metadata.table_uuid)
        with landing_state(folder, table_id=table_id, kind=kind, identity=identity) as state:
            into, run = self._claimed(), self._run
            if self._how.mode == "once" and not source.by_queue and not _backlog(source, table, name):
                return into.upkeep(), False
            query = SparkRun(IcebergQuery(into), source, self._how, run.report, run.seconds)
            _, compaction, stopped = query.run(state, run.session, run.stop)
            return compaction, stopped
