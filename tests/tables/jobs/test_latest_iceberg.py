"""The last message of each key from and into Iceberg tables: as with Delta ones, beside other writers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform

from hatwisted.pipeline.delta.errors import NoRoom, WrongTable
from hatwisted.pipeline.iceberg import snapshots, upkeep
from hatwisted.pipeline.jobs.latest import icebergkeyed
from hatwisted.pipeline.jobs.latest.keymatches import KeyMatches
from hatwisted.pipeline.jobs.latest.latesttable import latest
from tests.support import latestcase
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.latestcase import COLUMNS, Last, LatestCase

LANDED, KEPT = "iceberg:lake.rocketmq.messages", "iceberg:lake.rocketmq.last"


class IcebergLatestCase(LatestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(iceberg_catalog(self.folder))
        self.table, self.into = LANDED, KEPT

    @property
    def landed(self) -> Table:
        return load_catalog("lake").load_table(("rocketmq", "messages"))

    @property
    def kept(self) -> Table:
        return load_catalog("lake").load_table(("rocketmq", "last"))

    def rows(self) -> Last:
        return self.by_key(self.kept.scan(selected_fields=COLUMNS).to_arrow())

    def landed_version(self) -> int:
        return self.landed.current_snapshot().snapshot_id  # type: ignore[union-attr]

    def partitioned_by(self) -> list[str]:
        return [item.name for item in self.kept.spec().fields]

    def file_count(self) -> int:
        return len(list(self.kept.scan().plan_files()))

    def data_files(self) -> set[str]:
        return {path.name for path in (self.folder / "warehouse" / "rocketmq" / "last").rglob("*.parquet")}

    def unmentioned(self) -> set[str]:
        return self.data_files() - self.mentioned()

    def mentioned(self) -> set[str]:
        paths = self.kept.inspect.all_data_files()["file_path"].to_pylist()
        return {path.rpartition("/")[2] for path in paths}

    def roll_back(self) -> None:
        parent = self.kept.current_snapshot().parent_snapshot_id  # type: ignore[union-attr]
        with self.kept.manage_snapshots() as change:
            change.rollback_to_snapshot(parent)

    @contextmanager
    def rival(self, do: Callable[[], object]) -> Iterator[None]:
        """Once, when files are written and aren't in the table yet."""
        swap, rivals = snapshots.swap_files, [do]

        def late(*given: Any) -> bool:
            if rivals:
                rivals.pop()()
            return swap(*given)

        with patch.object(icebergkeyed, "swap_files", late):
            yield
        self.assertEqual(rivals, [])


class MergeTests(IcebergLatestCase, latestcase.AnyMergeCase):
    def test_delta_and_iceberg_may_be_mixed(self) -> None:
        folder = str(self.folder / "table")
        for number in (100, 60):
            self.grow(number)
            latest(LANDED, str(self.folder / "last"))
            self.table = folder
            self.land()
            self.latest()
            self.assertEqual(self.rows(), self.expected())
            self.table = LANDED
        self.into = str(self.folder / "last")
        self.assertEqual(LatestCase.rows(self), self.expected())

    def test_of_two_first_runs_at_once_the_later_one_finds_all_there(self) -> None:
        """By itself pyiceberg would add the same rows on top."""
        self.grow(30)
        with self.rival(self.latest):
            found = self.latest()
        self.assertEqual((found.inserted, found.updated), (0, 0))
        self.assertEqual(self.rows(), self.expected())

    def test_counts_are_those_of_a_delta_table(self) -> None:
        other = str(self.folder / "last")
        for number in (40, 30, 0):
            self.grow(number)
            mine, its = self.latest(), latest(LANDED, other)
            self.assertEqual(
                (mine.rows, mine.without_key, mine.inserted, mine.updated),
                (its.rows, its.without_key, its.inserted, its.updated),
            )

    def test_only_what_is_new_is_read_and_what_a_compaction_moved_changes_nothing(self) -> None:
        for _ in range(3):
            self.grow(10)
            self.assertEqual(self.latest().rows, 20)
        before = self.rows()
        with patch.object(upkeep, "MIN_FILES", 3):
            self.land(compact_below=64 << 20)
        found = self.latest()
        self.assertEqual((found.inserted, found.updated), (0, 0))
        self.assertGreater(found.rows, 0)
        self.assertEqual(self.latest().rows, 0)
        self.assertEqual(self.rows(), before)

    def test_it_may_be_killed_at_every_step(self) -> None:
        """Before and after each file that it writes and each commit; whoever is killed removes nothing."""
        self.grow(60)
        self.latest()
        with patch.object(icebergkeyed.IcebergKeyed, "_clear"):
            self.steps_to_die_at((snapshots, "_commit"), (Table, "_do_commit"), (icebergkeyed, "data_files"))

    def test_snapshots_that_have_expired_are_read_again(self) -> None:
        self.grow(50)
        self.latest()
        self.grow(10)
        head = self.landed.current_snapshot()
        old = [each.snapshot_id for each in self.landed.snapshots() if each != head]
        self.landed.maintenance.expire_snapshots().by_ids(old).commit()
        self.assertEqual(self.latest().rows, 120)
        self.assertEqual(self.rows(), self.expected())

    def test_where_it_is_stays_noted_when_the_table_s_own_snapshots_expire(self) -> None:
        with patch.object(upkeep, "MIN_FILES", 2):
            for _ in range(4):
                self.grow(5)
                self.latest(key="physical_offset")
        head = self.kept.current_snapshot()
        assert head is not None and head.summary is not None
        self.assertIn("hatwisted.compacted", head.summary.additional_properties)
        old = [each.snapshot_id for each in self.kept.snapshots() if each != head]
        self.kept.maintenance.expire_snapshots().by_ids(old).commit()
        self.assertEqual(self.latest(key="physical_offset").rows, 0)

    merges = 5

    def test_many_small_merges_leave_few_files(self) -> None:
        with patch.object(upkeep, "MIN_FILES", 3):
            super().test_many_small_merges_leave_few_files()
        self.assertEqual(self.data_files(), self.mentioned())

    def test_a_landed_table_may_be_rolled_back_and_its_rows_deleted(self) -> None:
        self.grow(50)
        self.grow(20)
        self.latest()
        history = self.landed.history()
        with self.landed.manage_snapshots() as change:
            change.rollback_to_snapshot(history[len(history) // 2].snapshot_id)
        self.landed.delete("queue_id == 0")
        self.latest()
        self.assertEqual(self.rows(), self.expected())

    def test_a_value_that_a_row_gets_later_comes_with_the_next_call(self) -> None:
        self.grow(20)
        with self.landed.update_schema() as change:
            change.union_by_name(pa.schema([("amount", pa.int64())]))
        self.latest()
        rows = self.landed.scan().to_arrow()
        at = rows.column_names.index("amount")
        self.landed.overwrite(rows.set_column(at, "amount", rows["physical_offset"]))
        found = self.latest()
        self.assertEqual((found.inserted, found.updated), (0, len(self.expected())))
        there = self.kept.scan(selected_fields=("physical_offset", "amount")).to_arrow()
        self.assertEqual(there["amount"].to_pylist(), there["physical_offset"].to_pylist())
        self.assertEqual(self.latest().rows, 0)


class RivalTests(IcebergLatestCase):
    def setUp(self) -> None:
        super().setUp()
        self.grow(50)
        self.latest()
        self.grow(40)

    def test_another_run_s_merge_between_is_looked_at(self) -> None:
        with self.rival(self.latest):
            found = self.latest()
        self.assertEqual((found.inserted, found.updated), (0, 0))
        self.assertEqual(self.rows(), self.expected())
        self.assertEqual(self.latest().rows, 0)
        self.assertEqual(self.data_files(), self.mentioned())

    def test_a_compaction_and_a_plain_append_between_are_looked_at(self) -> None:
        def rewritten() -> None:
            self.kept.overwrite(self.kept.scan().to_arrow())

        def appended() -> None:
            rows = self.kept.scan().to_arrow().slice(0, 1)
            at = rows.column_names.index("key")
            self.kept.append(rows.set_column(at, "key", pa.array(["mine"])))

        for between in (rewritten, appended):
            with self.rival(between):
                self.latest()
            self.grow(10)
        self.latest()
        found = self.rows()
        self.assertEqual(len(found) - 1, len(self.expected()))
        self.assertEqual({**found, **self.expected()}, found)

    def test_a_roll_back_between_is_told_and_made_up_for(self) -> None:
        self.latest()
        self.grow(30)
        with (
            self.rival(self.roll_back),
            self.assertRaisesRegex(WrongTable, "was rolled back to an earlier snapshot meanwhile; try again"),
        ):
            self.latest()
        self.latest()
        self.assertEqual(self.rows(), self.expected())

    def test_a_commit_whose_answer_was_lost_is_found(self) -> None:
        commit = Table._do_commit
        for refusal in (CommitFailedException("said so"), CommitStateUnknownException("silence")):
            answers: list[Exception] = [refusal]

            def silent(table: Any, answers: Any = answers, **given: Any) -> None:
                commit(table, **given)
                if answers:
                    raise answers.pop()

            with patch.object(Table, "_do_commit", silent):
                try:
                    self.latest()
                except WrongTable as error:
                    self.assertIn("silence", str(error))
            self.assertEqual(self.rows(), self.expected())
            self.assertEqual(self.latest().rows, 0)
            self.grow(20)
        self.latest()
        self.assertEqual(self.rows(), self.expected())

    def test_whoever_loses_always_says_so_and_leaves_nothing(self) -> None:
        def always(*given: Any) -> bool:
            return False

        before = self.data_files()
        with (
            patch.object(icebergkeyed, "swap_files", always),
            self.assertRaisesRegex(WrongTable, "no merge after 10 attempts; try again"),
        ):
            self.latest()
        self.assertEqual(self.data_files(), before)

    def test_a_full_disk_is_told_and_leaves_nothing(self) -> None:
        write, files, before = icebergkeyed.data_files, count(), self.data_files()

        def full(*given: Any) -> Any:
            if next(files) == 1:
                raise NoRoom("no room")
            return write(*given)

        with patch.object(icebergkeyed, "data_files", full), self.assertRaises(NoRoom):
            self.latest()
        self.assertEqual(self.data_files(), before)
        self.latest()
        self.assertEqual(self.rows(), self.expected())


class RefusedTests(IcebergLatestCase, latestcase.AnyRefusedCase):
    absent = "does not exist"

    def test_a_table_of_something_else_is_left_as_it_is(self) -> None:
        self.grow(20)
        made = load_catalog("lake").create_table(("rocketmq", "last"), pa.schema([("amount", pa.int64())]))
        made.append(pa.table({"amount": [1]}))
        with self.assertRaisesRegex(WrongTable, "rows that aren't the last messages of a table"):
            self.latest()
        self.assertEqual(self.kept.schema().column_names, ["amount"])

    def test_an_empty_table_of_the_user_s_own_keeps_its_partitioning(self) -> None:
        self.grow(40)
        columns = pa.schema([("key", pa.string()), ("note", pa.string())])
        made = load_catalog("lake").create_table(("rocketmq", "last"), columns)
        with made.update_spec() as spec:
            spec.add_field("key", BucketTransform(4), "bucket")
        for _ in range(2):
            self.latest()
            self.assertEqual(self.rows(), self.expected())
            self.grow(30)
        self.assertEqual(self.partitioned_by(), ["bucket"])
        self.assertEqual(self.kept.scan().to_arrow()["note"].null_count, len(self.rows()))

    def test_a_file_that_has_just_been_removed_is_told(self) -> None:
        self.grow(20)
        path = next(iter(self.landed.scan().plan_files())).file.file_path
        Path(path.removeprefix("file://")).unlink()
        with self.assertRaisesRegex(WrongTable, "its file .* has just been removed.*; try again"):
            self.latest()


class KeyMatchesTests(TestCase):
    """Against going through the rows one by one."""

    def some_rows(self, chance: random.Random, size: int, *, once: bool) -> pa.Table:
        texts = ["", "a", "1", "1a", "a1", "ü", "k\0", "1 1"]
        known = {(chance.choice(texts), chance.choice(texts), chance.choice(texts)) for _ in range(size)}
        names = sorted(known) * (1 if once else 2)
        return pa.table(
            {
                "topic": [topic for topic, _, _ in names],
                "broker": [broker for _, broker, _ in names],
                "key": [key for _, _, key in names],
                "physical_offset": pa.array([chance.randrange(4) for _ in names], pa.int64()),
                "own": pa.array([chance.choice((None, 1)) for _ in names], pa.int64()),
            }
        )

    def test_they_are_found(self) -> None:
        for seed in range(30):
            chance = random.Random(seed)
            rows = self.some_rows(chance, 30, once=True)
            there = self.some_rows(chance, 40, once=False)
            matches = KeyMatches(rows)
            replaced = matches.replaced(there).tolist()
            self.assertEqual(matches.look(there.slice(0, 20)) + matches.look(there.slice(20)), sum(replaced))
            news = {tuple(row.values()) for row in matches.news.to_pylist()}
            expected = set()
            for row in rows.to_pylist():
                same = [
                    (each, at)
                    for at, each in enumerate(there.to_pylist())
                    if all(each[name] == row[name] for name in ("topic", "broker", "key"))
                ]
                wins = [
                    row["physical_offset"] > each["physical_offset"]
                    or (
                        row["physical_offset"] == each["physical_offset"]
                        and row["own"] is not None
                        and each["own"] is None
                    )
                    for each, _ in same
                ]
                self.assertEqual([replaced[at] for _, at in same], wins)
                if any(wins) or not same:
                    expected.add(tuple(row.values()))
            self.assertEqual(news, expected)
            self.assertEqual(matches.inserted + matches.updated, len(expected))
