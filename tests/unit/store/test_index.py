"""The key index: RocketMQ's bytes, chains inside batches, rolling, cutting, and what a crash leaves."""

from __future__ import annotations

import errno
import os
import shutil
from datetime import datetime
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.delaylevel import DEFAULT_DELAY_LEVELS, parse_delay_levels
from hatwisted.logcodec.fewscan import Entry, scan_few
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.errors import StoreFull, WrongFile
from hatwisted.store.index.indexfile import HEADER, ITEM, IndexFile, Item, file_length
from hatwisted.store.index.indexservice import IndexOptions, IndexService
from tests.support.examples import examples
from tests.support.faultyfs import FaultyFileSystem
from tests.support.golden import MASTER
from tests.support.manualworker import ManualWorker

LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
SLOTS, ITEMS = 1000, 4000
NAME_CLOCK = 1_700_000_000.0


def golden_items() -> list[Item]:
    """What the golden log's records put into an index, in log order."""
    entries: list[Entry] = []
    for base in (0, 65536):
        entries += scan_few((MASTER / "commitlog" / f"{base:020d}").read_bytes(), base, LEVELS)[0]
    return [
        (value, entry.physical_offset, entry.store_timestamp)
        for entry in entries
        for value in entry.key_hashes
    ]


def columns(items: list[Item]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    hashes, physical, timestamps = zip(*items, strict=True) if items else ((), (), ())
    return np.array(hashes, np.int32), np.array(physical, np.int64), np.array(timestamps, np.int64)


def service_few(service: IndexService, items: list[Item]) -> int:
    return service.append_few(items)


def service_columns(service: IndexService, items: list[Item]) -> int:
    return service.append(*columns(items))


def small_index(fs: FaultyFileSystem, directory: str, clock: Clock) -> IndexService:
    """Whose first file is soon full.

    - fs, directory: where its files are
    - clock: for its pauses
    """
    options = IndexOptions(slots=7, items=5, local_time=datetime.fromtimestamp)
    return IndexService(fs, directory, clock, options, InlineWorker())


class IndexTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = self.mktemp()
        os.makedirs(self.root)
        self.directory = os.path.join(self.root, "index")
        self.fs = PosixFileSystem()
        self.clock = Clock()
        self.clock.advance(NAME_CLOCK)

    def service(self, slots: int = SLOTS, items: int = ITEMS, worker: object = None) -> IndexService:
        service = IndexService(
            self.fs,
            self.directory,
            self.clock,
            IndexOptions(slots=slots, items=items, local_time=datetime.fromtimestamp),
            InlineWorker() if worker is None else worker,
        )
        service.load()
        self.addCleanup(service.close)
        return service

    def contents(self) -> list[bytes]:
        names = sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else []
        return [Path(self.directory, name).read_bytes() for name in names]

    def assertFiles(self, expected: list[bytes]) -> None:
        """The index files hold exactly these bytes; says where they don't instead of printing them."""
        found = self.contents()
        self.assertEqual(list(map(len, found)), list(map(len, expected)))
        for number, (raw, wanted) in enumerate(zip(found, expected, strict=True)):
            different = [at for at in range(len(raw)) if raw[at] != wanted[at]] if raw != wanted else []
            self.assertEqual(different[:20], [], f"bytes of file {number} that differ")

    def items_of(self, service: IndexService) -> list[tuple[int, int]]:
        """(hash, physical offset) of all items, read back in order."""
        found = []
        for file in service.files:
            raw = Path(file.path).read_bytes()
            at = file_length(service._slots, 0)
            for number in range(1, file.count):
                found.append(ITEM.unpack_from(raw, at + number * ITEM.size)[:2])
        return found


class GoldenTests(IndexTestCase):
    def golden_file(self) -> bytes:
        (path,) = (MASTER / "index").iterdir()
        return path.read_bytes()

    def test_golden_file_from_one_batch(self) -> None:
        self.service().append(*columns(golden_items()))
        self.assertFiles([self.golden_file()])

    def test_golden_file_item_by_item(self) -> None:
        service = self.service()
        for item in golden_items():
            self.assertEqual(service.append_few([item]), 1)
        self.assertFiles([self.golden_file()])

    @examples(8)
    @given(st.lists(st.tuples(st.integers(1, 200), st.booleans()), max_size=15))
    def test_golden_file_from_any_mixture(self, cuts: list[tuple[int, bool]]) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        service, items = self.service(), golden_items()
        for size, few in [*cuts, (len(items), False)]:
            piece, items = items[:size], items[size:]
            if few:
                service.append_few(piece)
            else:
                service.append(*columns(piece))
        self.assertFiles([self.golden_file()])

    def test_golden_file_is_found_sound_and_linked_right(self) -> None:
        shutil.copytree(MASTER / "index", self.directory)
        service = self.service()
        (file,) = service.files
        self.assertEqual((file.count, file.slots_used), (680, 396))
        self.assertEqual(file.sound_count(), 680)
        self.assertFalse(file.relink(680))

    def test_golden_query_walks_the_chain(self) -> None:
        shutil.copytree(MASTER / "index", self.directory)
        service = self.service()
        found = service.query("TopicA", "alt0", 32, 0, 1 << 60)
        expected = [physical for value, physical, _ in golden_items() if value == 641566840]
        self.assertEqual(found, expected[::-1])
        self.assertEqual(service.query("TopicA", "alt0", 2, 0, 1 << 60), expected[:-3:-1])
        self.assertEqual(service.query("TopicA", "nokey", 32, 0, 1 << 60), [])

    def test_query_by_time(self) -> None:
        items = [(77, 100 * number, 10_000 + 700 * number) for number in range(20)]
        service = self.service()
        service.append(*columns(items))
        found = list(service.files[0].query(77, 12_000, 15_000))
        wanted = [physical for _, physical, stored in items if 12_000 <= stored <= 15_000]
        # Stored times are known to the second only: neighbours may come along, none may be missing.
        self.assertEqual([physical for physical in found if physical in wanted], wanted[::-1])
        self.assertLess(len(found), len(wanted) + 5)


def model(items: list[Item], slots: int, capacity: int) -> list[bytes]:
    """Index files by the definition: one item at a time, the way RocketMQ's putKey does it."""
    files: list[bytearray] = []
    header = [0, 0, 0, 0, 0, 1]
    for key_hash, physical, timestamp in items:
        if not files or header[5] >= capacity:
            files.append(bytearray(file_length(slots, capacity)))
            header = [header[1], header[1], header[3], header[3], 0, 1]
        raw, count = files[-1], header[5]
        slot_at = 40 + 4 * (key_hash % slots)
        previous = int.from_bytes(raw[slot_at : slot_at + 4], "big")
        seconds = min(max(timestamp - header[0], 0) // 1000, 0x7FFFFFFF) if header[0] > 0 else 0
        ITEM.pack_into(raw, 40 + 4 * slots + 20 * count, key_hash, physical, seconds, previous)
        raw[slot_at : slot_at + 4] = count.to_bytes(4, "big")
        if count == 1:
            header[0], header[2] = timestamp, physical
        header[1], header[3], header[5] = timestamp, physical, count + 1
        header[4] += not previous
        HEADER.pack_into(raw, 0, *header)
    return [bytes(raw) for raw in files]


hashes = st.one_of(st.integers(0, 40), st.integers(0, 0x7FFFFFFF))
item_lists = st.lists(st.tuples(hashes, st.integers(0, 300), st.integers(-5, 90_000)), max_size=60).map(
    lambda rows: [
        (value, sum(row[1] for row in rows[: number + 1]), 1_000_000 + stored)
        for number, (value, _, stored) in enumerate(rows)
    ]
)


class RollTests(IndexTestCase):
    @examples(20)
    @given(item_lists, st.lists(st.integers(1, 20), max_size=8), st.sampled_from([2, 5, 11]))
    def test_rolling_mid_batch_gives_the_bytes_of_the_definition(
        self, items: list[Item], cuts: list[int], capacity: int
    ) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        service, rest = self.service(7, capacity), items
        for size in [*cuts, len(items)]:
            piece, rest = rest[:size], rest[size:]
            taken = service.append(*columns(piece)) if size % 3 else service.append_few(piece)
            self.assertEqual(taken, len(piece))
        self.assertFiles(model(items, 7, capacity))

    def test_names_rise_even_within_one_millisecond(self) -> None:
        service = self.service(7, 3)
        service.append(*columns([(1, number, 1) for number in range(10)]))
        names = [os.path.basename(file.path) for file in service.files]
        self.assertEqual(names, sorted(set(names)))
        self.assertEqual({len(name) for name in names}, {17})

    def test_item_1_of_the_next_file_counts_seconds_from_the_last_of_the_one_before(self) -> None:
        service = self.service(7, 3)
        service.append(*columns([(1, 0, 5000), (2, 10, 9000), (3, 20, 12_000), (4, 30, 13_000)]))
        first, second = service.files
        raw = Path(second.path).read_bytes()
        at = file_length(7, 0)
        self.assertEqual([ITEM.unpack_from(raw, at + 20 * number)[2] for number in (1, 2)], [3, 1])
        self.assertEqual((second.begin_timestamp, second.begin_physical), (12_000, 20))

    def test_the_next_file_is_made_in_the_worker_and_append_waits_for_it(self) -> None:
        worker = ManualWorker()
        service = self.service(7, 5, worker)
        items = [(number, number, 1) for number in range(10)]
        self.assertEqual(service.append(*columns(items)), 0)
        ready = service.when_ready()
        self.assertNoResult(ready)
        worker.work(len(worker))
        self.successResultOf(ready)
        self.assertEqual(service.append(*columns(items)), 4)
        self.assertNoResult(service.when_ready())
        worker.work(len(worker))
        self.assertEqual(service.append(*columns(items[4:])), 4)

    def test_a_file_made_ahead_stays_out_of_the_folder(self) -> None:
        service = self.service(7, 5)
        service.append(*columns([(number, number, 1) for number in range(4)]))
        self.assertEqual(len(os.listdir(self.directory)), 1)
        self.assertTrue(os.path.exists(self.directory + ".next"))
        service.close()
        self.assertFalse(os.path.exists(self.directory + ".next"))

    def test_no_room_for_the_next_file_fails_who_waits_and_is_tried_again(self) -> None:
        worker = ManualWorker()
        service = self.service(7, 5, worker)
        os.makedirs(self.directory + ".next")
        Path(self.directory + ".next", "in the way").touch()
        service.append(*columns([(1, 1, 1)]))
        ready = service.when_ready()
        worker.work(len(worker))
        self.failureResultOf(ready, OSError)
        shutil.rmtree(self.directory + ".next")
        service.append(*columns([(1, 1, 1)]))
        worker.work(len(worker))
        self.assertEqual(service.append(*columns([(1, 1, 1)])), 1)

    def test_a_worker_that_fails_at_once_is_no_reason_to_try_without_a_pause(self) -> None:
        fs = FaultyFileSystem()
        service = small_index(fs, self.directory, self.clock)
        fs.fail("reserve", error=errno.ENOSPC)
        self.assertEqual(service.append_few([(1, 1, 1)]), 0)
        self.failureResultOf(service.when_ready(), StoreFull)
        self.assertEqual(service.append_few([(1, 1, 1)]), 1)

    def test_full_disk_is_store_full_and_leaves_nothing_behind(self) -> None:
        def no_space(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        worker = ManualWorker()
        service = self.service(7, 5, worker)
        patch = self.patch(os, "posix_fallocate", no_space)
        self.assertEqual(service.append_few([(1, 1, 1)]), 0)
        ready = service.when_ready()
        worker.work(len(worker))
        self.failureResultOf(ready, StoreFull)
        self.assertFalse(os.path.exists(self.directory + ".next"))
        patch.restore()
        service.append_few([(1, 1, 1)])
        worker.work(len(worker))
        self.assertEqual(service.append_few([(1, 1, 1)]), 1)


class CutTests(IndexTestCase):
    def filled(self, count: int = 30, capacity: int = 12) -> tuple[IndexService, list[Item]]:
        items = [
            (number * 31 % 17 + 1, number // 2 * 100, 1_000_000 + 10 * number) for number in range(count)
        ]
        service = self.service(7, capacity)
        service.append(*columns(items))
        return service, items

    def test_stale_index_items_past_the_end_are_cut(self) -> None:
        for end in (0, 100, 450, 500, 600, 1100, 1400, 5000):
            shutil.rmtree(self.directory, ignore_errors=True)
            service, items = self.filled()
            kept = [item for item in items if item[1] < end]
            self.assertEqual(service.truncate(end), len(items) - len(kept))
            self.assertEqual(self.items_of(service), [item[:2] for item in kept])
            self.assertEqual(service.end_physical, kept[-1][1] if kept else -1)
            service.close()

    def test_stale_index_items_past_the_end_do_not_keep_new_records_out(self) -> None:
        service, items = self.filled()
        service.truncate(500)
        kept = [item for item in items if item[1] < 500]
        new = [(item[0] + 1, item[1], item[2] + 60_000) for item in items if item[1] >= 500]
        _, physical, timestamps = columns(new)
        self.assertEqual(service.resume(physical, timestamps), 0)
        service.append(*columns(new))
        self.assertFiles(model(kept + new, 7, 12))

    def test_dispatching_again_after_a_cut_gives_the_same_bytes(self) -> None:
        service, items = self.filled()
        service.truncate(500)
        rest = [item for item in items if item[1] >= 300]
        _, physical, timestamps = columns(rest)
        known = service.resume(physical, timestamps)
        self.assertEqual(known, len([item for item in items if 300 <= item[1] < 500]))
        service.append(*columns(rest[known:]))
        self.assertFiles(model(items, 7, 12))

    def test_a_record_half_indexed_gets_its_other_half(self) -> None:
        items = [(1, 0, 10), (2, 100, 20), (3, 100, 20), (4, 100, 20), (5, 200, 30)]
        for taken in range(1, 5):
            shutil.rmtree(self.directory, ignore_errors=True)
            service = self.service(7, 3)
            service.append(*columns(items[:taken]))
            service.close()
            again = self.service(7, 3)
            _, physical, timestamps = columns(items)
            self.assertEqual(again.resume(physical, timestamps), taken)
            again.append(*columns(items[taken:]))
            again.close()
            self.assertFiles(model(items, 7, 3))

    def test_expire_removes_old_files_but_never_the_last(self) -> None:
        service, _ = self.filled()
        for begin, left in ((500, 3), (501, 2), (1 << 60, 1)):
            self.successResultOf(service.expire(begin))
            self.assertEqual((len(service.files), len(os.listdir(self.directory))), (left, left))


class RepairTests(IndexTestCase):
    def killed(self, items: list[Item], capacity: int = 100) -> Path:
        service = self.service(7, capacity)
        service.append(*columns(items))
        path = Path(service.files[-1].path)
        service.close()
        return path

    ITEMS = [(number * 31 % 17 + 1, number // 2 * 100, 1_000_000 + 10 * number) for number in range(60)]

    def repaired(self, trusted: int = 0, capacity: int = 100) -> IndexService:
        service = self.service(7, capacity)
        service.repair(trusted)
        return service

    def offer_all(self, service: IndexService, capacity: int = 100) -> None:
        _, physical, timestamps = columns(self.ITEMS)
        service.append(*columns(self.ITEMS[service.resume(physical, timestamps) :]))
        self.assertFiles(model(self.ITEMS, 7, capacity))

    def test_untouched_file_stays_as_it_is(self) -> None:
        self.killed(self.ITEMS)
        service = self.repaired()
        self.assertFiles(model(self.ITEMS, 7, 100))
        self.offer_all(service)

    def test_lost_page_of_items(self) -> None:
        path = self.killed(self.ITEMS)
        raw = bytearray(path.read_bytes())
        at = file_length(7, 20)
        raw[at : at + 200] = bytes(200)
        path.write_bytes(raw)
        service = self.repaired()
        self.assertEqual(service.files[-1].count, 20)
        self.offer_all(service)

    def test_lost_header(self) -> None:
        path = self.killed(self.ITEMS)
        raw = path.read_bytes()
        path.write_bytes(bytes(40) + raw[40:])
        service = self.repaired()
        self.assertEqual(service.end_physical, -1)
        self.offer_all(service)

    def test_killed_between_slots_and_header(self) -> None:
        path = self.killed(self.ITEMS[:30])
        header = path.read_bytes()[:40]
        service = self.service(7, 100)
        service.append(*columns(self.ITEMS[30:]))
        service.close()
        path.write_bytes(header + path.read_bytes()[40:])
        self.offer_all(self.repaired())

    def test_lost_slots(self) -> None:
        path = self.killed(self.ITEMS)
        raw = path.read_bytes()
        path.write_bytes(raw[:40] + bytes(28) + raw[68:])
        self.repaired().close()
        self.assertFiles(model(self.ITEMS, 7, 100))

    def test_damaged_links(self) -> None:
        path = self.killed(self.ITEMS)
        raw = bytearray(path.read_bytes())
        for item in (3, 40):
            at = file_length(7, item) + 16
            raw[at : at + 4] = (item - 1).to_bytes(4, "big")
        path.write_bytes(raw)
        self.repaired().close()
        self.assertFiles(model(self.ITEMS, 7, 100))

    def test_a_header_that_claims_more_than_its_items(self) -> None:
        path = self.killed(self.ITEMS)
        file = IndexFile(self.fs.open(str(path)), str(path), 7, 100)
        self.addCleanup(file.close)
        file.end_physical = 1 << 40
        self.assertEqual(file.count_below(1 << 30), len(self.ITEMS) + 1)

    def test_files_behind_a_damaged_one_are_built_again(self) -> None:
        self.killed(self.ITEMS, 20)
        first = sorted(Path(self.directory).iterdir())[0]
        raw = bytearray(first.read_bytes())
        raw[file_length(7, 10) : file_length(7, 14)] = bytes(80)
        first.write_bytes(raw)
        service = self.repaired(capacity=20)
        self.assertEqual(len(service.files), 1)
        self.offer_all(service, 20)

    def test_full_files_known_to_be_on_disk_are_trusted(self) -> None:
        self.killed(self.ITEMS, 20)
        first = sorted(Path(self.directory).iterdir())[0]
        raw = first.read_bytes()
        first.write_bytes(raw[:40] + bytes(28) + raw[68:])
        service = self.repaired(trusted=1_000_000 + 10 * 18, capacity=20)
        self.assertEqual(len(service.files), 4)
        self.assertEqual(first.read_bytes()[40:68], bytes(28))

    def test_a_damaged_link_ends_the_chain(self) -> None:
        items = [(3, number, 1000) for number in range(10)]
        path = self.killed(items)
        raw = bytearray(path.read_bytes())
        at = file_length(7, 5) + 16
        raw[at : at + 4] = (9).to_bytes(4, "big")
        path.write_bytes(raw)
        file = IndexFile(self.fs.open(str(path)), str(path), 7, 100)
        self.addCleanup(file.close)
        self.assertEqual(list(file.query(3, 0, 1 << 60)), [9, 8, 7, 6, 5, 4])


class LoadTests(IndexTestCase):
    def test_other_numbers_of_slots_or_items_are_refused_with_what_to_do(self) -> None:
        self.service(7, 100).append_few([(1, 1, 1)])
        with self.assertRaisesRegex(WrongFile, "maxHashSlotNum"):
            self.service(8, 100)

    def test_foreign_name_is_refused(self) -> None:
        os.makedirs(self.directory)
        Path(self.directory, "notes.txt").touch()
        with self.assertRaisesRegex(WrongFile, "notes.txt"):
            self.service()

    def test_left_over_file_made_ahead_is_removed(self) -> None:
        Path(self.directory + ".next").touch()
        self.service()
        self.assertFalse(os.path.exists(self.directory + ".next"))

    def test_a_sparse_file_gets_its_blocks_before_the_first_write(self) -> None:
        """RocketMQ's index files have holes; writing into one on a full disk would be a SIGBUS."""
        service = self.service(7, 5)
        service.append_few([(1, 1, 1)])
        path = Path(service.files[0].path)
        service.close()
        raw = path.read_bytes()
        fs = FaultyFileSystem()
        for offer in (service_few, service_columns):
            path.write_bytes(raw)
            full = fs.fail("reserve", error=errno.ENOSPC, path=path.name, times=None)
            service = small_index(fs, self.directory, self.clock)
            service.load()
            self.assertRaises(StoreFull, offer, service, [(2, 2, 2)])
            service.repair(0)
            self.assertRaises(StoreFull, service.truncate, 0)
            self.assertEqual(path.read_bytes(), raw)
            full.lift()
            self.assertEqual(offer(service, [(2, 2, 2)]), 1)
            self.assertEqual(offer(service, [(3, 3, 3)]), 1)
            self.assertEqual(fs.count("reserve", path.name), 4)
            fs = FaultyFileSystem()
            service.close()

    def test_a_flush_that_fails_is_reported_and_made_up_for_and_only_the_disks_errors_are(self) -> None:
        fs = FaultyFileSystem()
        self.fs = fs
        service = self.service(7, 3)
        service.append(*columns([(1, 0, 10), (1, 1, 20), (1, 2, 30)]))
        fs.fail("datasync", path="index")
        with capturedLogs() as events:
            self.successResultOf(service.flush())
        self.assertEqual([each["error"].errno for each in events], [errno.EIO])
        counts = [fs.count("datasync", "index")]
        for _ in range(2):
            self.successResultOf(service.flush())
            counts.append(fs.count("datasync", "index") - counts[0])
        self.assertEqual(counts[1:], [1, 1], "tried again, and then there's nothing to do")
        self.patch(service, "datasync", lambda: 1 // 0)
        self.failureResultOf(service.flush(), ZeroDivisionError)

    def test_a_file_is_on_the_disk_once_its_name_is(self) -> None:
        fs = FaultyFileSystem()
        self.fs = fs
        service = self.service(7, 3)
        fs.fail("sync_folder", path="/index", times=2)
        with capturedLogs():
            service.append(*columns([(1, 0, 10), (1, 1, 20), (1, 2, 30)]))
            self.successResultOf(service.flush())
        self.assertEqual((service.checkpoint_timestamp, service.filled), (0, -1))
        synced = fs.count("sync_folder", "/index")
        for _ in range(2):
            self.successResultOf(service.flush())
            self.assertEqual((service.checkpoint_timestamp, service.filled), (20, 1))
        self.assertEqual(fs.count("sync_folder", "/index") - synced, 1, "tried again, and then it's done")

    def test_flush_tells_the_checkpoint_about_full_files_only(self) -> None:
        service = self.service(7, 3)
        service.append(*columns([(1, 0, 10)]))
        service.flush()
        self.assertEqual(service.checkpoint_timestamp, 0)
        service.append(*columns([(1, 1, 20), (1, 2, 30)]))
        service.flush()
        self.assertEqual(service.checkpoint_timestamp, 20)
