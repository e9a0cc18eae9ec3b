"""Landing without Spark: all once, in turns, interrupted anywhere; and which engine is chosen."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any
from unittest import TestCase
from unittest.mock import patch

from deltalake import DeltaTable

from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.delta import landedfiles
from hatwisted.pipeline.delta.commits import FENCE, claim
from hatwisted.pipeline.delta.datafiles import DataFiles
from hatwisted.pipeline.delta.deltatable import prepare_table
from hatwisted.pipeline.delta.errors import ByQueue, Fenced
from hatwisted.pipeline.delta.landedfiles import LandedFiles
from hatwisted.pipeline.delta.landedrows import PARTITION_BY, landed_schema, with_store_date
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.queuetails import last_of_queues
from hatwisted.pipeline.delta.tails import Tail
from hatwisted.pipeline.errors import DamagedLogRange, LostRange, PipelineError
from hatwisted.pipeline.jobs.audit.auditing import audit
from hatwisted.pipeline.jobs.land import landing, locallanding
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, engine_for, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores, WrongStore
from hatwisted.pipeline.jobs.land.landingstate import WrongCheckpoint
from hatwisted.pipeline.jobs.land.landoptions import CLAIMING, LOOKING, READING, TASKS
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from tests.support.golden import GOLDEN
from tests.support.growing import GrowingStore, growing_twice


class Watching:
    """A progress that notes what it's told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __call__(self, done: int, total: int) -> None:
        self.told.append((done, total))

    def waits_for(self, what: str) -> None:
        self.told.append(what)


class LakeCase(TestCase):
    tasks: InlineTasks | None = None
    """In which logs land; None: in none."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store = GrowingStore(self.folder / "broker-a")
        self.other = GrowingStore(self.folder / "broker-b", seed=1)
        self.table = str(self.folder / "table")

    def land(self, *stores: Path, source: Any = None, **options: Any) -> LandResult:
        running = {name: options.pop(name) for name in ("stop", "progress") if name in options}
        how = LandOptions(**{"engine": "local", "compact_below": None, **options})
        paths = [str(store) for store in stores or (self.store.root,)]
        return land(source or paths, self.table, how, spark=self.tasks, **running)

    def offsets(self) -> list[int]:
        rows = DeltaTable(self.table).to_pyarrow_table(columns=["physical_offset"])
        found: list[int] = rows.column(0).to_pylist()
        return sorted(found)


class LastDamageTests(LakeCase):
    """A table whose last row of a broker stands for a damaged range, as `permissive` lands it."""

    def test_its_store_goes_on(self) -> None:
        self.store.append(60)
        begin, end = self.store.offsets[50], self.store.offsets[51]
        tail = Tail("broker-a", begin, end - begin, None, None)
        stores = Stores([str(self.store.root)])
        log_file = self.store.root / "commitlog" / f"{0:020d}"
        with log_file.open("r+b") as file:
            file.seek(begin)
            file.write(b"damage" * 5)
        stores.check({"broker-a": tail})
        with self.assertRaisesRegex(WrongStore, "has another record there"):
            stores.check({"broker-a": Tail("broker-a", begin, end - begin, 1, 1)})


class _Late(Stores):
    """The folder of its second broker appears right after one has looked which there are."""

    def writer(self) -> Writer:
        return Writer.of(["broker-a"])


class LocalTests(LakeCase):
    def test_everything_of_a_real_store_lands(self) -> None:
        found = self.land(GOLDEN / "master")
        self.assertEqual(found.rows, read_arrow([str(GOLDEN / "master")]).read_all().num_rows)
        self.assertTrue(audit(InlineTasks(), [str(GOLDEN / "master")], [self.table]).identical)
        self.assertEqual(self.land(GOLDEN / "master").rows, 0)

    def test_what_is_new_lands_once_of_any_choice_of_brokers(self) -> None:
        both = (self.store.root, self.other.root)
        for count, stores in ((40, both[:1]), (30, both), (20, both[1:]), (10, both), (0, both[:1])):
            for store in (self.store, self.other):
                store.append(count)
            self.land(*stores)
        self.land(*both)
        self.assertEqual(self.offsets(), sorted(self.store.offsets + self.other.offsets))

    def test_commits_are_as_large_as_is_said_and_progress_ends_with_all(self) -> None:
        self.store.append(6000)
        seen: list[tuple[int, int]] = []
        found = self.land(max_bytes_per_trigger=500_000, progress=lambda *at: seen.append(at))
        self.assertGreaterEqual(len(found.versions), self.store.end // 600_000)
        self.assertEqual((found.rows, seen[-1][0]), (6000, seen[-1][1]))
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_no_commit_has_more_of_the_log_than_is_said(self) -> None:
        self.store.append(160)
        found = self.land(max_bytes_per_trigger=self.store.end // 4 - 1)  # five pieces: no two of them fit
        self.assertEqual(len(found.versions), 5)

    def test_a_run_that_ends_anywhere_is_made_up_for(self) -> None:
        self.store.append(1500)
        calls = 0

        def broken(*given: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls % 3 == 2:
                raise OSError("no more")
            result = commit(*given, **more)
            if calls % 3 == 0:
                raise KeyboardInterrupt
            return result

        commit = landedfiles.commit_files
        with (
            patch.object(landedfiles, "commit_files", broken),
            patch.object(locallanding, "SPLIT_BYTES", 45_000),
        ):
            for _ in range(100):
                try:
                    if not self.land(max_bytes_per_trigger=80_000).rows:
                        break
                except (OSError, KeyboardInterrupt):
                    self.assertLessEqual(set(self.offsets()), set(self.store.offsets))
        self.assertGreater(calls, 5)
        self.assertEqual(self.offsets(), self.store.offsets)
        mentioned = {Path(path).name for path in DeltaTable(self.table).file_uris()}
        self.assertEqual({path.name for path in Path(self.table).glob("topic=*/*/*")}, mentioned)

    def test_a_later_run_fences_it(self) -> None:
        self.store.append(50)
        commit = landedfiles.commit_files

        def late(*given: Any, **more: Any) -> Any:
            claim(self.table, Writer.of(["broker-a"]))
            return commit(*given, **more)

        with patch.object(landedfiles, "commit_files", late), self.assertRaises(Fenced):
            self.land()
        self.assertEqual(self.offsets(), [])
        self.assertEqual(self.land().rows, 50)

    def test_whose_unfinished_files_a_later_run_has_removed_is_told_so(self) -> None:
        self.store.append(100)
        finish, begun = DataFiles._finish, threading.Event()

        def late(files: DataFiles, values: tuple[str | None, ...]) -> None:
            if not begun.is_set():
                begun.set()
                self.land(checkpoint=str(self.folder / "other"))
            finish(files, values)

        with (
            patch.object(DataFiles, "_finish", late),
            self.assertRaisesRegex(Fenced, "unfinished-.* is gone .* a later run of the same logs took over"),
        ):
            self.land()
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_progress_is_kept_in_a_folder(self) -> None:
        """The name of a place elsewhere isn't made a folder here, and no table is begun."""
        for place in ("s3://lake/c", "file:///c"):
            with self.assertRaisesRegex(WrongCheckpoint, f"^{place}: progress is kept in a folder"):
                self.land(checkpoint=place)
        self.assertFalse(Path(self.table).exists())

    def test_a_broker_that_appears_meanwhile_waits_until_it_is_claimed(self) -> None:
        for store in (self.store, self.other):
            store.append(30)
        self.land(self.other.root)
        late = _Late([str(self.store.root), str(self.other.root)])
        self.assertEqual(self.land(source=late).rows, 30)
        self.assertEqual(self.land(self.store.root, self.other.root).rows, 0)
        self.assertEqual(self.offsets(), sorted(self.store.offsets + self.other.offsets))

    def test_it_follows_until_it_is_stopped(self) -> None:
        self.store.append(50)
        stop = threading.Event()
        progress = growing_twice(self.store, stop)
        found = self.land(mode="continuous", every=0.01, stop=stop, progress=progress)
        self.assertTrue(found.stopped)
        self.assertEqual(found.rows, 70)

    def test_a_broker_whose_store_appears_meanwhile_is_claimed_and_lands_once(self) -> None:
        self.store.append(50)
        stop = threading.Event()
        rounds = iter(range(100))
        late: list[GrowingStore] = []

        def progress(done: int, total: int) -> None:
            match next(rounds):
                case 0:
                    late.append(GrowingStore(self.folder / "broker-z", seed=2))
                    late[0].append(30)
                case number if number < 5:
                    self.store.append(10)
                case _:
                    stop.set()

        source = Stores([str(self.folder / "broker-[az]")])
        self.land(source=source, mode="continuous", every=0.01, stop=stop, progress=progress)
        self.assertEqual(self.offsets(), sorted(self.store.offsets + late[0].offsets))
        self.assertIsNotNone(DeltaTable(self.table).transaction_version(FENCE + "broker-z"))

    def test_a_store_that_is_swapped_meanwhile_is_refused(self) -> None:
        """Another log has taken its folder; it's as long, and goes on."""
        self.store.append(50)

        def swap(done: int, total: int) -> None:
            self.assertEqual(self.offsets(), [])  # of the first batch, which isn't committed yet
            shutil.rmtree(self.store.root)
            GrowingStore(self.store.root, seed=7).append(90)

        landed = self.store.offsets
        with self.assertRaisesRegex(WrongStore, "has another record there"):
            self.land(mode="continuous", every=0.01, progress=swap)
        self.assertEqual(self.offsets(), landed)

    def test_damage_ends_it_and_nothing_of_the_batch_is_left(self) -> None:
        self.store.append(50)
        path = self.store.root / "commitlog" / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[self.store.offsets[20] + 4] ^= 1
        path.write_bytes(data)
        with self.assertRaises(DamagedLogRange):
            self.land()
        self.assertEqual(list(Path(self.table).glob("topic=*/*/*")), [])

    def test_what_was_deleted_before_it_landed_is_told(self) -> None:
        self.store.append(40)
        self.land()
        self.store.append(12_000)
        first, *_ = sorted((self.store.root / "commitlog").iterdir())
        first.unlink()
        with self.assertRaisesRegex(LostRange, "were deleted before they were read: set failOnDataLoss"):
            self.land()
        source = Stores([str(self.store.root)], {"failOnDataLoss": "false"})
        self.assertGreater(self.land(source=source).rows, 1000)
        shutil.rmtree(Path(self.table, "_landing"))
        self.assertEqual(self.land().rows, 0)

    def test_what_is_deleted_while_another_brokers_log_lands_is_told(self) -> None:
        self.store.append(40)
        self.other.append(8000)
        first, second, *_ = sorted((self.other.root / "commitlog").iterdir())
        both = (self.store.root, self.other.root)
        with self.assertRaisesRegex(
            LostRange, "broker-b: offsets 0 to 1048576 were deleted before they were"
        ):
            self.land(*both, progress=lambda done, total: first.unlink(missing_ok=True))
        lossy = Stores([str(store) for store in both], {"failOnDataLoss": "false"})
        with self.assertLogs("hatwisted.pipeline.jobs.land", "WARNING"):
            self.land(source=lossy, progress=lambda done, total: second.unlink(missing_ok=True))
        left = [offset for offset in self.other.offsets if offset >= 2 << 20]
        self.assertEqual(self.offsets(), sorted(self.store.offsets + left))

    def test_a_store_cant_go_on_where_queues_have_landed(self) -> None:
        """Before a queue's last row its log has rows of other topics."""
        self.store.append(400)
        self.other.append(10)
        prepare_table(self.table, landed_schema(), PARTITION_BY)
        held = claim(self.table, Writer.of(["broker-a", "broker-b"]), by_queue=True)
        files = landedfiles.landed_files(self.table, held, None, ())
        (rows,) = read_arrow([str(self.store.root)], where=[Condition("topic", "=", "orders")])
        files.write(with_store_date(rows))
        queues = last_of_queues(rows)
        landedfiles.commit_next(self.table, files.close(), application="it", held=held, queues=queues)
        with self.assertRaisesRegex(ByQueue, "broker-a was landed from a cluster, queue by queue"):
            self.land(self.store.root, self.other.root)
        self.assertEqual(self.land(self.other.root).rows, 10)
        with self.assertRaises(ByQueue):
            self.land()

    def test_a_broker_by_another_name_than_its_folders_goes_on(self) -> None:
        source = Stores([str(self.store.root)], {"broker": "elsewhere"})
        for count in (20, 10, 0):
            self.store.append(count)
            self.assertEqual(self.land(source=source).rows, count)
        self.assertEqual(self.offsets(), self.store.offsets)

    def test_what_is_waited_for_is_told_until_bytes_are_done(self) -> None:
        self.store.append(20)
        watcher = Watching()
        self.land(progress=watcher)
        told = [READING, CLAIMING, LOOKING, *([TASKS] if self.tasks is not None else [])]
        self.assertEqual(watcher.told[: len(told)], told)
        self.assertEqual(watcher.told[-1], (self.store.end, self.store.end))
        self.assertFalse([each for each in watcher.told[len(told) :] if isinstance(each, str)])

    def test_fewer_columns(self) -> None:
        self.store.append(20)
        self.land(columns=["tags"])
        names = DeltaTable(self.table).to_pyarrow_table().column_names
        self.assertIn("tags", names)
        self.assertNotIn("body", names)


class TaskedTests(LocalTests):
    """The same by tasks, as Spark's are."""

    tasks = InlineTasks()

    def test_what_a_failed_batchs_other_tasks_wrote_goes_with_it(self) -> None:
        self.store.append(50)
        self.assertEqual(self.land().engine, "spark")
        self.store.append(400)
        damaged = self.store.offsets[400]
        with (self.store.root / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(damaged + 4)
            file.write(b"\0")
        written: list[str] = []
        close = LandedFiles.close

        def noted(files: LandedFiles) -> Any:
            whole = close(files)
            written.extend(file.path for file in whole.files)
            return whole

        with patch.object(LandedFiles, "close", noted), self.assertRaises(DamagedLogRange):
            self.land(partitions=4, max_bytes_per_trigger=self.store.end)
        self.assertTrue(written)
        self.assertEqual(self.offsets(), self.store.offsets[:50])
        mentioned = {Path(path).name for path in DeltaTable(self.table).file_uris()}
        self.assertEqual({path.name for path in Path(self.table).glob("topic=*/*/*")}, mentioned)

    def test_the_engines_share_their_progress(self) -> None:
        self.store.append(50)
        self.land()
        self.store.append(30)
        self.tasks = None
        self.assertEqual(self.land().rows, 30)
        (state,) = Path(self.table, "_landing").iterdir()
        self.assertEqual(list(state.glob("spark*")), [])

    def test_a_stream_needs_a_session(self) -> None:
        self.store.append(5)
        source = Stores([str(self.store.root)], {"mode": "permissive"})
        with self.assertRaisesRegex(PipelineError, "needs a stream of Spark's"):
            self.land(source=source)


class EngineTests(LakeCase):
    def engine(self, source: Any = None, **options: Any) -> str:
        return engine_for(source or Stores([str(self.store.root)]), self.table, LandOptions(**options))

    def test_small_work_needs_no_spark(self) -> None:
        self.store.append(100)
        self.assertEqual(self.engine(), "local")
        with patch.object(landing, "LOCAL_BYTES", self.store.end - 1):
            self.assertEqual(self.engine(), "spark")
            self.assertEqual(self.land().engine, "local")
            self.assertEqual(self.engine(), "local")
        self.assertEqual(self.engine(engine="spark"), "spark")

    def test_what_only_spark_can_do(self) -> None:
        stores = [str(self.store.root)]
        for source, options, why in (
            (Cluster("127.0.0.1:1", ["T"], more={"sql92": "a = 1"}), {}, "the option sql92"),
            (Stores(stores, {"mode": "permissive"}), {}, "the option mode"),
            (None, {"partitions": 3}, "partitions"),
            (None, {"transform": lambda frame: frame}, "transformation"),
        ):
            self.assertEqual(self.engine(source, **options), "spark")
            with self.assertRaisesRegex(PipelineError, f"{why}.*; use the engine spark"):
                self.engine(source, engine="local", **options)
