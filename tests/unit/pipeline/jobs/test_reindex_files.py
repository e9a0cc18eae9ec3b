"""Queues and index built from the log alone are, byte for byte, those that RocketMQ and the store built."""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import TestCase

import numpy as np

from hatwisted.logcodec.queueentry import GAP_LIMIT, blank_entry
from hatwisted.logcodec.queueplan import plan_queue
from hatwisted.logcodec.queueruns import QueueName, Run
from hatwisted.logcodec.rangedispatch import ITEMS as ITEM
from hatwisted.pipeline.errors import DamagedLogRange, PipelineError
from hatwisted.pipeline.jobs.reindex.indexfiles import plan_index
from hatwisted.pipeline.jobs.reindex.reindexing import Layout, ReindexOptions, ReindexResult, reindex
from hatwisted.pipeline.jobs.reindex.spool import items_path
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.index.indexfile import file_name_at
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire.layout import QUEUE_ENTRY
from tests.support.clistores import delete_queue, run
from tests.support.copies import files_of, flip, patch
from tests.support.golden import GOLDEN, GOLDEN_END
from tests.support.logbuilder import FILE_SIZE, save_log
from tests.support.samplestore import ITEMS, QUEUE_FILE_SIZE, SLOTS, SampleStore
from tests.support.variedlog import VariedLog

LAYOUT = Layout(queue_file_size=QUEUE_FILE_SIZE, slots=SLOTS, items=ITEMS)
"""As the golden store has it, and the sample stores."""


def local(seconds: float) -> str:
    """The name of a file made at this time, as this host's clock shows it."""
    return file_name_at(seconds, datetime.fromtimestamp)


class ReindexCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.target = self.folder / "target"

    def rebuilt(self, source: Path, target: Path, **options: Any) -> ReindexResult:
        options.setdefault("layout", LAYOUT)
        return reindex(InlineTasks(), str(source), str(target), ReindexOptions(**options))

    def assert_same(self, built: Path, expected: Path) -> None:
        """The same queue files, and the same index files under whatever names."""
        self.assertEqual(files_of(built / "consumequeue"), files_of(expected / "consumequeue"))
        indexes = [sorted(files_of(store / "index").items()) for store in (built, expected)]
        self.assertEqual(*([content for _, content in index] for index in indexes))

    def leavings(self) -> list[str]:
        return [path.name for path in self.folder.rglob("*.re*")]


class GoldenTests(ReindexCase):
    def test_the_golden_stores_come_out_byte_for_byte(self) -> None:
        for side in ("master", "slave"):
            shutil.copytree(GOLDEN / side / "commitlog", self.folder / side / "commitlog")
            for split in (1000, 4096, 1 << 20):
                with self.subTest(side=side, split=split):
                    target = self.folder / f"{side}-{split}"
                    result = self.rebuilt(self.folder / side, target, split_bytes=split)
                    self.assert_same(target, GOLDEN / side)
                    self.assertEqual((result.end, result.records, result.exit_code), (GOLDEN_END, 246, 0))
        self.assertEqual(self.leavings(), [])

    def test_files_are_made_as_those_that_the_store_has(self) -> None:
        result = self.rebuilt(GOLDEN / "slave", self.target, layout=Layout())
        self.assert_same(self.target, GOLDEN / "slave")
        self.assertEqual((result.index_files, result.index_items, result.entries), (1, 679, 246))

    def test_of_files_that_do_not_tell_their_shape_it_is_asked_for(self) -> None:
        store = self.folder / "odd"
        shutil.copytree(GOLDEN / "master" / "commitlog", store / "commitlog")
        (store / "index").mkdir()
        (store / "index" / "20251122083320000").write_bytes(bytes(40 + 4 * 10 + 20 * 50))
        with self.assertRaisesRegex(PipelineError, "maxHashSlotNum, maxIndexNum"):
            self.rebuilt(store, self.target, layout=Layout())
        result = self.rebuilt(store, self.target, layout=Layout(slots=10, items=50))
        self.assertEqual({len(file) for file in files_of(self.target / "index").values()}, {1080})
        self.assertGreater(result.index_files, 1)
        self.rebuilt(store, self.folder / "without", layout=Layout(index=False))

    def test_delays_are_those_of_the_broker(self) -> None:
        layout = replace(LAYOUT, delay_levels="2s 5s", index=False)
        self.rebuilt(GOLDEN / "master", self.target, layout=layout)
        queue = files_of(self.target / "consumequeue")["SCHEDULE_TOPIC_XXXX/0/00000000000000000000"]
        self.assertEqual(int.from_bytes(queue[12:20], "big"), 0x1A1FB859307 + 1000)
        self.assertFalse((self.target / "index").exists())
        with self.assertRaisesRegex(PipelineError, "messageDelayLevel"):
            self.rebuilt(GOLDEN / "master", self.target, layout=replace(LAYOUT, delay_levels="soon"))


class DispatchTests(ReindexCase):
    """Against what the server's own dispatch makes of the same log."""

    def dispatched(self, log: VariedLog) -> Path:
        """A store whose queues and index the dispatcher has built."""
        root = self.folder / f"dispatched-{len(list(self.folder.iterdir()))}"
        log.save(root)
        store = SampleStore(str(root))
        store.recover()
        store.close()
        return root

    def test_varied_logs_come_out_as_the_dispatch_makes_them(self) -> None:
        for seed in range(6):
            with self.subTest(seed=seed):
                expected = self.dispatched(VariedLog(seed).vary(400))
                target = self.folder / f"built-{seed}"
                result = self.rebuilt(
                    expected, target, split_bytes=random.Random(seed).choice((7000, 30_000))
                )
                self.assert_same(target, expected)
                self.assertEqual(result.records, 400)

    def test_items_roll_over_many_index_files_in_the_middle_of_a_message(self) -> None:
        expected = self.dispatched(VariedLog(3).vary(7000))
        result = self.rebuilt(expected, self.target, split_bytes=100_000)
        self.assertGreater(result.index_files, 2)
        self.assert_same(self.target, expected)

    def test_a_log_that_begins_in_mid_stream_has_queues_that_do(self) -> None:
        log = VariedLog(9, base=3 * FILE_SIZE, first_offset=150)
        expected = self.dispatched(log.vary(500))
        result = self.rebuilt(expected, self.target, split_bytes=20_000)
        self.assertGreater(result.blanks, 0)
        self.assert_same(self.target, expected)


class BothCommandsTests(ReindexCase):
    """`pipeline reindex` and `log index`, on one store with everything that makes a difference: gaps, repetitions,
    delays, transactions, batches, topics deleted and some of them recreated."""

    def store(self, seed: int) -> Path:
        """A store as its broker left it, which has deleted some topics half way."""
        root, log = self.folder / f"store-{seed}", VariedLog(seed).vary(200)
        for topic, queue_id in self.dispatch(root, log)[:4]:
            self.delete(root, topic, queue_id)
            log.recreate(topic, queue_id)
        log.fill(200)
        # Of these, none has been recreated.
        for topic, queue_id in self.dispatch(root, log)[4:6]:
            self.delete(root, topic, queue_id)
        return root

    def dispatch(self, root: Path, log: VariedLog) -> list[QueueName]:
        """What the broker does with the log so far; its queues."""
        log.save(root)
        store = SampleStore(str(root))
        store.recover()
        store.close()
        return sorted(store.queues.offsets())

    def delete(self, root: Path, topic: str, queue_id: int) -> None:
        queues = ConsumeQueueTable(PosixFileSystem(), str(root / "consumequeue"), QUEUE_FILE_SIZE)
        queues.load_all()
        queues.recover()
        queue = queues.find(topic, queue_id)
        assert queue is not None
        queues.delete(queue)
        queues.close()

    def test_both_make_the_files_that_the_broker_had(self) -> None:
        for seed in range(4):
            with self.subTest(seed=seed):
                store = self.store(seed)
                expected = shutil.copytree(store, self.folder / f"expected-{seed}")
                self.rebuilt(store, self.folder / f"built-{seed}", split_bytes=9000)
                sizes = ("--queue-file-size", QUEUE_FILE_SIZE, "--index-slots", SLOTS, "--index-items", ITEMS)
                result = run("index", store, *sizes)
                self.assertEqual(result.exit_code, 0, result.output)
                self.assert_same(self.folder / f"built-{seed}", expected)
                self.assert_same(store, expected)
                built, indexed = (files_of(each / "index") for each in (self.folder / f"built-{seed}", store))
                self.assertEqual(built, indexed)


class TargetTests(ReindexCase):
    def store(self) -> Path:
        return Path(shutil.copytree(GOLDEN / "master", self.folder / "store"))

    def test_existing_files_are_never_touched_unless_asked_to(self) -> None:
        store = self.store()
        before = files_of(store)
        with self.assertRaisesRegex(PipelineError, "consumequeue exists"):
            self.rebuilt(store, store)
        self.assertEqual(files_of(store), before)
        self.assertEqual(self.leavings(), [])

    def test_a_store_without_queues_gets_them_back(self) -> None:
        store = self.store()
        for name in ("consumequeue", "index"):
            shutil.rmtree(store / name)
        self.rebuilt(store, store)
        self.assert_same(store, GOLDEN / "master")
        self.assertEqual((self.leavings(), list(store.glob("spool"))), ([], []))

    def test_what_is_there_is_replaced_when_asked_to(self) -> None:
        store = self.store()
        (store / "consumequeue" / "TopicA" / "0" / "00000000000000000000").write_bytes(b"\1" * 2000)
        (store / "consumequeue" / "Gone" / "0").mkdir(parents=True)
        self.rebuilt(store, store, replace_existing=True)
        self.assert_same(store, GOLDEN / "master")
        self.assertEqual(self.leavings(), [])

    def test_a_store_in_use_is_not_replaced(self) -> None:
        store = self.store()
        before = files_of(store)
        lock = PosixFileSystem().lock(str(store / "lock"))
        self.addCleanup(lock.release)
        with self.assertRaisesRegex(PipelineError, "held by this process"):
            self.rebuilt(store, store, replace_existing=True)
        self.assertEqual({name: data for name, data in files_of(store).items() if name != "lock"}, before)
        self.assertEqual(self.rebuilt(store, self.target).exit_code, 0)

    def test_queues_whose_records_have_all_expired_are_carried_over(self) -> None:
        store = self.store()
        (store / "commitlog" / "00000000000000000000").unlink()
        queue = store / "consumequeue" / "Expired" / "0" / "00000000000000000000"
        queue.parent.mkdir(parents=True)
        queue.write_bytes(QUEUE_ENTRY.pack(100, 200, 7).ljust(2000, b"\0"))
        result = self.rebuilt(store, self.target)
        self.assertEqual((result.carried_over, result.begin), (1, 65536))
        self.assertEqual(
            files_of(self.target)["consumequeue/Expired/0/00000000000000000000"], queue.read_bytes()
        )

    def test_a_rebuild_that_was_killed_between_its_renames_loses_no_queue(self) -> None:
        store = self.store()
        (store / "commitlog" / "00000000000000000000").unlink()
        queue = store / "consumequeue" / "Expired" / "0" / "00000000000000000000"
        queue.parent.mkdir(parents=True)
        queue.write_bytes(QUEUE_ENTRY.pack(100, 200, 7).ljust(2000, b"\0"))
        expired = queue.read_bytes()
        (store / "consumequeue").rename(store / "consumequeue.replaced")
        result = self.rebuilt(store, store, replace_existing=True)
        self.assertEqual((result.carried_over, queue.read_bytes()), (1, expired))
        self.assertEqual(self.leavings(), [])

    def test_deleted_topics_stay_deleted(self) -> None:
        store = self.store()
        delete_queue(store)
        self.rebuilt(store, store, replace_existing=True)
        self.assertFalse((store / "consumequeue" / "TopicA" / "0").exists())
        self.assertTrue((store / "consumequeue" / "TopicA" / "1").exists())
        self.rebuilt(store, self.target)
        self.assertFalse((self.target / "consumequeue" / "TopicA" / "0").exists())

    def test_a_target_that_cannot_be_made_is_reported(self) -> None:
        (self.folder / "file").touch()
        with self.assertRaisesRegex(PipelineError, "file/target.reindex can't be made"):
            self.rebuilt(GOLDEN / "master", self.folder / "file" / "target")
        with self.assertRaisesRegex(PipelineError, "holds nothing"):
            self.rebuilt(GOLDEN / "master", self.target, layout=Layout(items=1))

    def test_a_log_without_a_record_has_no_queues(self) -> None:
        save_log(self.folder / "store", b"", file_size=FILE_SIZE)
        result = self.rebuilt(self.folder / "store", self.target)
        self.assertEqual((result.records, result.queues, result.index_files), (0, 0, 0))
        self.assertEqual([path.name for path in self.target.iterdir()], ["consumequeue"])

    def test_an_interrupted_rebuild_leaves_nothing_but_what_the_next_one_removes(self) -> None:
        class Interrupted(InlineTasks):
            def run(self, work: Any, function: Any, progress: Any = None, total: int = 0) -> Any:
                super().run(work, function)
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            reindex(Interrupted(), str(GOLDEN / "master"), str(self.target))
        self.assertEqual(list(self.folder.iterdir()), [])
        (self.folder / "target.reindex" / "spool").mkdir(parents=True)
        self.rebuilt(GOLDEN / "master", self.target)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["target"])


class IndexNameTests(ReindexCase):
    def names(self, *timestamps: int, now: float) -> list[str]:
        """Of files of two items each, for items stored at these times (ms)."""
        items = np.zeros(len(timestamps), ITEM)
        items["timestamp"] = timestamps
        items.tofile(items_path(str(self.folder), 0))
        return [work.name for work in plan_index(str(self.folder), [len(timestamps)], 3, now)]

    def test_an_index_file_is_named_by_its_first_record(self) -> None:
        first, second = 1_700_000_000_123, 1_700_000_050_456
        names = self.names(first, first + 5, second, now=1_800_000_000.0)
        self.assertEqual(names, [local(first / 1000), local(second / 1000)])

    def test_names_rise_and_none_lies_in_the_future(self) -> None:
        now = 1_700_000_000.0
        first, second, third = self.names(*[1 << 60] * 5, now=now)
        self.assertEqual((first, int(second), int(third)), (local(now), int(first) + 1, int(first) + 2))
        self.assertEqual(self.names(-5, now=now), [local(0)])


class DamageTests(ReindexCase):
    def setUp(self) -> None:
        super().setUp()
        self.store = Path(shutil.copytree(GOLDEN / "master", self.folder / "store"))

    def test_damage_in_the_middle_is_refused_with_its_place(self) -> None:
        flip(self.store, 227 + 4)
        with self.assertRaisesRegex(DamagedLogRange, "0000: no valid record from offset 227 to 438"):
            self.rebuilt(self.store, self.target)
        self.assertFalse(self.target.exists())

    def test_behind_damage_entries_stay_those_of_their_offsets(self) -> None:
        flip(self.store, 227 + 4)
        result = self.rebuilt(self.store, self.target, skip_damage=True)
        (bad,) = result.damaged
        self.assertEqual((bad.begin, bad.end, result.records, result.exit_code), (227, 438, 245, 1))
        own = files_of(GOLDEN / "master")["consumequeue/TopicB/1/00000000000000000000"]
        built = files_of(self.target)["consumequeue/TopicB/1/00000000000000000000"]
        self.assertEqual(built[:20], blank_entry(0))
        self.assertEqual(built[20:], own[20:])

    def test_a_broken_checksum_is_the_brokers_business_unless_asked_for(self) -> None:
        flip(self.store, 227 + 88)
        self.assertEqual(self.rebuilt(self.store, self.target).damaged, ())
        with self.assertRaisesRegex(DamagedLogRange, "checksum"):
            self.rebuilt(self.store, self.folder / "other", check_crc=True)

    def test_a_torn_tail_ends_the_rebuild_quietly(self) -> None:
        patch(self.store, GOLDEN_END - 100, bytes(100))
        result = self.rebuilt(self.store, self.target)
        self.assertEqual((result.damaged, result.records, result.end), ((), 245, 111452))


class PlanTests(TestCase):
    def plan(self, *runs: tuple[int, int]) -> list[tuple[int, int, int, int]]:
        """(first, count) of runs to (index, count, run, skip) of ranges; files of 100 entries."""
        found = plan_queue(
            [Run(first, count, n * 100, n * 100 + 50) for n, (first, count) in enumerate(runs)], 2000
        )
        self.refused = found.refused
        return [(each.index, each.count, each.run, each.skip) for each in found.ranges]

    def test_runs_that_follow_one_another_are_placed_so(self) -> None:
        self.assertEqual(self.plan((0, 5), (5, 3)), [(0, 5, 0, 0), (5, 3, 1, 0)])

    def test_a_queue_of_mid_stream_starts_in_the_file_of_its_first_offset(self) -> None:
        self.assertEqual(self.plan((250, 5)), [(200, 50, -1, 0), (250, 5, 0, 0)])
        self.assertEqual(self.plan((200, 5)), [(200, 5, 0, 0)])

    def test_a_gap_is_left_blank_and_a_repetition_passed_over(self) -> None:
        self.assertEqual(self.plan((0, 5), (8, 2)), [(0, 5, 0, 0), (5, 3, -1, 0), (8, 2, 1, 0)])
        self.assertEqual(self.plan((0, 5), (3, 4)), [(0, 5, 0, 0), (5, 2, 1, 2)])
        self.assertEqual(self.refused, 2)
        self.assertEqual(self.plan((0, 5), (3, 1)), [(0, 5, 0, 0)])

    def test_a_jump_too_far_is_a_foreign_record(self) -> None:
        self.assertEqual(self.plan((0, 5), (GAP_LIMIT + 6, 1), (5, 1)), [(0, 5, 0, 0), (5, 1, 2, 0)])
        self.assertEqual(self.refused, 1)

    def test_offset_0_again_is_a_new_queue(self) -> None:
        self.assertEqual(self.plan((0, 5), (5, 1), (0, 2)), [(0, 2, 2, 0)])

    def test_a_negative_offset_has_no_place(self) -> None:
        self.assertEqual(self.plan((-1, 1)), [])
