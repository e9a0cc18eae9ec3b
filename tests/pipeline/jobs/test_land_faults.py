"""Landings by Spark through all that can come between, and the same with planted faults: each has to be noticed.

Acts of one play: batches, one that Spark repeats, turns with the engine `local`, a lost checkpoint, a task that
fails, a rival, an earlier version that is restored. After each one the table is compared with the logs as another
decoder sees them. The process isn't killed here (test_land_kill.py does that): what a kill leaves is made by hand,
so each act ends the same way every time.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from testbed.processes import wait_until
from tests.pipeline.jobs import landing
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.landedtables import DELTA, ICEBERG, KINDS
from tests.support.soak import in_soak, times
from tests.support.sparkfaults import FAULTS, LANDINGS, STREAM, TASKS, planted

BROKERS = ("broker-a", "broker-b")
APPENDED = 240
"""Records of a broker that an act begins with."""
BATCH_BYTES = 60_000
"""A third of them."""
PLAYED = "it takes half a minute, and each kind of table and each way is tried"
PATIENCE = 60.0
"""Seconds for what takes none on an idle machine."""
OURS = 0.1
"""Seconds between two triggers."""


class Noticed(Exception):
    """The table isn't what it should be, or somebody wasn't told."""


class Play:
    """Two stores, a table, and what happens to them."""

    def __init__(self, spark: SparkSession, folder: Path, form: str, way: str) -> None:
        self._spark = spark
        self._way = way
        self._form = form
        self._table = KINDS[form](folder, BROKERS)
        self._stores = [GrowingStore(folder / name, seed=number) for number, name in enumerate(BROKERS)]

    def acts(self) -> None:
        """All of them, one after the other."""
        for act in (
            self._batches,
            self._repeated,
            self._turns,
            self._lost_checkpoint,
            self._failed_task,
            self._rival,
            self._restored,
        ):
            self._grow()
            act()
            self._grow()
            self._land()
            self._check()

    def _batches(self) -> None:
        self._land(max_bytes_per_trigger=BATCH_BYTES)

    def _repeated(self) -> None:
        """As if Spark was killed between the table's commit and its own."""
        self._land()
        if self._way == STREAM:
            commits = self._table.place.glob("_landing/*/spark/commits/[0-9]*")
            last = max(commits, key=lambda path: int(path.name))
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def _turns(self) -> None:
        self._land(by="local")

    def _lost_checkpoint(self) -> None:
        self._land()
        shutil.rmtree(self._table.place / "_landing", ignore_errors=True)

    def _failed_task(self) -> None:
        """One piece of the log is damaged, and others of the batch aren't."""
        damaged = self._stores[1].offsets[-10]
        with (self._stores[1].root / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(damaged + 4)
            magic = file.read(4)
            file.seek(damaged + 4)
            file.write(bytes(4))
            file.flush()
            try:
                self._land(partitions=8)
            except PipelineError:
                pass
            else:
                raise Noticed("damage isn't told")
            file.seek(damaged + 4)
            file.write(magic)
        self._wait_for_tasks()

    def _rival(self) -> None:
        """Another one takes over while this one follows the logs: between two batches of a stream, and when a
        batch's tasks have written and nothing is committed yet."""
        stop, calls, rivals = threading.Event(), iter(range(1000)), iter([self._table.folder / "rival"])
        kind = LANDINGS[self._form]
        add = kind.add

        def take_over() -> None:
            for place in rivals:
                self._land(by="local", checkpoint=str(place) if self._form == DELTA else None)

        def late(table: Any, parts: Any) -> None:
            take_over()
            add(table, parts)

        def progress(done: int, total: int) -> None:
            if self._way == STREAM:
                take_over()
            if next(calls) > 5:
                stop.set()
            self._grow()

        try:
            with patch.object(kind, "add", late):
                self._land(mode="continuous", every=OURS, stop=stop, progress=progress)
        except PipelineError as error:
            if "took over" not in str(error):
                raise
            self._wait_for_tasks()
        else:
            raise Noticed("the earlier one isn't told")

    def _restored(self) -> None:
        if self._form == DELTA:
            before = DeltaTable(self._table.name)
            self._land()
            before.update_incremental()
            before.restore(before.version() - 1)
            return
        table = load_catalog("lake").load_table("rocketmq.messages")
        snapshot = table.current_snapshot()
        assert snapshot is not None
        self._land()
        table.refresh()
        table.manage_snapshots().rollback_to_snapshot(snapshot.snapshot_id).commit()

    def _wait_for_tasks(self) -> None:
        """What those of a run that failed still write would come after the next one's look for files to remove."""
        tracker = self._spark.sparkContext._jsc.sc().statusTracker()
        wait_until(
            lambda: not any(each.numRunningTasks() for each in tracker.getExecutorInfos()),
            PATIENCE,
            "no task runs",
        )

    def _grow(self) -> None:
        for store in self._stores:
            store.append(APPENDED)

    def _land(self, by: str | None = None, **options: Any) -> None:
        running = {name: options.pop(name) for name in ("stop", "progress") if name in options}
        engine = "local" if by == "local" else "spark"
        how = LandOptions(**{"engine": engine, "compact_below": 1 << 20, **options})
        source = landing.source(by or self._way, *(str(store.root) for store in self._stores))
        land(source, self._table.name, how, spark=self._spark if engine == "spark" else None, **running)

    def _check(self) -> None:
        if wrong := self._table.trouble(whole=True):
            raise Noticed(wrong)


@pytest.mark.parametrize(
    "form, way",
    [
        (DELTA, TASKS),
        in_soak(ICEBERG, STREAM, why=PLAYED),
        in_soak(DELTA, STREAM, why=PLAYED),
        in_soak(ICEBERG, TASKS, why=PLAYED),
    ],
)
def test_the_table_is_what_the_logs_say_whatever_happens(
    spark: SparkSession, tmp_path: Path, form: str, way: str
) -> None:
    with iceberg_catalog(tmp_path):
        Play(spark, tmp_path, form, way).acts()


@pytest.mark.parametrize("form, way, fault", sorted(FAULTS))
def test_a_planted_fault_is_noticed(
    spark: SparkSession, tmp_path: Path, form: str, way: str, fault: str
) -> None:
    if times(1) == 1 and fault != "task-left-out":
        pytest.skip("each is a play of its own: `make soak` tries it")
    with (
        iceberg_catalog(tmp_path),
        planted(form, way, fault),
        pytest.raises((Noticed, PipelineError)) as noticed,
    ):
        Play(spark, tmp_path, form, way).acts()
    print(f"{form} {way} {fault}: {str(noticed.value).splitlines()[0][:200]}")
