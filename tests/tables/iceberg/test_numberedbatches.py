"""Batches with numbers, as Spark's stream commits them: each once, after what is there, none of an ended run."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from unittest.mock import patch

import pyarrow as pa

from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.delta.errors import LAND_AGAIN, Fenced, Unclaimed, WrongTable
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.delta.queuetails import QueueTail, QueueTails
from hatwisted.pipeline.iceberg import icebergfiles
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.iceberg.fileids import TASKS, TaskIds
from hatwisted.pipeline.iceberg.landedfiles import LandedTables, WrittenFiles
from hatwisted.pipeline.iceberg.numberedbatches import (
    NumberedBatch,
    append_numbered,
    last_batch,
    was_taken_back,
)
from hatwisted.pipeline.iceberg.queuenotes import landed_queues
from hatwisted.pipeline.iceberg.snapshots import IcebergClaim, claim, landed_tails
from hatwisted.pipeline.iceberg.tasktables import TaskTables
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.wire.messagequeue import MessageQueue
from tests.tables.iceberg.test_landing import NAME, IcebergCase

OURS = "hatwisted.land/ours"


class NumberedTests(IcebergCase):
    def setUp(self) -> None:
        super().setUp()
        self.tables = LandedTables.of_log(IcebergName.parse(NAME), None)
        self.held = claim(self.table, NAME, ["broker-a"])

    def rows(self, begin: int, end: int) -> list[pa.RecordBatch]:
        """Of the store's records with these numbers."""
        (store,) = Stores([str(self.store.root)]).stores().values()
        bounds = [*self.store.offsets, self.store.end]
        splits = store.splits(bounds[begin], bounds[end], 1 << 20)
        return [with_store_date(rows) for split in splits for rows in read_split(split)]

    def written(self, begin: int, end: int) -> WrittenFiles:
        """The same as a task writes them."""
        return TaskTables.refreshed(self.tables).write(self.held.run, self.rows(begin, end))

    def append(
        self,
        number: int,
        written: WrittenFiles,
        held: IcebergClaim | None = None,
        queues: QueueTails | None = None,
    ) -> bool:
        batch = NumberedBatch(OURS, number, queues)
        return append_numbered(self.table, NAME, written, held=held or self.held, batch=batch, note={})

    def land_three(self) -> None:
        self.store.append(60)
        for number in range(3):
            self.assertTrue(self.append(number, self.written(20 * number, 20 * number + 20)))

    def test_each_lands_once_however_often_it_is_made(self) -> None:
        self.assertIsNone(last_batch(self.table, OURS))
        self.land_three()
        for number in (0, 2):
            self.assertFalse(self.append(number, self.written(40, 60)))
        self.assertEqual(last_batch(self.table, OURS), 2)
        self.assertIsNone(last_batch(self.table, "hatwisted.land/others"))
        self.assertEqual(self.offsets(), self.store.offsets)
        (tail,) = landed_tails(self.table, NAME, ["broker-a"]).values()
        self.assertEqual(tail.end, self.store.end)

    def test_one_that_begins_before_the_tables_rows_end_is_refused(self) -> None:
        self.land_three()
        with self.assertRaisesRegex(WrongTable, "batch 3 begins at"):
            self.append(3, self.written(59, 60))
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_a_table_that_was_rolled_back_is_told(self) -> None:
        self.land_three()
        before = [snapshot.snapshot_id for snapshot in self.table.snapshots()][-2]
        table = self.table
        table.manage_snapshots().rollback_to_snapshot(before).commit()
        self.assertTrue(was_taken_back(self.table, OURS))
        self.assertFalse(was_taken_back(self.table, "hatwisted.land/others"))
        self.store.append(20)
        with self.assertRaisesRegex(WrongTable, f"was rolled back while it was landed: {LAND_AGAIN}"):
            self.append(3, self.written(60, 80))

    def test_a_snapshot_that_a_tag_keeps_takes_nothing_back(self) -> None:
        self.land_three()
        snapshots = [snapshot.snapshot_id for snapshot in self.table.snapshots()]
        self.table.manage_snapshots().create_tag(snapshots[-3], "kept").commit()
        self.table.maintenance.expire_snapshots().by_ids(snapshots[-2:-1]).commit()
        self.assertIn(snapshots[-3], [snapshot.snapshot_id for snapshot in self.table.snapshots()])
        self.assertFalse(was_taken_back(self.table, OURS))

    def test_an_ended_claim_and_brokers_without_one_are_refused(self) -> None:
        self.store.append(20)
        written = self.written(0, 20)
        with self.assertRaises(Unclaimed):
            self.append(0, written, IcebergClaim(self.held.run, ("broker-b",)))
        claim(self.table, NAME, ["broker-a"])
        with self.assertRaises(Fenced):
            self.append(0, written)
        self.assertEqual(self.offsets(), [])

    def test_of_queues_it_says_where_each_ends(self) -> None:
        self.held = claim(self.table, NAME, ["broker-a"], by_queue=True)
        self.store.append(20)
        queue = MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)
        queues = {queue: QueueTail(5, 100, 7)}
        self.assertTrue(self.append(0, self.written(0, 20), queues=queues))
        self.assertFalse(self.append(0, self.written(0, 20), queues=queues))
        self.assertEqual(landed_queues(self.table, NAME, ["broker-a"])[0][queue], queues[queue])

    def test_rows_in_any_order_reach_from_the_first_to_the_last(self) -> None:
        self.store.append(40)
        both = TaskTables.refreshed(self.tables)
        later, earlier = (both.write(self.held.run, self.rows(*at)) for at in ((20, 40), (0, 20)))
        later += earlier
        self.assertEqual(later.reach.first, {"broker-a": 0})
        self.assertEqual(later.reach.tails["broker-a"].end, self.store.end)
        self.assertTrue(self.append(0, later))
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_attempts_at_a_task_have_files_of_their_own_and_none_if_they_fail(self) -> None:
        self.store.append(20)
        ids = TaskIds(self.held.run), TaskIds(self.held.run)
        self.assertNotEqual(*(each.attempt for each in ids))
        self.assertEqual({each.next().int & 0xFFFFFFFF for each in ids}, {TASKS + 1})
        before = self.data_files()

        def failing() -> Iterator[pa.RecordBatch]:
            yield from self.rows(0, 20)
            raise ValueError("damaged")

        with (
            patch.object(icebergfiles, "FLUSH_BYTES", 1),  # some are written by then
            self.assertRaisesRegex(ValueError, "damaged"),
        ):
            TaskTables.refreshed(self.tables).write(self.held.run, failing())
        self.assertEqual(self.data_files(), before)

    def test_a_task_isnt_told_the_catalogs_address_which_may_have_a_password(self) -> None:
        self.assertIn("catalog.db", self.table.io.properties["uri"])
        sent = pickle.dumps(TaskTables.refreshed(self.tables))
        self.assertNotIn(b"catalog.db", sent)
