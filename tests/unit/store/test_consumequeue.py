"""Consume queues: entries where their queue offset says, bounds, recovery, cuts that leave nothing stale."""

from __future__ import annotations

import errno
import os
import shutil
import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.kernel.limits import QUEUE_TAIL
from hatwisted.logcodec.queueentry import ENTRY_SIZE, blank_entry, count_in_use
from hatwisted.store.errors import StoreError, StoreFull, WrongFile
from hatwisted.store.queue import consumequeue
from hatwisted.store.queue.consumequeue import READ_AT_ONCE, ConsumeQueue
from hatwisted.store.queue.queuescan import SCAN_CHUNK
from hatwisted.store.queue.queuetable import SYNC_ALL_FROM, ConsumeQueueTable
from hatwisted.wire.layout import QUEUE_ENTRY, file_name
from tests.support.examples import examples
from tests.support.faultyfs import FaultyFileSystem
from tests.support.golden import MASTER

GOLDEN_QUEUES, GOLDEN_FILE_SIZE = MASTER / "consumequeue", 2000
PER_FILE = 5
FILE_SIZE = PER_FILE * ENTRY_SIZE
BLANK = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)


def entry(physical: int, size: int = 10, tags: int = 7) -> bytes:
    return struct.pack(">qiq", physical, size, tags)


def entries(first: int, count: int) -> bytes:
    """Records of 10 bytes at 10 * i, back to back."""
    return b"".join(entry(10 * number) for number in range(first, first + count))


class QueueCase(SynchronousTestCase):
    """A table of queues with five entries to a file; `queue` is T/3."""

    def setUp(self) -> None:
        self.fs = FaultyFileSystem()
        self.root = os.path.abspath(self.mktemp())
        self.table = self.open_table()
        self.queue = self.table.get("T", 3)

    def open_table(self, **options: bool) -> ConsumeQueueTable:
        table = ConsumeQueueTable(self.fs, self.root, FILE_SIZE, **options)
        self.addCleanup(table.close)
        return table

    def reopened(self, **options: bool) -> ConsumeQueue:
        self.table.close()
        self.table = self.open_table(**options)
        self.table.load_all()
        self.table.recover()
        queue = self.table.find("T", 3)
        assert queue is not None
        self.queue = queue
        return queue

    def folder(self) -> str:
        return os.path.join(self.root, "T", "3")

    def names(self) -> list[int]:
        return [int(name) for name in self.fs.listdir(self.folder())]

    def sync(self) -> None:
        self.table.write_out()
        self.table.datasync()

    def stored(self) -> bytes:
        self.table.write_out()
        return b"".join(
            self.fs.read(os.path.join(self.folder(), name)) for name in self.fs.listdir(self.folder())
        )

    def overwrite(self, index: int, data: bytes) -> None:
        self.table.write_out()
        start = index // PER_FILE * FILE_SIZE
        with open(os.path.join(self.folder(), file_name(start)), "r+b") as file:
            file.seek(index * ENTRY_SIZE - start)
            file.write(data)

    def bounds(self) -> tuple[int, int, int]:
        return self.queue.min_offset, self.queue.max_offset, self.queue.max_physical


class AppendTests(QueueCase):
    def test_B93_entries_lie_at_their_queue_offset(self) -> None:
        self.queue.append(0, entry(0))
        self.queue.append(1, entries(1, 2))
        self.assertEqual(self.bounds(), (0, 3, 30))
        self.assertEqual(self.stored(), entries(0, 3) + bytes(FILE_SIZE - 60))
        self.assertEqual(self.queue.read(1, 9), entries(1, 2))

    def test_appends_gather_and_are_one_write(self) -> None:
        self.queue.append(0, entry(0))
        self.fs.calls.clear()
        self.queue.append(1, entries(1, 2))
        self.queue.append(3, entries(3, 1))
        self.assertEqual((self.fs.calls, self.table.tails), ([], 1))
        self.assertEqual(self.queue.read(0, 9), entries(0, 4))
        self.assertEqual(self.queue.read(2, 9), entries(2, 2))
        self.table.write_out()
        self.assertEqual((self.fs.count("pwrite"), self.table.tails), (1, 0))
        self.assertEqual(self.queue.read(0, 9), entries(0, 4))

    def test_entries_that_wait_in_memory_are_limited(self) -> None:
        table = ConsumeQueueTable(self.fs, self.root, 100 * QUEUE_TAIL)
        self.addCleanup(table.close)
        queue = table.get("T", 3)
        for index in range(QUEUE_TAIL // ENTRY_SIZE + 2):
            queue.append(index, entry(index))
        self.assertGreaterEqual(self.fs.count("pwrite"), 2)

    def test_nothing_is_lost_or_taken_while_the_disk_is_full(self) -> None:
        table = ConsumeQueueTable(self.fs, self.root, 100 * QUEUE_TAIL)
        self.addCleanup(table.close)
        queue = table.get("T", 3)
        queue.append(0, entries(0, 1))
        fitting = QUEUE_TAIL // ENTRY_SIZE
        queue.append(1, entries(1, fitting))
        self.fs.fail("pwrite", error=errno.ENOSPC, times=2)
        self.assertRaises(StoreFull, table.write_out)
        self.assertRaises(StoreFull, queue.append, fitting + 1, entries(fitting + 1, 1))
        self.assertEqual((queue.max_offset, table.tails), (fitting + 1, 1))
        queue.append(fitting + 1, entries(fitting + 1, 1))
        table.write_out()
        self.assertEqual(queue.read(0, 999), entries(0, fitting + 2))

    def test_an_append_may_cross_files(self) -> None:
        self.queue.append(0, entries(0, 12))
        self.assertEqual(self.names(), [0, FILE_SIZE, 2 * FILE_SIZE])
        self.assertEqual(self.queue.read(0, 99), entries(0, 12))
        self.assertEqual(self.queue.read(4, 7), entries(4, 7))

    def test_a_queue_has_no_folder_before_its_first_entry(self) -> None:
        self.queue.append(0, b"")
        self.assertFalse(os.path.exists(self.root))
        self.queue.append(0, entry(0))
        self.assertEqual(self.names(), [0])

    def test_reads_outside_of_the_queue_are_empty(self) -> None:
        self.queue.append(7, entries(7, 2))
        self.assertEqual([self.queue.read(index, 9) for index in (0, 6, 9, 100)], [b""] * 4)
        self.assertEqual(self.queue.read(7, 0), b"")

    def test_a_queue_may_begin_in_mid_stream_with_blank_entries(self) -> None:
        self.queue.append(8, entries(8, 1))
        self.assertEqual(self.names(), [FILE_SIZE])
        self.assertEqual(self.stored(), BLANK * 3 + entries(8, 1) + bytes(20))
        self.assertEqual(self.bounds(), (8, 9, 90))

    def test_a_queue_may_begin_in_mid_stream_where_a_file_does(self) -> None:
        self.queue.append(10, entries(10, 1))
        self.assertEqual((self.names(), self.bounds()), ([2 * FILE_SIZE], (10, 11, 110)))
        self.assertEqual(self.queue.read(0, 1), b"")

    def test_repeated_entries_are_passed_over(self) -> None:
        self.queue.append(0, entries(0, 4))
        self.queue.append(0, entries(0, 2))
        self.queue.append(2, entries(2, 4))
        self.assertEqual(self.queue.read(0, 99), entries(0, 6))

    def test_missing_records_leave_their_indexes_blank(self) -> None:
        self.queue.append(0, entries(0, 2))
        self.queue.append(7, entries(7, 1))
        self.assertEqual(self.queue.read(0, 99), entries(0, 2) + blank_entry(20) * 5 + entries(7, 1))
        self.assertEqual(self.bounds(), (0, 8, 80))
        self.reopened()
        self.assertEqual(self.bounds(), (0, 8, 80))

    def test_a_gap_too_wide_is_refused(self) -> None:
        self.patch(consumequeue, "GAP_LIMIT", 10)
        self.queue.append(0, entries(0, 2))
        error = self.assertRaises(StoreError, self.queue.append, 13, entry(900))
        self.assertIn("T/3 ends at index 2", str(error))
        self.assertEqual(self.bounds(), (0, 2, 20))
        self.queue.append(12, entry(900))

    def test_a_queue_with_nothing_live_may_go_on_anywhere(self) -> None:
        self.patch(consumequeue, "GAP_LIMIT", 10)
        self.queue.append(0, entries(0, 2))
        self.table.expire(20)
        self.queue.append(102, entry(900))
        self.assertEqual(self.bounds(), (102, 103, 910))
        self.assertEqual(self.names(), [20 * FILE_SIZE])

    def test_a_full_disk_changes_nothing_and_the_append_can_be_repeated(self) -> None:
        self.queue.append(0, entries(0, 3))
        for operation, stored in (("pwrite", 3), ("extend", 5), ("open", 5)):
            fault = self.fs.fail(operation, error=errno.ENOSPC, times=None)
            self.assertRaises(StoreFull, self.queue.append, 3, entries(3, 5))
            self.assertEqual(self.bounds(), (0, stored, 10 * stored))
            fault.lift()
        self.queue.append(3, entries(3, 5))
        self.assertEqual(self.queue.read(0, 99), entries(0, 8))

    def test_a_full_disk_while_beginning_in_mid_stream(self) -> None:
        self.fs.fail("pwrite", error=errno.ENOSPC)
        self.assertRaises(StoreFull, self.queue.append, 8, entries(8, 1))
        self.queue.append(8, entries(8, 1))
        self.assertEqual(self.bounds(), (8, 9, 90))
        self.assertEqual(self.stored(), BLANK * 3 + entries(8, 1) + bytes(20))


class GoldenTests(SynchronousTestCase):
    """Queues that RocketMQ 4.9.7 wrote."""

    def setUp(self) -> None:
        self.root = os.path.abspath(self.mktemp())
        shutil.copytree(GOLDEN_QUEUES, self.root)
        self.table = ConsumeQueueTable(FaultyFileSystem(), self.root, GOLDEN_FILE_SIZE)
        self.addCleanup(self.table.close)
        self.table.load_all()
        self.table.recover()

    def raw(self, queue: ConsumeQueue) -> bytes:
        folder = os.path.join(self.root, queue.topic, str(queue.queue_id))
        return b"".join(open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder)))

    def test_B93_every_queue_loads_and_reads_as_stored(self) -> None:
        self.assertEqual(len(self.table), len(list(GOLDEN_QUEUES.glob("*/*"))))
        for queue in self.table:
            stored = self.raw(queue)
            end = queue.max_offset * ENTRY_SIZE
            self.assertEqual(queue.read(0, 1000), stored[:end])
            self.assertFalse(any(stored[end:]))
            self.assertGreater(end, 0)

    def test_the_entries_the_specification_shows(self) -> None:
        b1, delay = self.table.find("TopicB", 1), self.table.find("SCHEDULE_TOPIC_XXXX", 0)
        assert b1 is not None and delay is not None
        self.assertEqual(b1.read(0, 1).hex(), "00000000000000e3000000d3000000000027a7f7")
        self.assertEqual(delay.read(0, 1).hex(), "00000000000189af0000010e000001a1fb859307")
        self.assertEqual(self.table.max_physical, 0x1B461)

    def test_B93_entries_appended_again_give_the_same_files(self) -> None:
        root = os.path.abspath(self.mktemp())
        again = ConsumeQueueTable(FaultyFileSystem(), root, GOLDEN_FILE_SIZE)
        self.addCleanup(again.close)
        for queue in self.table:
            for index in range(0, queue.max_offset, 7):
                again.get(queue.topic, queue.queue_id).append(index, queue.read(index, 7))
        self.assertEqual(again.offsets(), self.table.offsets())
        again.write_out()
        for queue in self.table:
            for name in os.listdir(os.path.join(self.root, queue.topic, str(queue.queue_id))):
                path = os.path.join(queue.topic, str(queue.queue_id), name)
                with (
                    open(os.path.join(root, path), "rb") as ours,
                    open(os.path.join(GOLDEN_QUEUES, path), "rb") as theirs,
                ):
                    self.assertEqual(ours.read(), theirs.read(), path)


class RecoverTests(QueueCase):
    def test_an_empty_table_and_a_queue_without_files(self) -> None:
        os.makedirs(self.folder())
        self.assertEqual(self.reopened().max_offset, 0)
        self.assertEqual(self.bounds(), (0, 0, 0))

    def test_the_end_is_found_wherever_it_is(self) -> None:
        for count in range(1, 3 * PER_FILE + 2):
            self.queue.append(count - 1, entries(count - 1, 1))
            self.reopened()
            self.assertEqual(self.bounds(), (0, count, 10 * count))
        self.assertEqual(self.queue.read(0, 99), entries(0, 16))

    def test_a_queue_that_began_in_mid_stream(self) -> None:
        self.queue.append(8, entries(8, 4))
        self.reopened()
        self.assertEqual(self.bounds(), (8, 12, 120))
        self.queue.append(12, entries(12, 1))
        self.assertEqual(self.queue.read(8, 99), entries(8, 5))

    def test_killed_after_the_blank_entries(self) -> None:
        self.queue.append(8, entries(8, 1))
        self.overwrite(8, bytes(20))
        self.reopened()
        self.assertEqual(self.bounds(), (8, 8, 0))
        self.queue.append(9, entries(9, 1))
        self.assertEqual(self.stored(), BLANK * 4 + entries(9, 1))
        self.assertEqual(self.bounds(), (9, 10, 100))

    def test_an_entry_not_in_use_ends_the_queue_and_files_behind_it_go(self) -> None:
        for bad in (bytes(20), entry(50, 0), entry(-1), entry(50, -5), b"\x7f" * 20):
            self.queue.append(
                self.queue.max_offset, entries(self.queue.max_offset, 14 - self.queue.max_offset)
            )
            self.overwrite(6, bad)
            self.reopened()
            self.assertEqual((self.bounds(), self.names()), ((0, 6, 60), [0, FILE_SIZE]))
            self.assertEqual(self.stored()[6 * ENTRY_SIZE :], bytes(4 * ENTRY_SIZE))

    def test_only_the_last_three_files_are_scanned(self) -> None:
        self.queue.append(0, entries(0, 4 * PER_FILE))
        self.overwrite(3, bytes(20))
        self.reopened()
        self.assertEqual(self.queue.max_offset, 4 * PER_FILE)
        self.overwrite(PER_FILE, bytes(20))
        self.reopened()
        self.assertEqual(self.queue.max_offset, PER_FILE)

    def test_stale_entries_that_another_broker_left_are_no_entries(self) -> None:
        # Cut at log offset 20 by moving the write position only, then new records written over one of three.
        self.queue.append(0, entries(0, 5))
        self.overwrite(2, entry(20, 25))
        self.reopened()
        self.assertEqual(self.bounds(), (0, 3, 45))
        self.assertEqual(self.stored(), entries(0, 2) + entry(20, 25) + bytes(40))

    def test_read_only_changes_nothing(self) -> None:
        self.queue.append(0, entries(0, 12))
        self.overwrite(6, bytes(20))
        before = self.stored()
        self.assertEqual(self.reopened(read_only=True).max_offset, 6)
        self.assertEqual(self.stored(), before)

    def test_after_recovery_everything_scanned_is_synced_again(self) -> None:
        self.queue.append(0, entries(0, 4 * PER_FILE))
        self.sync()
        self.reopened()
        self.fs.calls.clear()
        self.sync()
        self.assertEqual(self.fs.count("datasync"), 3)

    def test_a_file_of_another_length_is_refused(self) -> None:
        self.queue.append(0, entry(0))
        os.truncate(os.path.join(self.folder(), file_name(0)), 50)
        self.table = self.open_table()
        self.assertRaises(WrongFile, self.table.load_all)


class TruncateTests(QueueCase):
    def test_nothing_to_cut(self) -> None:
        self.queue.append(0, entries(0, 3))
        self.fs.calls.clear()
        self.table.truncate(30)
        self.assertEqual((self.bounds(), self.fs.calls), ((0, 3, 30), []))

    def test_entries_beyond_the_logs_end_are_cut_and_zeroed(self) -> None:
        for end, left in [(119, 11), (110, 11), (100, 10), (55, 5), (50, 5), (11, 1)]:
            self.queue.append(
                self.queue.max_offset, entries(self.queue.max_offset, 12 - self.queue.max_offset)
            )
            self.table.truncate(end)
            self.assertEqual(self.bounds(), (0, left, 10 * left), end)
            self.assertFalse(any(self.stored()[left * ENTRY_SIZE :]), end)
            self.reopened()
            self.assertEqual(self.bounds(), (0, left, 10 * left), end)

    def test_cut_to_nothing_at_the_start_the_files_go(self) -> None:
        self.queue.append(0, entries(0, 12))
        self.table.truncate(5)
        self.assertEqual((self.bounds(), self.names()), ((0, 0, 0), []))
        self.queue.append(0, entries(0, 1))
        self.assertEqual(self.bounds(), (0, 1, 10))

    def test_cut_to_nothing_in_mid_stream_the_index_stays(self) -> None:
        for first, names in [(8, [FILE_SIZE]), (10, [2 * FILE_SIZE])]:
            self.queue.append(first, entries(first, 9))
            self.table.truncate(10 * first)
            self.assertEqual((self.bounds(), self.names()), ((first, first, 0), names))
            self.reopened()
            self.assertEqual(self.bounds(), (first, first, 0))
            self.queue.append(first, entries(first, 1))
            self.assertEqual(self.bounds(), (first, first + 1, 10 * first + 10))
            self.queue.destroy()

    def test_a_gap_does_not_lead_the_search_astray(self) -> None:
        self.queue.append(0, entries(0, 2))
        self.queue.append(9, entries(9, 3))
        self.table.truncate(100)
        self.assertEqual(self.bounds(), (0, 10, 100))
        self.table.truncate(20)
        self.assertEqual(self.bounds(), (0, 9, 20))

    def test_in_a_long_queue_the_search_begins_with_halves(self) -> None:
        count = 3 * READ_AT_ONCE
        self.queue.append(0, entries(0, count))
        for end in (10 * count - 1, 7 * count, 11 * READ_AT_ONCE, 9 * READ_AT_ONCE, 10):
            self.table.truncate(end)
            self.assertEqual(self.bounds(), (0, end // 10, end // 10 * 10), end)

    def test_no_log_no_queues(self) -> None:
        self.queue.append(0, entries(0, 7))
        self.table.destroy()
        self.assertEqual((self.bounds(), self.names()), ((0, 0, 0), []))


class ExpireTests(QueueCase):
    def test_min_offset_is_the_first_entry_at_or_above_the_logs_begin(self) -> None:
        self.queue.append(0, entries(0, 12))
        for begin, first, names in [
            (0, 0, 3),
            (10, 1, 3),
            (41, 5, 2),
            (50, 5, 2),
            (51, 6, 2),
            (119, 12, 1),
            (1000, 12, 1),
        ]:
            self.table.expire(begin)
            self.assertEqual((self.queue.min_offset, len(self.names())), (first, names), begin)
        self.assertEqual(self.queue.read(10, 5), b"")
        self.queue.append(12, entries(200, 1))
        self.assertEqual(self.bounds(), (12, 13, 2010))

    def test_blank_entries_are_never_live(self) -> None:
        self.queue.append(8, entries(8, 1))
        self.table.expire(0)
        self.assertEqual(self.queue.min_offset, 8)
        self.reopened()
        self.table.expire(0)
        self.assertEqual(self.queue.min_offset, 8)

    def test_paths_are_given_oldest_first_and_files_stay_until_removed(self) -> None:
        self.queue.append(0, entries(0, 12))
        paths = self.queue.expire(100)
        self.assertEqual([os.path.basename(path) for path in paths], [file_name(0), file_name(FILE_SIZE)])
        self.assertEqual(len(self.names()), 3)

    def test_a_full_last_file_stays(self) -> None:
        self.queue.append(0, entries(0, 2 * PER_FILE))
        self.table.expire(1000)
        self.assertEqual((self.names(), self.queue.min_offset), ([FILE_SIZE], 10))
        self.reopened()
        self.assertEqual((self.queue.min_offset, self.queue.max_offset), (5, 10))


class GarbageTests(QueueCase):
    """What no broker writes, found at a start."""

    def test_an_entry_from_nowhere_at_the_end_of_an_older_file(self) -> None:
        for physical, size in ((1 << 63) - 1, 100), (-(1 << 63), -1), (-1, -1):
            self.queue.append(0, entries(0, 4 * PER_FILE))
            self.overwrite(PER_FILE - 1, QUEUE_ENTRY.pack(physical, size, 0))
            for start in range(FILE_SIZE, 4 * FILE_SIZE, FILE_SIZE):
                self.overwrite(start // ENTRY_SIZE, bytes(FILE_SIZE))
            self.reopened()
            self.table.truncate(1000)
            self.assertLessEqual(self.queue.max_physical, 1000)
            self.table.destroy()

    def test_a_folder_with_a_number_that_is_no_queue_id(self) -> None:
        for folder in (self.root + "/T", self.root + ".deleted"):
            for name in (str(1 << 31), str(1 << 63), f"T@{1 << 31}@100", f"T@{1 << 63}@100"):
                os.makedirs(os.path.join(folder, name))
        self.table.load_all()
        self.table.recover()
        self.assertEqual([queue.queue_id for queue in self.table.with_deleted], [3])
        self.assertRaises(StoreError, self.table.get, "T", 1 << 31)


class TableTests(QueueCase):
    def test_asking_makes_no_queue(self) -> None:
        self.assertIsNone(self.table.find("other", 0))
        self.assertIs(self.table.get("T", 3), self.queue)
        self.assertEqual(len(self.table), 1)

    def test_offsets_and_the_highest_end(self) -> None:
        self.queue.append(0, entries(0, 3))
        self.table.get("U", 0).append(4, entries(4, 2))
        self.assertEqual(self.table.offsets(), {("T", 3): 3, ("U", 0): 6})
        self.assertEqual(self.table.max_physical, 60)

    def test_topics_that_would_leave_the_folder_are_refused(self) -> None:
        for topic in ("", ".", "..", "../x", "a/b", "/etc", "nul\0"):
            self.assertRaises(StoreError, self.table.get, topic, 0)
        self.assertRaises(StoreError, self.table.get, "T", -1)
        self.table.get("%RETRY%group@x", 0).append(0, entry(0))
        self.assertEqual(self.fs.listdir(self.root), ["%RETRY%group@x"])

    def test_other_names_in_the_folder_are_passed_over(self) -> None:
        self.queue.append(0, entries(0, 1))
        for name in ("T/x", "T/07", "T/-1"):
            os.makedirs(os.path.join(self.root, name))
        with open(os.path.join(self.root, "stray"), "wb"):
            pass
        self.reopened()
        self.assertEqual(self.table.offsets(), {("T", 3): 1})

    def test_the_file_size_is_rounded_up_to_whole_entries(self) -> None:
        table = ConsumeQueueTable(self.fs, self.root, 81)
        self.addCleanup(table.close)
        table.get("T", 0).append(0, entries(0, 6))
        self.assertEqual(self.fs.size(os.path.join(self.root, "T", "0", file_name(100))), 100)

    def test_thousands_of_queues_share_a_few_descriptors(self) -> None:
        table = ConsumeQueueTable(self.fs, self.root, FILE_SIZE, open_files=8)
        self.addCleanup(table.close)
        for round_ in range(2):
            for queue_id in range(300):
                table.get("many", queue_id).append(round_, entries(round_, 1))
        self.assertLessEqual(len(table._open), 8)
        table.datasync()
        self.assertEqual({queue.read(0, 9) for queue in table}, {entries(0, 2)})

    def test_only_queues_with_something_new_are_synced(self) -> None:
        self.queue.append(0, entries(0, 3))
        self.table.get("U", 0).append(0, entries(0, 2))
        self.sync()
        self.fs.calls.clear()
        self.sync()
        self.assertEqual(self.fs.calls, [])
        self.queue.append(3, entries(3, 1))
        self.sync()
        self.assertEqual(self.fs.count("datasync", "T/3"), 1)
        self.assertEqual(self.fs.count("datasync"), 1)

    def test_many_queues_are_synced_in_one_go_which_is_made_up_for_if_it_fails(self) -> None:
        for queue_id in range(SYNC_ALL_FROM + 1):
            self.table.get("many", queue_id).append(0, entries(0, 1))
        self.fs.fail("sync_all", error=errno.EIO)
        self.assertRaises(OSError, self.sync)
        self.sync()
        self.assertEqual((self.fs.count("sync_all"), self.fs.count("datasync")), (2, 0))
        self.fs.calls.clear()
        self.table.get("many", 0).append(1, entries(1, 1))
        self.sync()
        self.assertEqual((self.fs.count("sync_all"), self.fs.count("sync_folder")), (0, 0))
        self.assertEqual(self.fs.count("datasync", "many/0"), 1)

    def test_a_failed_sync_is_made_up_for(self) -> None:
        self.queue.append(0, entries(0, 3))
        self.fs.fail("datasync")
        self.assertRaises(OSError, self.sync)
        self.fs.calls.clear()
        self.sync()
        self.assertEqual(self.fs.count("datasync"), 1)


class EntryScanTests(SynchronousTestCase):
    """count_in_use against its own definition, one entry at a time."""

    def one_by_one(self, chunk: bytes, floor: int) -> tuple[int, int]:
        count = 0
        for at in range(0, len(chunk) - ENTRY_SIZE + 1, ENTRY_SIZE):
            physical, size, _ = struct.unpack_from(">qiq", chunk, at)
            if not 0 <= physical < 1 << 62 or size <= 0 or physical < floor:
                break
            floor = max(floor, physical if size == 0x7FFFFFFF else physical + size)
            count += 1
        return count, floor

    @examples(60)
    @given(
        st.lists(
            st.tuples(
                st.integers(-3, 60) | st.sampled_from([1 << 62, (1 << 63) - 1]),
                st.integers(-1, 12) | st.just(0x7FFFFFFF),
            ),
            max_size=12,
        ),
        st.booleans(),
        st.integers(0, 20),
        st.integers(0, 19),
    )
    def test_equals_its_definition(
        self, places: list[tuple[int, int]], ordered: bool, floor: int, torn: int
    ) -> None:
        chunk = b"".join(entry(*pair) for pair in (sorted(places) if ordered else places)) + bytes(torn)
        self.assertEqual(count_in_use(chunk, floor), self.one_by_one(chunk, floor))

    def test_a_scan_longer_than_one_chunk(self) -> None:
        count = SCAN_CHUNK // ENTRY_SIZE + 10
        root = os.path.abspath(self.mktemp())
        table = ConsumeQueueTable(FaultyFileSystem(), root)
        table.get("T", 0).append(0, entries(0, count))
        table.close()
        again = ConsumeQueueTable(FaultyFileSystem(), root)
        self.addCleanup(again.close)
        again.load_all()
        again.recover()
        self.assertEqual((again.offsets(), again.max_physical), ({("T", 0): count}, 10 * count))
