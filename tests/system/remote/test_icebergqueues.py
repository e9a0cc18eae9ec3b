"""Topics of a cluster landed into an Iceberg table: every message once, whatever brokers, topics, catalogs and
other landings do meanwhile. Brokers that answer as told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("pyiceberg", reason='pyiceberg isn\'t installed: pip install "hatwisted[iceberg]"')

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table

from hatwisted.clientcore.errors import OffsetsGone
from hatwisted.pipeline.delta.errors import LAND_AGAIN, ByQueue, WrongTable
from hatwisted.pipeline.iceberg import queuenotes, snapshots
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.iceberg.queuenotes import noted_queues
from hatwisted.pipeline.iceberg.snapshots import claim
from hatwisted.pipeline.jobs.land.landing import LandOptions, engine_for, land
from tests.support import landingcase
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.landingcase import OTHER, LandingCase, created_again, more, of
from tests.support.scriptedgroup import BROKER

NAME = "iceberg:lake.rocketmq.messages"


class IcebergCase(LandingCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.table).parent
        self.enterContext(iceberg_catalog(self.folder))
        self.table = NAME

    @property
    def loaded(self) -> Table:
        return load_catalog("lake").load_table(("rocketmq", "messages"))

    def read(self, beside: bool = False) -> pa.Table:
        name = IcebergName.parse(self.table)
        return (name.beside if beside else name).load().scan().to_arrow()

    def files(self) -> set[str]:
        return {path.name for path in (self.folder / "warehouse").rglob("*.parquet")}

    def live(self) -> set[str]:
        return {Path(task.file.file_path).name for task in self.loaded.scan().plan_files()}


class AnyTests(IcebergCase, landingcase.QueueLandingCase):
    def around_commits(self, do: Callable[[Callable[[], Any]], Any]) -> AbstractContextManager[Any]:
        commit = snapshots._commit

        def committed(change: Any, files: Any, note: Any) -> Any:
            made = partial(commit, change, files, note)
            return do(made) if files else made()

        return patch.object(snapshots, "_commit", committed)

    def rival(self) -> None:
        claim(self.loaded, NAME, [BROKER], by_queue=True)

    def unmentioned(self) -> set[str]:
        return self.files() - self.live()


class OnceTests(IcebergCase):
    def test_what_is_new_lands_once(self) -> None:
        master = self.group(100)
        self.assertEqual(engine_for(self.source(), self.table, LandOptions()), "local")
        for count, rows in ((0, 100), (50, 50), (0, 0), (7, 7)):
            more(master, count)
            found = self.land()
            self.assertEqual((found.rows, len(found.versions)), (rows, min(rows, 1)))
            self.assertEqual(self.rows(), of(BROKER, master.high))
            self.assertEqual(noted_queues(self.loaded, [BROKER])[1], frozenset())

    def test_a_table_whose_snapshots_say_nothing_of_queues_is_asked_itself(self) -> None:
        master = self.group(40)
        with patch.object(queuenotes, "queue_notes", lambda *_: {}):
            self.land()
        self.assertEqual(noted_queues(self.loaded, [BROKER])[1], {BROKER})
        more(master, 2)
        self.assertEqual(self.land().rows, 2)
        self.assertEqual(self.rows(), of(BROKER, 42))
        self.assertEqual(noted_queues(self.loaded, [BROKER])[1], frozenset())

    def test_after_a_roll_back_what_the_table_lacks_lands_again(self) -> None:
        master = self.group(40)
        self.land()
        back = self.loaded.current_snapshot()
        assert back is not None
        for count in (30, 5):
            more(master, count)
            self.land()
        table = self.loaded
        table.manage_snapshots().rollback_to_snapshot(back.snapshot_id).commit()
        self.assertEqual(self.rows(), of(BROKER, 40))
        more(master, 1)
        self.assertEqual(self.land().rows, 36)
        self.assertEqual(self.land().rows, 0)
        self.assertEqual(self.rows(), of(BROKER, 76))

    def test_one_while_it_lands_ends_it(self) -> None:
        master = self.group(40)
        self.land()
        back = self.loaded.current_snapshot()
        assert back is not None
        more(master, 10)
        commit = snapshots._commit

        def late(change: Any, files: Any, note: Any) -> None:
            if files:
                self.loaded.manage_snapshots().rollback_to_snapshot(back.snapshot_id).commit()
            commit(change, files, note)

        told = self.assertRaisesRegex(WrongTable, f"rolled back: {LAND_AGAIN}")
        with patch.object(snapshots, "_commit", late), told:
            self.land()
        self.assertEqual(self.land().rows, 10)
        self.assertEqual(self.rows(), of(BROKER, 50))

    def test_a_commit_whose_answer_is_lost_isn_t_repeated(self) -> None:
        self.group(50)
        commit, lost = Table._do_commit, 0

        def silent(table: Table, updates: Any, requirements: Any) -> None:
            nonlocal lost
            commit(table, updates, requirements)
            if any(getattr(each, "action", "") == "add-snapshot" for each in updates) and not lost:
                lost += 1
                raise CommitStateUnknownException("no answer")

        with patch.object(Table, "_do_commit", silent), self.assertRaisesRegex(WrongTable, "no answer"):
            self.land()
        self.land()
        self.assertEqual(self.land().rows, 0)
        self.assertEqual(self.rows(), of(BROKER, 50))

    def test_other_writers_commits_come_between(self) -> None:
        """The catalog refuses the batch; it's tried again on top of theirs, once."""
        self.group(50)
        commit, tries = snapshots._commit, 0

        def late(change: Any, files: Any, note: Any) -> None:
            nonlocal tries
            if files and not tries:
                tries += 1
                self.loaded.transaction().set_properties(other="yes").commit_transaction()
                other = self.loaded
                other.append(other.scan(limit=0).to_arrow())
            commit(change, files, note)

        with patch.object(snapshots, "_commit", late):
            self.land()
        self.assertEqual(tries, 1)
        self.assertEqual(self.rows(), of(BROKER, 50))

    def test_small_files_are_merged(self) -> None:
        master = self.group(10)
        merged = 0
        for _ in range(9):
            more(master, 10)
            merged += self.land(compact_below=1 << 20).compacted
        self.assertGreater(merged, 7)
        self.assertEqual(self.land().rows, 0)
        self.assertEqual(self.rows(), of(BROKER, 100))


class OtherQueueTests(IcebergCase):
    def test_a_topic_that_was_created_again_is_told_and_then_lands_once_more(self) -> None:
        master = self.group(100)
        self.land()
        created_again(master, 30)
        with self.assertRaisesRegex(OffsetsGone, "ends at 30, before 100"):
            self.land()
        with self.assertLogs("hatwisted.pipeline.jobs.land", "WARNING"):
            self.assertEqual(self.land(self.source(failOnDataLoss="false")).rows, 30)
        # The higher offsets of before don't count any more.
        self.assertEqual(self.land().rows, 0)
        self.assertEqual(len(self.rows()), 130)

    def test_a_store_isn_t_landed_where_its_broker_s_queues_were(self) -> None:
        self.group(10)
        self.land()
        store = GrowingStore(self.folder / BROKER)
        store.append(5)
        with self.assertRaisesRegex(ByQueue, f"broker {BROKER} was landed from a cluster, queue by queue"):
            land([str(store.root)], NAME)
        other = GrowingStore(self.folder / OTHER)
        other.append(5)
        self.assertEqual(land([str(other.root)], NAME).rows, 5)
        self.assertEqual(self.land().rows, 0)
