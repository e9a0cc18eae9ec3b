"""Commits happen once; earlier runs are fenced; what they left is removed, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Schema
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.delta.commits import landed_since
from hatwisted.pipeline.delta.compaction import compact
from hatwisted.pipeline.delta.datafiles import DataFiles
from hatwisted.pipeline.delta.errors import Fenced, WrongTable
from hatwisted.pipeline.delta.orphans import remove_orphans, remove_unmentioned
from tests.tables.delta.tables import PARTITION_BY, SCHEMA, RaceCase, Run, offsets, rows, upto


def files_below(path: str) -> set[str]:
    return {
        str(found.relative_to(path))
        for found in Path(path).rglob("*.parquet")
        if "_delta_log" not in str(found)
    }


class TestCommit(RaceCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def test_a_batch_is_committed_once(self) -> None:
        run = Run(self.path)
        self.assertTrue(run.land(0, rows(0, 10)))
        self.assertFalse(run.land(0, rows(0, 10)))
        self.assertEqual(offsets(self.path), upto(10))

    def test_an_older_batch_is_recognised_too(self) -> None:
        run = Run(self.path)
        for number in range(3):
            run.land(number, rows(10 * number, 10))
        self.assertFalse(run.land(1, rows(10, 10)))
        self.assertEqual(offsets(self.path), upto(30))

    def test_it_is_recognised_after_log_checkpoints_and_cleanup(self) -> None:
        run = Run(self.path)
        for number in range(12):
            run.land(number, rows(10 * number, 10))
        table = DeltaTable(self.path)
        table.create_checkpoint()
        for entry in sorted(Path(self.path, "_delta_log").glob("*.json"))[:-1]:
            entry.unlink()
        self.assertFalse(Run(self.path).land(11, rows(110, 10)))
        self.assertEqual(offsets(self.path), upto(120))

    def test_another_application_has_its_own_numbers(self) -> None:
        Run(self.path).land(0, rows(0, 10))
        self.assertTrue(Run(self.path, "other", ("b",)).land(0, rows(0, 10, broker="b")))

    def test_the_same_batch_between_look_and_leap_is_noticed(self) -> None:
        run = Run(self.path)
        files, twice = run.files(rows(0, 10)), run.files(rows(0, 10))
        self.race(lambda: run.commit(0, twice))
        self.assertFalse(run.commit(0, files))
        self.assertEqual(offsets(self.path), upto(10))

    def test_a_claim_between_look_and_leap_is_noticed(self) -> None:
        run = Run(self.path)
        files = run.files(rows(0, 10))
        self.race(lambda: Run(self.path))
        self.assertRaises(Fenced, run.commit, 0, files)
        self.assertEqual(offsets(self.path), [])

    def test_a_change_of_the_table_between_look_and_leap_is_gone_along_with(self) -> None:
        run = Run(self.path)
        files = run.files(rows(0, 10))
        more = Schema.from_arrow(pa.schema([("mine", pa.string())])).fields
        self.race(lambda: DeltaTable(self.path).alter.add_columns(more))
        self.assertTrue(run.commit(0, files))
        self.assertEqual(offsets(self.path), upto(10))

    def test_sums_since_a_version(self) -> None:
        run = Run(self.path)
        run.land(0, rows(0, 10))
        before = DeltaTable(self.path).version()
        run.land(1, rows(10, 20))
        run.land(2, rows(30, 90))
        found = landed_since(self.path, before, "app")
        self.assertEqual((found.rows, found.log_bytes, found.files), (110, 11000, 3))
        self.assertEqual(found.versions, (before + 1, before + 2))
        self.assertEqual(landed_since(self.path, before, "other").rows, 0)
        self.assertEqual(landed_since(self.path, before + 2, "app").versions, ())

    def test_what_others_have_written_and_nobody_can_read(self) -> None:
        Run(self.path).land(0, rows(0, 10))
        before = DeltaTable(self.path).version()
        commit = Path(self.path, "_delta_log", f"{before + 1:020}.json")
        for info, reason in (
            ({"hatwisted": {"application": "app", "rows": "many"}}, "doesn't say what it brought"),
            ({"hatwisted": {"application": "app"}}, "doesn't say what it brought"),
        ):
            commit.write_text(json.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE", **info}}))
            error = self.assertRaises(WrongTable, landed_since, self.path, before, "app")
            self.assertIn(reason, str(error))
        for info in ({"hatwisted": 5}, {"timestamp": 10**20}):
            commit.write_text(json.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE", **info}}))
            self.assertEqual(landed_since(self.path, before, "app").rows, 0)


class TestFence(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def test_a_run_that_was_taken_over_commits_nothing_more(self) -> None:
        killed = Run(self.path)
        files = killed.files(rows(0, 10))
        Run(self.path)
        self.assertIn("broker a", str(self.assertRaises(Fenced, killed.commit, 0, files)))
        self.assertEqual(offsets(self.path), [])

    def test_a_run_with_one_broker_in_common_takes_over_too(self) -> None:
        killed = Run(self.path, brokers=("a", "b"))
        Run(self.path, brokers=("b", "c"))
        self.assertRaises(Fenced, killed.land, 0, rows(0, 10))

    def test_other_brokers_land_alongside(self) -> None:
        run = Run(self.path)
        other = Run(self.path, "other", ("b",))
        self.assertTrue(run.land(0, rows(0, 10)))
        self.assertTrue(other.land(0, rows(0, 10, broker="b")))


class TestOrphans(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def test_what_a_killed_run_left_is_removed(self) -> None:
        killed = Run(self.path)
        killed.land(0, rows(0, 10))
        committed = files_below(self.path)
        killed.files(rows(10, 10))
        writer, epoch = killed.claim.writer.digest, killed.claim.epoch
        half = DataFiles(self.path, SCHEMA, PARTITION_BY, writer=writer, epoch=epoch)
        half.write(rows(20, 10))
        half._flush()
        self.assertEqual(len(files_below(self.path) - committed), 2)
        self.assertEqual(len(remove_orphans(self.path, Run(self.path).claim)), 2)
        self.assertEqual(files_below(self.path), committed)
        half.abandon()

    def test_files_of_this_run_and_of_others_stay(self) -> None:
        run, other = Run(self.path), Run(self.path, "other", ("b",))
        run.files(rows(0, 10))
        other.files(rows(0, 10))
        foreign = Path(self.path, "topic=orders", "mine.parquet")
        foreign.parent.mkdir(exist_ok=True)
        foreign.write_bytes(b"?")
        before = files_below(self.path)
        self.assertEqual(remove_orphans(self.path, run.claim), [])
        self.assertEqual(files_below(self.path), before)

    def test_what_a_compaction_replaced_stays_for_readers_of_the_version_before(self) -> None:
        run = Run(self.path)
        for number in range(8):
            run.land(number, rows(5 * number, 5))
        reader = DeltaTable(self.path)
        compact(self.path, 1 << 20)
        self.assertEqual(remove_orphans(self.path, Run(self.path).claim), [])
        self.assertEqual(reader.to_pyarrow_table().num_rows, 40)

    def test_committed_files_survive_the_cleaning_up_after_an_uncertain_commit(self) -> None:
        run = Run(self.path)
        files = run.files(rows(0, 10))
        run.commit(0, files)
        lost = run.files(rows(0, 10))
        paths = [file.path for file in [*files, *lost]]
        self.assertEqual(remove_unmentioned(self.path, paths), [file.path for file in lost])
        self.assertEqual(offsets(self.path), upto(10))
