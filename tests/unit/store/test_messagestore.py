"""The store as a whole: start, stop, kill, and a disk that fails at any of its files.

A *killed* store is one that is let go of without `stop`: only its lock is given back, as a kernel does.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from twisted.internet.task import Clock
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.errors import (
    DamagedLog,
    OtherFileSize,
    StoreError,
    StoreFull,
    StoreLocked,
    WrongEntry,
    WrongFile,
)
from hatwisted.store.interfaces import GrownQueue
from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.queue.reading import GetStatus, RecordTest
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.layout import QUEUE_ENTRY
from tests.support.faultyfs import FaultyFileSystem
from tests.unit.store.test_retention import AgesByTouch

FILE_SIZE = 4096
QUEUE_FILE_SIZE = 200
HOST = HostPort(b"\x7f\0\0\1", 10911).pack()
START_TIME = 1_700_000_000.0
HOUR = 3600.0
DEAF = Logger(observer=lambda event: None)  # type: ignore[arg-type]
"""For errors that a test has asked for."""


class StoreTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = self.mktemp()
        self.fs = FaultyFileSystem()
        self.fs.set_usage(total=1 << 40, free=1 << 39)
        self.clock = Clock()
        self.clock.advance(START_TIME)
        self.running: list[MessageStore] = []
        self.addCleanup(self.kill)

    def opened(self, **options: object) -> tuple[MessageStore, RecoveryReport]:
        """A loaded and started store."""
        given = {
            "root": self.root,
            "store_host": HOST,
            "commit_log_file_size": FILE_SIZE,
            "consume_queue_file_size": QUEUE_FILE_SIZE,
            "index_slots": 7,
            "index_items": 50,
            "local_time": datetime.fromtimestamp,
            "process_id": os.getpid,
        } | options
        worker = InlineWorker()
        store = MessageStore(StoreOptions(**given), self.clock, self.fs, worker, worker)
        report = store.load()
        store.start()
        self.running.append(store)
        return store, report

    def kill(self) -> None:
        """End everything at once, as kill -9 does."""
        for store in self.running:
            store._lock.release()
        self.running.clear()
        for call in list(self.clock.getDelayedCalls()):
            call.cancel()

    def stop(self, store: MessageStore) -> None:
        stopped = store.stop()
        self.clock.pump([0.01] * 20)
        self.successResultOf(stopped)
        self.running.remove(store)

    def put(self, store: MessageStore, count: int = 1, body: bytes = b"x" * 200) -> list[Put]:
        """Append, and let dispatch have its turn."""
        puts = []
        for number in range(count):
            properties = b"UNIQ_KEY\x01%d\x02KEYS\x01k" % number
            puts.append(Put("T", number % 2, ((0, body, properties),), HOST, 1))
            store.append(puts[-1:])
        self.clock.pump([0.006] * 5)
        return puts

    def path(self, *parts: str) -> Path:
        return Path(self.root, *parts)

    @property
    def has_abort(self) -> bool:
        return self.path("abort").exists()

    def assertHolds(self, store: MessageStore, puts: list[Put]) -> None:
        """Every stored put is in the log, in its queue and in the index."""
        self.assertEqual(store.dispatch_behind_bytes, 0)
        for number, put in enumerate(puts):
            if put.status is not None:
                continue
            result = store.get_messages("T", put.queue_id, put.queue_offset, 1, 1 << 20)
            self.assertIs(result.status, GetStatus.FOUND)
            self.assertEqual(bytes(result.buffers[0]), store.look_message(put.offset))
            assert store.index is not None
            found = store.index.query("T", str(number), 10, 0, 1 << 60)
            self.assertIn(put.offset, found)


class ArrivalTests(StoreTestCase):
    def test_a_listener_that_raises_holds_up_neither_dispatch_nor_the_others(self) -> None:
        store, _ = self.opened()
        heard: list[int] = []

        def broken(grown: Sequence[GrownQueue]) -> None:
            raise ZeroDivisionError(grown[0].topic)

        store.add_arrival_listener(broken)
        store.add_arrival_listener(lambda grown: heard.extend(queue.max_offset for queue in grown))
        puts = self.put(store, 4)
        self.assertHolds(store, puts)
        self.assertEqual(heard[-1], 2)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class LifeTests(StoreTestCase):
    def test_abort_is_there_while_it_runs_and_gone_after_a_clean_exit(self) -> None:
        store, _ = self.opened()
        self.assertTrue(self.has_abort)
        puts = self.put(store, 40)
        self.stop(store)
        self.assertFalse(self.has_abort)
        store, report = self.opened()
        self.assertFalse(report.unclean)
        self.assertHolds(store, puts)

    def test_a_killed_store_comes_back_with_all_it_had(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 40)
        self.kill()
        store, report = self.opened()
        self.assertTrue(report.unclean)
        self.assertHolds(store, puts)
        self.assertEqual(self.put(store, 2)[0].queue_offset, 20)

    def test_rocketmq_fault_second_process_is_kept_out_by_an_fcntl_lock_only(self) -> None:
        """A POSIX lock doesn't keep the process that holds it from opening the store once more."""
        store, _ = self.opened()
        self.assertRaises(StoreLocked, self.opened)
        self.put(store)
        self.assertTrue(self.has_abort)

    def test_a_recovery_that_is_killed_is_known_as_an_unclean_exit(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 40)
        self.stop(store)
        shutil.rmtree(self.path("consumequeue"))
        fault = self.fs.fail("pwrite", error=errno.EIO, path="consumequeue")
        self.assertRaises(OSError, self.opened)
        self.assertEqual(fault.hits, 1)
        self.assertTrue(self.has_abort)
        store, report = self.opened()
        self.assertTrue(report.unclean)
        self.assertHolds(store, puts)

    def test_a_refused_start_changes_nothing_and_gives_the_lock_back(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 40)
        self.stop(store)
        log = sorted(self.path("commitlog").iterdir())[-2]
        intact = log.read_bytes()
        damaged = bytearray(intact)
        damaged[100] ^= 1
        log.write_bytes(damaged)
        before = self.snapshot()
        self.assertRaises(DamagedLog, self.opened)
        self.assertEqual(self.snapshot(), before)
        log.write_bytes(intact)
        store, report = self.opened()
        self.assertFalse(report.unclean)
        self.assertHolds(store, puts)

    def test_another_file_size_is_refused_with_what_to_do(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 40)
        self.stop(store)
        before = self.snapshot()
        for change in ({"commit_log_file_size": 8192}, {"consume_queue_file_size": 400}, {"index_slots": 8}):
            refused = self.assertRaises(WrongFile, self.opened, **change)
            self.assertIn("set ", str(refused))
        self.assertEqual(self.snapshot(), before)
        self.assertHolds(self.opened()[0], puts)

    def snapshot(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in Path(self.root).rglob("*") if path.is_file()}

    def test_a_log_of_smaller_files_is_distinguished_from_a_damaged_one_and_acknowledged_no_further(
        self,
    ) -> None:
        """A slave whose mappedFileSizeCommitLog is bigger than its master's."""
        master, _ = self.opened()
        self.put(master, 40)
        log = master.log.read(0, FILE_SIZE), master.log.read(FILE_SIZE, FILE_SIZE)
        self.stop(master)
        self.root = self.mktemp()
        slave, _ = self.opened(commit_log_file_size=4 * FILE_SIZE)
        slave.log.append_raw(0, [log[0]])
        self.clock.pump([0.006] * 5)
        self.assertIsNone(slave.log.stopped_reason)
        slave.log.append_raw(FILE_SIZE, [log[1][:500]])
        self.clock.pump([0.006] * 5)
        reason = (
            "the log's files are smaller than ours of 16384 bytes, one ends at offset 4096: "
            "set mappedFileSizeCommitLog as where it was written (on a slave: as on the master), "
        )
        error = self.assertRaises(StoreError, slave.log.append_raw, FILE_SIZE + 500, [log[1][500:]])
        self.assertNotIsInstance(error, StoreFull)
        self.assertIn(reason, str(error))
        self.kill()
        error = self.assertRaises(OtherFileSize, self.opened, commit_log_file_size=4 * FILE_SIZE)
        self.assertIn(reason, str(error))
        self.assertTrue(self.has_abort)

    def test_what_is_lost_beside_the_log_is_built_again(self) -> None:
        for clean in (True, False):
            for lost in ("consumequeue", "consumequeue/T/1", "index", "checkpoint"):
                self.root = self.mktemp()
                store, _ = self.opened()
                puts = self.put(store, 40)
                self.stop(store) if clean else self.kill()
                path = self.path(*lost.split("/"))
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.exists():
                    path.unlink()
                self.assertHolds(self.opened()[0], puts)
                self.kill()

    def test_index_switched_off_and_on_again(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 10)
        self.stop(store)
        store, _ = self.opened(index_enable=False)
        more = self.put(store, 10)
        self.stop(store)
        store, _ = self.opened()
        self.assertHolds(store, puts)
        self.assertHolds(store, more)

    def test_a_slaves_folder_goes_on_as_a_masters_and_the_other_way(self) -> None:
        master, _ = self.opened()
        puts = self.put(master, 40)
        here, self.root = self.root, self.mktemp()
        slave, _ = self.opened()
        for at in range(0, master.log.max_offset, FILE_SIZE):
            slave.log.append_raw(at, [master.log.read(at, FILE_SIZE)])
        self.clock.pump([0.006] * 5)
        self.assertHolds(slave, puts)
        self.stop(slave)
        self.stop(master)
        promoted, _ = self.opened()
        more = self.put(promoted, 4)
        self.assertEqual(more[0].queue_offset, 20)
        tail = promoted.log.read(more[0].offset, FILE_SIZE)
        self.root = here
        demoted, _ = self.opened()
        demoted.log.append_raw(more[0].offset, [tail])
        self.clock.pump([0.006] * 5)
        self.assertHolds(demoted, puts)
        self.assertHolds(demoted, more)

    def test_a_slave_stopped_inside_a_record_asks_for_it_again(self) -> None:
        master, _ = self.opened()
        puts = self.put(master, 2)
        raw = master.log.read(0, FILE_SIZE)
        self.root = self.mktemp()
        slave, _ = self.opened()
        slave.log.append_raw(0, [raw[: puts[1].offset + 150]])
        self.stop(slave)
        slave, report = self.opened()
        self.assertEqual((slave.log.max_offset, report.torn_bytes), (puts[1].offset, 150))
        slave.log.append_raw(puts[1].offset, [raw[puts[1].offset :]])
        self.clock.pump([0.006] * 5)
        self.assertHolds(slave, puts)


class TimeTests(StoreTestCase):
    def test_store_times_never_go_back_though_the_clock_does(self) -> None:
        store, _ = self.opened()
        self.put(store, 1)
        last = store.log.last_store_timestamp
        self.kill()
        self.clock.rightNow -= 600
        store, _ = self.opened()
        self.put(store, 1)
        self.assertEqual(store.log.last_store_timestamp, last)

    def test_a_clock_that_was_far_ahead_once_is_not_followed_for_ever(self) -> None:
        store, _ = self.opened()
        self.put(store, 1)
        self.kill()
        self.clock.rightNow -= 24 * HOUR
        store, _ = self.opened()
        self.put(store, 1)
        self.assertLess(store.log.last_store_timestamp, int((START_TIME - 23 * HOUR) * 1000))

    def test_a_garbage_checkpoint_vouches_for_nothing(self) -> None:
        for garbage in (b"\x7f" * 4096, b"\xff" * 4096, b"\x7f" * 7, b""):
            self.root = self.mktemp()
            store, _ = self.opened()
            puts = self.put(store, 40)
            self.kill()
            self.path("checkpoint").write_bytes(garbage)
            store, report = self.opened()
            self.assertEqual((report.start, report.dispatched_from), (0, 0))
            self.assertHolds(store, puts)
            self.stop(store)
            stored = self.path("checkpoint").read_bytes()
            self.assertEqual(len(stored), 4096)
            self.assertLess(int.from_bytes(stored[:8], "big"), (START_TIME + HOUR) * 1000)
            self.kill()


class FailingDiskTests(StoreTestCase):
    """No room, or an error, at every kind of file."""

    def test_no_room_for_a_log_file_refuses_puts_until_there_is(self) -> None:
        store, _ = self.opened()
        self.put(store, 1)
        fault = self.fs.fail("reserve", error=errno.ENOSPC, path="commitlog", times=None)
        puts = self.put(store, 40)
        refused = [put for put in puts if put.status is not None]
        self.assertIn(PutStatus.SERVICE_NOT_AVAILABLE, {put.status for put in refused})
        self.assertIn("No space left", store.refusal() or "")
        self.assertIs(store.get_messages("T", 0, 0, 10, 1 << 20).status, GetStatus.FOUND)
        fault.lift()
        self.clock.pump([1.0] * 6)
        self.assertIsNone(store.refusal())
        more = self.put(store, 40)
        self.assertEqual({put.status for put in more}, {None})
        self.assertEqual(store.dispatch_behind_bytes, 0)

    def test_no_room_for_queue_or_index_keeps_dispatch_waiting_and_loses_nothing(self) -> None:
        for operation, path in (
            ("extend", "consumequeue"),
            ("pwrite", "consumequeue"),
            ("reserve", "index"),
            ("open", "consumequeue"),
        ):
            self.root = self.mktemp()
            store, _ = self.opened()
            puts = self.put(store, 1)
            fault = self.fs.fail(operation, error=errno.ENOSPC, path=path, times=None)
            puts = self.put(store, 60)
            self.assertGreater(store.dispatch_behind_bytes, 0, operation)
            self.assertIn("No space left", store.reput.stalled_reason or "")
            fault.lift()
            self.clock.pump([0.5] * 6)
            self.assertIsNone(store.reput.stalled_reason)
            self.assertHolds(store, puts)
            self.stop(store)
            self.assertFalse(self.has_abort)

    def test_stopped_on_a_disk_that_fails_it_gives_back_files_and_lock(self) -> None:
        for operation, path in (("sync_folder", ""), ("remove", "abort"), ("remove", "commitlog")):
            self.root = self.mktemp()
            store, _ = self.opened()
            self.put(store, 40)
            self.clock.pump([0.5] * 6)
            fault = self.fs.fail(operation, error=errno.EIO, path=path, times=None)
            self.stop(store)
            fault.lift()
            store, _ = self.opened()
            self.stop(store)

    def test_stopped_while_dispatch_waits_for_room_the_next_start_finishes_it(self) -> None:
        store, _ = self.opened()
        fault = self.fs.fail("pwrite", error=errno.ENOSPC, path="consumequeue", times=None)
        puts = self.put(store, 40)
        self.stop(store)
        self.assertTrue(self.has_abort)
        self.assertRaises(StoreFull, self.opened)
        fault.lift()
        store, report = self.opened()
        self.assertTrue(report.unclean)
        self.assertHolds(store, puts)

    def test_no_room_for_the_checkpoint_makes_the_exit_unclean_and_nothing_else(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 10)
        fault = self.fs.fail("pwrite", error=errno.ENOSPC, path="checkpoint", times=None)
        store._logger = DEAF
        self.clock.pump([1.0] * 15)
        self.stop(store)
        self.assertTrue(self.has_abort)
        fault.lift()
        store, _ = self.opened()
        self.assertHolds(store, puts)

    def test_queues_that_can_not_be_synced_make_the_exit_unclean(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 10)
        fault = self.fs.fail("datasync", error=errno.EIO, path="consumequeue", times=None)
        store._logger = DEAF
        self.stop(store)
        self.assertTrue(self.has_abort)
        fault.lift()
        store, _ = self.opened()
        self.assertHolds(store, puts)

    def test_no_room_for_the_abort_file_does_not_keep_reads_away(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 10)
        for _ in range(2):
            self.stop(store)
            self.fs.fail("pwrite", error=errno.ENOSPC, path="abort")
            store, _ = self.opened()
            self.assertTrue(self.has_abort)
            self.assertHolds(store, puts)

    def test_a_stopped_store_leaves_no_timer_of_waits_that_are_over(self) -> None:
        store, _ = self.opened(sync_flush=True)
        (put,) = self.put(store)
        answered = store.flush.wait(put.end, put.end, self.clock.seconds() + 60)
        self.assertEqual(self.successResultOf(answered), put.end)
        store.flusher.line.wait(put.end + 1, self.clock.seconds() + 60)
        self.stop(store)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_failed_fdatasync_ends_puts_until_a_restart(self) -> None:
        store, _ = self.opened(sync_flush=True)
        puts = self.put(store, 4)
        self.fs.fail("datasync", error=errno.EIO, path="commitlog")
        store.flush._flusher._logger = DEAF  # type: ignore[attr-defined]
        store.append([Put("T", 0, ((0, b"unsure", b""),), HOST, 1)])
        self.clock.pump([0.02] * 5)
        late = self.put(store, 1)
        self.assertIs(late[0].status, PutStatus.SERVICE_NOT_AVAILABLE)
        self.assertIn("restart the broker", store.refusal() or "")
        self.assertIs(store.get_messages("T", 0, 0, 10, 1 << 20).status, GetStatus.FOUND)
        self.stop(store)
        self.assertTrue(self.has_abort)
        store, report = self.opened()
        self.assertTrue(report.unclean)
        self.assertIsNone(store.refusal())
        self.assertHolds(store, puts)


class ExpiryTests(StoreTestCase):
    def test_files_expire_under_a_consumer(self) -> None:
        store, _ = self.opened()
        puts = self.put(store, 80)
        store.retention._ages = AgesByTouch(store.log.files, self.clock)
        for path in sorted(self.path("commitlog").iterdir())[:2]:
            os.utime(path, (1, 1))
        at, delivered = 0, []
        self.clock.pump([1.0] * 12)  # queues are synced
        store.retention.clean_now()
        while at < store.queue_offsets("T", 0)[1]:
            result = store.get_messages("T", 0, at, 1, 1 << 20)
            if result.status is GetStatus.FOUND:
                delivered.append(at)
            self.assertGreater(result.next_begin_offset, at)
            at = result.next_begin_offset
            if at == 3:
                done = store.retention.run_round()
                self.clock.pump([0.1] * 10)
                self.successResultOf(done)
        begin = store.log.min_offset
        self.assertEqual(begin, 2 * FILE_SIZE)
        kept = [put.queue_offset for put in puts if put.queue_id == 0 and put.offset >= begin]
        self.assertEqual(delivered, [0, 1, 2, *kept])
        self.stop(store)
        store, _ = self.opened()
        self.assertHolds(store, [])
        self.assertEqual(store.queue_offsets("T", 0)[0], kept[0])


class WrongEntryTests(StoreTestCase):
    """A page of a queue's file has gone bad: nobody is given what it names."""

    def spoil(self, store: MessageStore, index: int, position: int, size: int) -> None:
        """The queue's entry says something else, with the tag's code of every message."""
        store.queues.write_out()
        path = os.path.join(self.root, "consumequeue", "T", "0", "0" * 20)
        with open(path, "r+b") as file:
            file.seek(index * 20)
            file.write(QUEUE_ENTRY.pack(position, size, 0))

    def test_B166_another_queues_record_is_nobodys(self) -> None:
        store, _ = self.opened()
        self.put(store, 6)
        foreign = Put("other", 0, [(0, b"not yours" * 20, b"")], HOST, 0)
        store.append([foreign])
        self.clock.pump([0.01] * 20)
        self.spoil(store, 1, foreign.offset, foreign.end - foreign.offset)
        self.assertEqual(store.get_messages("T", 0, 0, 1, 9999).count, 1)
        everything = RecordTest(lambda record: True)
        for wanted in (None, frozenset({0}), everything):
            error = self.assertRaises(WrongEntry, store.get_messages, "T", 0, 0, 32, 9999, wanted)
            self.assertEqual((error.index, error.physical), (1, foreign.offset))
            self.assertIn("T/0: the entry of offset 1", str(error))
        self.assertEqual(store.get_messages("T", 0, 2, 1, 9999).count, 1)

    def test_no_record_and_beyond_the_end(self) -> None:
        store, _ = self.opened()
        first, second, _ = self.put(store, 6)[::2]
        for position in (second.offset + 1, store.log.max_offset - 10, store.log.max_offset + 5000):
            self.spoil(store, 1, position, second.end - second.offset)
            self.assertRaises(WrongEntry, store.get_messages, "T", 0, 1, 1, 9999)
        self.assertEqual(store.get_messages("T", 0, 0, 1, 9999).count, 1)
        self.assertEqual(first.queue_offset, 0)

    def test_the_queue_is_rebuilt_once_its_folder_is_gone(self) -> None:
        store, _ = self.opened()
        self.put(store, 6)
        self.spoil(store, 1, 5, 200)
        self.stop(store)
        shutil.rmtree(os.path.join(self.root, "consumequeue", "T", "0"))
        store, _ = self.opened()
        self.assertEqual(store.get_messages("T", 0, 0, 32, 9999).count, 3)
