"""Landing into Iceberg tables: all once, interrupted anywhere, beside other writers, with and without notes."""

from __future__ import annotations

import shutil
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import pyarrow as pa
import pyiceberg.table
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import update_table_metadata
from pyiceberg.transforms import DayTransform

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta.errors import Fenced, WrongTable
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.errors import LostRange, PipelineError, WrongSchema
from hatwisted.pipeline.iceberg import fileids, icebergfiles, openfiles, orphans, snapshots, upkeep
from hatwisted.pipeline.iceberg.landedfiles import RowFiles, WrittenFiles
from hatwisted.pipeline.iceberg.snapshots import claim, landed_tails
from hatwisted.pipeline.jobs.land import iceberglanding, landingrounds
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, engine_for, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores, WrongStore
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.pipeline.schemas.topicschemas import TopicSchema, parse_schemas
from tests.support.golden import GOLDEN
from tests.support.growing import GrowingStore, growing_twice
from tests.support.icebergcatalog import iceberg_catalog

NAME = "iceberg:lake.rocketmq.messages"
IDENTIFIER = ("rocketmq", "messages")
OTHERS = pa.table({"topic": ["other"], "store_date": pa.array([None], pa.date32())})
"""A row of another writer's."""


class IcebergCase(TestCase):
    tasks: InlineTasks | None = None
    """In which logs land; None: in none."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(iceberg_catalog(self.folder))
        self.store = GrowingStore(self.folder / "broker-a")

    def land(self, *stores: Path, **options: Any) -> LandResult:
        running = {name: options.pop(name) for name in ("stop", "progress") if name in options}
        paths = [str(store) for store in stores or (self.store.root,)]
        how = LandOptions(**{"compact_below": None, **options})
        return land(paths, NAME, how, spark=self.tasks, **running)

    @property
    def table(self) -> Table:
        return load_catalog("lake").load_table(IDENTIFIER)

    def offsets(self, broker: str = "broker-a") -> list[int]:
        rows = self.table.scan(f"broker == '{broker}'", ("physical_offset",)).to_arrow()
        found: list[int] = rows["physical_offset"].to_pylist()
        return sorted(found)

    def data_files(self) -> set[str]:
        return {path.name for path in (self.folder / "warehouse").rglob("*.parquet")}

    def remove_files_since(self, before: set[str], table: str = "*") -> None:
        """As whoever takes over does. before: names of those that stay."""
        for path in (self.folder / "warehouse").glob(f"rocketmq/{table}/**/*.parquet"):
            if path.name not in before:
                path.unlink()

    def orders_schema(self) -> tuple[TopicSchema, ...]:
        """Of a topic, which none of its bodies fits."""
        schema = self.folder / "orders.json"
        schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
        return parse_schemas([f"orders=json:{schema}"])

    def live_files(self) -> set[str]:
        return {task.file.file_path.rpartition("/")[2] for task in self.table.scan().plan_files()}


class LandTests(IcebergCase):
    def test_everything_of_a_real_store_lands_as_it_is_read(self) -> None:
        found = self.land(GOLDEN / "master")
        log = read_arrow([str(GOLDEN / "master")]).read_all()
        there = self.table.scan().to_arrow().sort_by("physical_offset").select(log.column_names)
        self.assertEqual(found.rows, log.num_rows)
        self.assertTrue(there.cast(log.schema).equals(log))
        self.assertEqual(self.land(GOLDEN / "master").rows, 0)

    def test_what_is_new_lands_once_of_any_choice_of_brokers(self) -> None:
        other = GrowingStore(self.folder / "broker-b", seed=1)
        both = (self.store.root, other.root)
        for count, stores in ((40, both[:1]), (30, both), (20, both[1:]), (10, both), (0, both[:1])):
            for store in (self.store, other):
                store.append(count)
            self.land(*stores)
        self.land(*both)
        self.assertEqual(self.offsets(), self.store.offsets)
        self.assertEqual(self.offsets("broker-b"), other.offsets)

    def test_a_table_is_partitioned_by_topic_and_day(self) -> None:
        self.store.append(100)
        self.land()
        self.assertEqual([item.name for item in self.table.spec().fields], ["topic", "store_date"])
        tasks = list(self.table.scan("topic == '%RETRY%billing'").plan_files())
        self.assertEqual({task.file.partition[0] for task in tasks}, {"%RETRY%billing"})
        self.assertEqual(sum(task.file.record_count for task in tasks), 25)

    def test_commits_are_as_large_as_is_said_and_say_what_they_brought(self) -> None:
        self.store.append(900)
        seen: list[tuple[int, int]] = []
        found = self.land(max_bytes_per_trigger=90_000, progress=lambda *at: seen.append(at))
        self.assertGreaterEqual(len(found.versions), self.store.end // 120_000)
        self.assertGreater(len(found.versions), 2)
        self.assertEqual((found.rows, seen[-1][0]), (900, seen[-1][1]))
        notes = [self.table.snapshot_by_id(number).summary for number in found.versions]  # type: ignore[union-attr]
        self.assertEqual(sum(int(note["hatwisted.rows"]) for note in notes if note), 900)
        self.assertEqual(sum(int(note["added-records"]) for note in notes if note), 900)

    def test_any_time_lands(self) -> None:
        for born in (-(1 << 62), -62_135_596_800_001, 0, 253_402_300_800_000, (1 << 62)):
            self.store.append(3, born_timestamp=born)
        self.assertEqual(self.land().rows, 15)
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_it_follows_until_it_is_stopped(self) -> None:
        self.store.append(50)
        stop = threading.Event()
        progress = growing_twice(self.store, stop)
        found = self.land(mode="continuous", every=0.01, stop=stop, progress=progress)
        self.assertEqual((found.rows, found.stopped), (70, True))

    def test_a_store_that_appears_while_it_follows_is_claimed_and_goes_on(self) -> None:
        other = GrowingStore(self.folder / "late" / "broker-b", seed=1)
        other.append(30)
        self.land(other.root)
        before = self.table.properties
        self.store.append(50)
        stop, rounds = threading.Event(), iter(range(100))

        def progress(done: int, total: int) -> None:
            if next(rounds):
                stop.set()
            else:
                other.append(7)
                (self.folder / "broker-b").symlink_to(other.root)

        self.land(self.folder / "broker-*", mode="continuous", every=0.01, stop=stop, progress=progress)
        self.assertEqual((self.offsets(), self.offsets("broker-b")), (self.store.offsets, other.offsets))
        runs = [self.table.properties[f"{snapshots.RUN}broker-{letter}"] for letter in "ab"]
        self.assertEqual(len({*runs, *before.values()}), len(before) + 1)

    def test_it_isnt_claimed_by_a_run_that_another_one_has_ended(self) -> None:
        other = GrowingStore(self.folder / "late" / "broker-b", seed=1)
        other.append(30)
        self.store.append(50)
        stop, rounds = threading.Event(), iter(range(100))
        later: list[str] = []

        def progress(done: int, total: int) -> None:
            if next(rounds) == 1:  # the first batch is in the table; nothing has come since
                stop.set()

        def claimed_elsewhere(*given: Any) -> int:
            if not later:
                later.append(claim(self.table, NAME, ["broker-a"]).run)
                (self.folder / "broker-b").symlink_to(other.root)
            return 0

        both = self.folder / "broker-*"
        with (
            patch.object(upkeep, "expire", claimed_elsewhere),
            patch.object(landingrounds, "COMPACT_EVERY", 0.0),
            self.assertRaises(Fenced),
        ):
            self.land(both, mode="continuous", every=0.01, stop=stop, progress=progress)
        self.assertEqual(self.table.properties[f"{snapshots.RUN}broker-a"], later[0])
        self.assertNotIn(f"{snapshots.RUN}broker-b", self.table.properties)


class OnceTests(IcebergCase):
    """A batch takes effect once, whatever happens around its commit."""

    def test_a_run_that_ends_anywhere_is_made_up_for(self) -> None:
        self.store.append(500)
        commit, calls = snapshots._commit, 0

        def broken(*given: Any) -> None:
            nonlocal calls
            calls += 1
            if calls % 4 == 2:
                raise OSError("no more")
            commit(*given)
            if calls % 4 == 0:
                raise KeyboardInterrupt

        with patch.object(snapshots, "_commit", broken):
            for _ in range(100):
                try:
                    if not self.land(max_bytes_per_trigger=60_000).rows:
                        break
                except (PipelineError, KeyboardInterrupt):
                    seen = self.offsets()
                    self.assertEqual(seen, self.store.offsets[: len(seen)])
        self.assertGreater(calls, 8)
        self.assertEqual(self.offsets(), self.store.offsets)
        self.assertEqual(self.data_files(), self.live_files())

    def interfere(self, rival: Any) -> Any:
        """Let `rival` act once between a commit's look at the table and its leap."""
        commit, rivals = snapshots._commit, [rival]

        def late(change: Any, files: Any, note: Any) -> None:
            if files and rivals:
                rivals.pop()()
            commit(change, files, note)

        return patch.object(snapshots, "_commit", late)

    def test_a_later_run_fences_it_even_between_look_and_leap(self) -> None:
        self.store.append(50)
        rival = lambda: claim(self.table, NAME, ["broker-a"])  # noqa: E731
        with self.interfere(rival), self.assertRaisesRegex(Fenced, "took over"):
            self.land()
        self.assertEqual(self.offsets(), [])
        self.assertEqual(self.land().rows, 50)

    def test_whose_files_a_later_run_removes_while_they_are_written_is_told_so(self) -> None:
        self.store.append(100)
        length, begun = PyArrowFile.__len__, threading.Event()

        def late(file: PyArrowFile) -> int:
            if file.location.endswith(".parquet") and not begun.is_set():
                begun.set()
                self.land()
            return length(file)

        with (
            patch.object(PyArrowFile, "__len__", late),
            self.assertRaisesRegex(
                Fenced, r"^[^\n]*\.parquet is gone .* a later run of the same logs took over"
            ),
        ):
            self.land()
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_the_same_batch_between_look_and_leap_is_refused(self) -> None:
        self.store.append(50)
        with self.interfere(self.land), self.assertRaises(Fenced):
            self.land()
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_another_writers_commit_between_look_and_leap_is_gone_along_with(self) -> None:
        self.store.append(50)
        self.land()
        self.store.append(10)
        with self.interfere(lambda: self.table.append(OTHERS)):
            self.assertEqual(self.land().rows, 10)
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_a_commit_whose_answer_was_lost_is_found(self) -> None:
        self.store.append(50)
        commit = Table._do_commit
        for refusal in (CommitFailedException("said so"), CommitStateUnknownException("silence")):
            answers: list[Exception | None] = [None, refusal]

            def silent(table: Any, answers: Any = answers, **given: Any) -> None:
                commit(table, **given)
                answer = answers.pop(0) if answers else None
                if answer is not None:
                    raise answer

            with patch.object(Table, "_do_commit", silent):
                try:
                    self.land()
                except WrongTable as error:
                    self.assertIn("silence", str(error))
            self.store.append(20)
        self.land()
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_the_metadata_is_copied_once_for_each_change(self) -> None:
        """They list all snapshots: copied for each look, as pyiceberg does, they would cost most of a commit."""
        self.store.append(50)
        self.land()
        self.store.append(5)
        with patch.object(pyiceberg.table, "update_table_metadata", wraps=update_table_metadata) as copied:
            self.assertEqual(self.land().rows, 5)
        for call in copied.call_args_list:
            self.assertEqual(copied.call_args_list.count(call), 1, call)
        self.assertGreater(copied.call_count, 2)

    def test_without_the_check_of_the_newest_snapshot_a_batch_would_land_twice(self) -> None:
        """What this rests on: pyiceberg by itself puts an append on top of whatever came between."""
        self.store.append(50)
        with (
            patch.object(snapshots, "OnceTransaction", Transaction),
            patch.object(snapshots.IcebergClaim, "check"),
            patch.object(orphans, "remove_left", return_value=[]),
            self.interfere(self.land),
        ):
            self.land()
        self.assertEqual(len(self.offsets()), 100)

    def test_damage_leaves_nothing(self) -> None:
        self.store.append(500)
        path = self.store.root / "commitlog" / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[self.store.offsets[400] + 4] ^= 1
        path.write_bytes(data)
        with patch.object(icebergfiles, "FLUSH_BYTES", 1), self.assertRaises(PipelineError):
            self.land(max_bytes_per_trigger=50_000)
        self.assertEqual(self.data_files(), self.live_files())

    def begun(self) -> tuple[set[str], pa.RecordBatch, icebergfiles.IcebergFiles]:
        """Files of a table with rows, rows, and files that some of them are in already."""
        self.store.append(60)
        self.land()
        before = self.data_files()
        rows = with_store_date(read_arrow([str(self.store.root)]).read_next_batch())
        files = icebergfiles.IcebergFiles(self.table, NAME, fileids.FileIds("0" * 12))
        with patch.object(icebergfiles, "FLUSH_BYTES", 1):
            files.write(rows)
        return before, rows, files

    def test_of_a_batch_that_is_not_finished_nothing_is_left_and_of_a_finished_one_everything(self) -> None:
        before, rows, files = self.begun()
        files.write(rows)
        with (
            patch.object(openfiles._OpenFile, "write", side_effect=OSError("full")),
            self.assertRaises(WrongTable),
        ):
            files.close()
        self.assertGreater(self.data_files(), before)
        files.drop()
        self.assertEqual(self.data_files(), before)
        files.write(rows)
        finished = files.close()
        files.drop()  # its commit failed: who knows what became of it
        self.assertEqual(len(self.data_files() - before), len(finished))

    def test_one_that_is_removed_before_it_is_finished_says_that_a_later_run_took_over(self) -> None:
        before, _, files = self.begun()
        self.remove_files_since(before)
        with self.assertRaisesRegex(
            Fenced, "gone before it was finished: a later run of the same logs took over"
        ):
            files.close()
        files.drop()
        self.assertEqual(self.data_files(), before)

    def test_dead_letters_of_a_run_whose_files_are_gone_go_with_them(self) -> None:
        """Whoever took over has removed those, and looks no more for what comes later."""
        how: Any = {"schemas": self.orders_schema()}
        self.store.append(50)
        self.land(**how)
        before = self.data_files()
        self.store.append(50)
        flush = openfiles.OpenFiles.flush

        def overtaken(files: openfiles.OpenFiles) -> None:
            flush(files)
            self.remove_files_since(before, "messages")

        with patch.object(openfiles.OpenFiles, "flush", overtaken), self.assertRaises(PipelineError):
            self.land(**how)
        self.assertEqual(self.data_files(), before)


class FoundAgainTests(IcebergCase):
    def setUp(self) -> None:
        super().setUp()
        self.store.append(60)
        self.land(max_bytes_per_trigger=10_000)

    def test_without_its_notes_the_rows_say_how_far_it_is(self) -> None:
        self.table.append(OTHERS)
        head = self.table.current_snapshot()
        old = [item.snapshot_id for item in self.table.snapshots() if item != head]
        self.table.maintenance.expire_snapshots().by_ids(old).commit()
        self.assertEqual(snapshots.noted(self.table), {})
        tail = landed_tails(self.table, NAME, ["broker-a", "broker-z"])
        self.assertEqual([found.end for found in tail.values()], [self.store.end])
        self.store.append(5)
        self.assertEqual(self.land().rows, 5)

    def test_a_table_that_was_rolled_back_gets_its_rows_again(self) -> None:
        found = self.table.history()
        with self.table.manage_snapshots() as change:
            change.rollback_to_snapshot(found[len(found) // 2].snapshot_id)
        self.assertLess(len(self.offsets()), 60)
        self.land()
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_rows_that_were_deleted_stay_so(self) -> None:
        self.table.delete(f"physical_offset >= {self.store.offsets[40]}")
        self.store.append(5)
        self.assertEqual(self.land().rows, 5)
        self.assertEqual(self.offsets(), self.store.offsets[:40] + self.store.offsets[60:])

    def test_another_log_of_the_same_name_is_refused(self) -> None:
        other = GrowingStore(self.folder / "elsewhere" / "broker-a", seed=7)
        other.append(100)
        other.store_later(range(100))
        with self.assertRaisesRegex(WrongStore, "another record"):
            self.land(other.root)

    def test_a_store_that_is_swapped_meanwhile_is_refused(self) -> None:
        """Another log has taken its folder; it's as long, and goes on."""
        self.store.append(50)
        before, landed = self.offsets(), self.store.offsets

        def swap(done: int, total: int) -> None:
            self.assertEqual(self.offsets(), before)  # the first batch isn't committed yet
            shutil.rmtree(self.store.root)
            GrowingStore(self.store.root, seed=7).append(200)

        with self.assertRaisesRegex(WrongStore, "has another record there"):
            self.land(mode="continuous", every=0.01, progress=swap)
        self.assertEqual(self.offsets(), landed)

    def test_what_was_deleted_before_it_landed_is_told(self) -> None:
        self.store.append(3_000)
        first, *rest = sorted((self.store.root / "commitlog").iterdir())
        self.assertTrue(rest)
        first.unlink()
        with self.assertRaisesRegex(LostRange, "set failOnDataLoss"):
            self.land()


class TaskedLandTests(LandTests):
    """The same by tasks, as Spark's are."""

    tasks = InlineTasks()

    def test_each_piece_has_files_of_its_own_in_one_snapshot(self) -> None:
        self.store.append(400)
        found = self.land(partitions=4, max_bytes_per_trigger=self.store.end)
        self.assertEqual((found.rows, len(found.versions)), (400, 1))
        self.assertGreaterEqual(found.files, 4 * 4)
        self.assertEqual(self.live_files(), self.data_files())
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_topics_schemas_are_theirs_too(self) -> None:
        schemas = self.orders_schema()
        for count in (400, 40):
            self.store.append(count)
            found = self.land(partitions=4, schemas=schemas)
            self.assertEqual((found.rows, found.dead_letters), (count, {"type": count // 4}))
        beside = load_catalog("lake").load_table(("rocketmq", "messages__dlq")).scan().to_arrow()
        self.assertEqual(sorted(beside["physical_offset"].to_pylist()), self.store.offsets[::4])

    def test_a_stream_needs_a_session(self) -> None:
        self.store.append(5)
        with self.assertRaisesRegex(PipelineError, "needs a stream of Spark's"):
            self.land(checkpoint=str(self.folder / "checkpoint"))


class TaskedOnceTests(OnceTests):
    tasks = InlineTasks()

    def test_what_a_failed_batchs_other_tasks_wrote_goes_with_it(self) -> None:
        how: Any = {"partitions": 5, "schemas": self.orders_schema()}
        self.store.append(50)
        self.land(**how)
        before = self.data_files()
        self.store.append(400)
        with (self.store.root / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(self.store.offsets[400] + 4)
            file.write(b"\0")
        written: list[str] = []
        close = RowFiles.close

        def noted(files: RowFiles) -> WrittenFiles:
            whole = close(files)
            written.extend(file.file_path for file in (*whole.files, *whole.dead))
            return whole

        with patch.object(RowFiles, "close", noted), self.assertRaises(PipelineError):
            self.land(max_bytes_per_trigger=self.store.end, **how)
        self.assertTrue(written)
        self.assertEqual(self.offsets(), self.store.offsets[:50])
        self.assertEqual(self.data_files(), before)


class TaskedFoundAgainTests(FoundAgainTests):
    tasks = InlineTasks()


class UpkeepTests(IcebergCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(patch.object(upkeep, "MIN_FILES", 4))
        self.store.append(160)

    def test_small_files_become_few_and_old_readers_go_on(self) -> None:
        self.land(max_bytes_per_trigger=self.store.end // 5)
        reader = self.table.scan()
        before = len(self.live_files())
        found = self.land(compact_below=1 << 20)
        self.assertGreaterEqual(found.compacted, 16)
        self.assertEqual(len(self.live_files()), before - found.compacted + 4)
        self.assertEqual(self.offsets(), self.store.offsets)
        self.assertEqual(reader.to_arrow().num_rows, 160)
        self.store.append(5)
        self.assertEqual(self.land().rows, 5)

    def test_no_more_is_merged_at_a_time_than_fits_into_memory(self) -> None:
        self.land(max_bytes_per_trigger=self.store.end // 5)
        sizes = sorted(
            task.file.file_size_in_bytes for task in self.table.scan("topic == 'logs'").plan_files()
        )
        with patch.object(upkeep, "READ_BYTES", sum(sizes[:4])):
            groups = upkeep._small_files(self.table, 1 << 20)
        merged = [
            task.file.file_size_in_bytes
            for _, tasks in groups
            for task in tasks
            if "logs" in task.file.file_path
        ]
        self.assertEqual(sorted(merged), sizes[:4])

    def test_a_compaction_that_loses_against_a_landing_changes_nothing(self) -> None:
        self.land(max_bytes_per_trigger=self.store.end // 5)
        table = self.table
        self.store.append(5)
        replace = upkeep.replace_files
        rivals = [self.land]

        def late(*given: Any) -> bool:
            if rivals:
                rivals.pop()()
            return replace(*given)

        with patch.object(upkeep, "replace_files", late):
            found = upkeep.compact(table, NAME, 1 << 20, fileids.FileIds("0" * 12))
        self.assertEqual(len(found.put_off), 1)
        self.assertGreater(found.removed, 0)
        self.assertEqual(self.offsets(), self.store.offsets)
        self.assertLessEqual(self.live_files(), self.data_files())

    def test_of_two_compactions_at_once_the_later_one_changes_nothing(self) -> None:
        self.land(max_bytes_per_trigger=self.store.end // 5)
        table = self.table
        self.assertGreater(len(upkeep._small_files(table, 1 << 20)), 1)
        replace, first = upkeep.replace_files, []
        rivals = [lambda: upkeep.compact(self.table, NAME, 1 << 20, fileids.FileIds("1" * 12))]

        def late(*given: Any) -> bool:
            if rivals:
                first.append(rivals.pop()())
                # As whoever takes over does with what no snapshot has.
                table.io.delete(given[3][0].file_path)
            return replace(*given)

        with patch.object(upkeep, "replace_files", late):
            found = upkeep.compact(table, NAME, 1 << 20, fileids.FileIds("0" * 12))
        self.assertGreater(first[0].removed, 0)
        self.assertEqual((found.removed, found.added), (0, 0))
        self.assertEqual(self.offsets(), self.store.offsets)
        self.assertLessEqual(self.live_files(), self.data_files())

    def test_old_snapshots_expire_as_the_table_says(self) -> None:
        self.land(max_bytes_per_trigger=self.store.end // 5)
        self.assertEqual(upkeep.expire(self.table, NAME), 0)
        later = datetime.now(UTC) + timedelta(days=6)
        with self.table.transaction() as change:
            change.set_properties({upkeep.KEPT: "3"})
        self.assertGreater(upkeep.expire(self.table, NAME, later), 2)
        self.assertEqual(len(self.table.snapshots()), 3)
        self.store.append(5)
        self.assertEqual(self.land().rows, 5)
        with self.table.transaction() as change:
            change.remove_properties(upkeep.MAX_AGE)
        self.assertEqual(upkeep.expire(self.table, NAME, later), 0)
        self.assertEqual(self.offsets(), self.store.offsets)


class TableTests(IcebergCase):
    """Names, tables that are there already, and what is refused."""

    def test_a_table_that_is_there_keeps_its_partitioning_and_columns(self) -> None:
        self.store.append(30)
        catalog = load_catalog("lake")
        catalog.create_namespace("rocketmq")
        mine = pa.schema(
            [("mine", pa.string()), ("topic", pa.string()), ("store_timestamp", pa.timestamp("us", "UTC"))]
        )
        with catalog.create_table(IDENTIFIER, mine).update_spec() as spec:
            spec.add_field("store_timestamp", DayTransform(), "day")
        self.land(columns=["tags"])
        self.store.append(10)
        self.land()
        rows = self.table.scan().to_arrow()
        self.assertEqual([item.name for item in self.table.spec().fields], ["day"])
        self.assertEqual((rows["mine"].null_count, rows["body"].null_count), (40, 30))

    def test_a_table_that_does_not_fit_is_refused_by_column(self) -> None:
        self.store.append(30)
        catalog = load_catalog("lake")
        catalog.create_namespace("rocketmq")
        catalog.create_table(IDENTIFIER, pa.schema([("topic", pa.int64())]))
        with self.assertRaisesRegex(WrongSchema, "topic"):
            self.land()
        catalog.drop_table(IDENTIFIER)
        catalog.create_table(IDENTIFIER, pa.schema([pa.field("mine", pa.int64(), nullable=False)]))
        with self.assertRaisesRegex(WrongSchema, "column mine may not be null"):
            self.land()

    def test_what_is_no_name_or_no_catalog_is_told_in_a_line(self) -> None:
        self.store.append(3)
        for name, why in (
            ("iceberg:lake.messages", "give iceberg:CATALOG.NAMESPACE.TABLE"),
            ("iceberg:elsewhere.a.b", "PYICEBERG_CATALOG__ELSEWHERE__URI"),
        ):
            with self.assertRaisesRegex(WrongTable, why) as told:
                land([str(self.store.root)], name)
            self.assertNotIn("\n", str(told.exception))

    def test_what_the_engine_local_cannot_do_is_refused(self) -> None:
        stores = Stores([str(self.store.root)])
        for source, options, why in (
            (stores, {"checkpoint": "x"}, "keeps no checkpoint"),
            (Cluster("127.0.0.1:1", ["T"]), {"partitions": 2}, "partitions are Spark's"),
        ):
            with self.assertRaisesRegex(PipelineError, why):
                engine_for(source, NAME, LandOptions(engine="local", **options))  # type: ignore[arg-type]

    def test_auto_takes_spark_for_much_of_a_log_where_it_can(self) -> None:
        stores, chosen = Stores([str(self.store.root)]), LandOptions(checkpoint="x")
        self.store.append(10)
        self.assertEqual(engine_for(stores, NAME, LandOptions(partitions=2)), "spark")
        with patch.multiple(iceberglanding, LOCAL_BYTES=100, _has_spark=lambda: True):
            for options in (LandOptions(), chosen):
                self.assertEqual(engine_for(stores, NAME, options), "spark")
            with patch.object(iceberglanding, "_has_spark", return_value=False):
                self.assertEqual(engine_for(stores, NAME, LandOptions()), "local")
            self.land(engine="local")
            self.assertEqual(engine_for(stores, NAME, LandOptions()), "local")
            self.store.append(10)
            self.assertEqual(engine_for(stores, NAME, LandOptions()), "spark")
        for options in (LandOptions(), chosen):
            self.assertEqual(engine_for(stores, NAME, options), "local")
