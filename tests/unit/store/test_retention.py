"""What leaves the store and when; when the disk takes no more, and that it does again."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.interfaces import IWorker
from hatwisted.store.lifecycle.diskwatermark import (
    FOR_A_MASTER,
    FOR_A_SLAVE,
    DiskWatermark,
    FullDisk,
    WatermarkLimits,
)
from hatwisted.store.lifecycle.retention import (
    FILES_PER_ROUND,
    Expiring,
    Retention,
    RetentionPolicy,
    RetentionRules,
)
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire.layout import file_name
from tests.support.faultyfs import FaultyFileSystem
from tests.support.manualworker import ManualWorker

SIZE = 100
HOUR = 3600


def local(hour: int, minute: int = 0) -> float:
    """Seconds since the epoch at that local time of a day without a change of clocks."""
    return time.mktime((2026, 1, 15, hour, minute, 0, 0, 0, -1))


class DiskCase(SynchronousTestCase):
    """A disk whose use a test sets in percent, and a clock at 12:00."""

    def setUp(self) -> None:
        self.fs = FaultyFileSystem()
        self.root = os.path.abspath(self.mktemp())
        self.clock = Clock()
        self.clock.advance(local(12))
        self.worker: IWorker = InlineWorker()
        self.use(50)

    def use(self, percent: float) -> None:
        self.fs.set_usage(total=1000, free=round(1000 - 10 * percent))

    def watch(self, *paths: str, needed: int = 0) -> DiskWatermark:
        return DiskWatermark(
            self.fs, paths or (self.root,), self.clock, self.worker, WatermarkLimits(needed=needed)
        )


class DiskWatermarkTests(DiskCase):
    def after(self, watermark: DiskWatermark, percent: float) -> str | None:
        self.use(percent)
        self.successResultOf(watermark.check())
        return watermark.full_reason

    def test_full_above_90_percent_and_all_right_at_85_again(self) -> None:
        watermark = self.watch()
        full = [
            self.after(watermark, percent) is not None for percent in (50, 90, 90.1, 99, 89, 85.1, 85, 90)
        ]
        self.assertEqual(full, [False, False, True, True, True, True, False, False])

    def test_the_reason_says_where_and_how_much(self) -> None:
        reason = self.after(self.watch(), 93.2)
        self.assertEqual(reason, f"93.2% of the disk under {self.root} is used, the limit is 90%")

    def test_the_log_says_what_it_means_for_a_master_and_for_a_slave(self) -> None:
        for meaning, words in (
            (FOR_A_MASTER, ("puts are refused", "puts are refused until", "puts are accepted again")),
            (FOR_A_SLAVE, ("keeps copying", "stops acknowledging until", "has space again")),
        ):
            watermark = DiskWatermark(
                self.fs, [self.root], self.clock, self.worker, meaning=partial(FullDisk, *meaning)
            )
            with capturedLogs() as events:
                self.after(watermark, 95)
                self.after(watermark, 96)
                watermark.note_full("no room for file 7")
                watermark.note_full("no room for file 7")
                self.after(watermark, 80)
            lines = [formatEvent(event) for event in events]
            self.assertEqual(len(lines), 3, lines)
            for line, word in zip(lines, words, strict=True):
                self.assertIn(word, line)
                self.assertEqual("puts" in line, meaning is FOR_A_MASTER, line)

    def test_levels_are_a_matter_of_configuration(self) -> None:
        watermark = DiskWatermark(self.fs, [self.root], self.clock, self.worker, WatermarkLimits(warning=0.5))
        full = [self.after(watermark, percent) is not None for percent in (50, 51, 50)]
        self.assertEqual(full, [False, True, False])

    def test_it_looks_by_itself_every_few_seconds(self) -> None:
        watermark = self.watch()
        watermark.start()
        self.assertIsNone(watermark.full_reason)
        self.use(95)
        self.clock.advance(4.9)
        self.assertIsNone(watermark.full_reason)
        self.clock.advance(0.1)
        self.assertIsNotNone(watermark.full_reason)
        self.use(80)
        self.clock.advance(5)
        self.assertIsNone(watermark.full_reason)
        watermark.stop()
        watermark.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_refused_write_counts_until_there_is_room_for_a_file(self) -> None:
        watermark = self.watch(needed=300)
        watermark.note_full("no room for file 7")
        self.assertEqual(watermark.full_reason, "no room for file 7")
        self.assertIsNotNone(self.after(watermark, 71))
        self.assertTrue(watermark.refused_a_write)
        self.assertIsNone(self.after(watermark, 70))
        self.assertFalse(watermark.refused_a_write)

    def test_a_disk_that_hangs_is_looked_at_once(self) -> None:
        worker = self.worker = ManualWorker()
        watermark = self.watch()
        watermark.start()
        for _ in range(10):
            self.clock.advance(5)
        self.assertEqual(len(worker), 1)
        watermark.stop()

    def test_a_disk_that_can_not_be_looked_at_changes_nothing_and_is_reported_once(self) -> None:
        watermark = self.watch()
        self.after(watermark, 95)
        self.fs.fail("usage", error=errno.EIO, times=3)
        with capturedLogs() as logs:
            for _ in range(3):
                self.assertIsNotNone(self.after(watermark, 50))
        self.assertEqual(len(logs), 1)
        self.assertIsNone(self.after(watermark, 50))

    def test_the_fullest_of_several_disks_counts(self) -> None:
        other = self.root + "2"
        real = self.fs.usage
        self.patch(self.fs, "usage", lambda path: (100, 3) if path == other else real(path))
        os.makedirs(other)
        os.makedirs(self.root)
        watermark = self.watch(self.root, other)
        self.assertIn(other, self.after(watermark, 50) or "")
        self.assertEqual(watermark.ratios, {self.root: 0.5, other: 0.97})

    def test_a_folder_that_is_not_there_yet(self) -> None:
        asked: list[str] = []
        self.patch(self.fs, "usage", lambda path: (asked.append(path), (10, 10))[1])
        self.after(self.watch(os.path.join(self.root, "store", "commitlog")), 0)
        self.assertEqual(asked, [os.path.dirname(self.root)])


class LogStub:
    """The log's two facts: its files and its end."""

    def __init__(self, files: FileQueue) -> None:
        self.files = files
        self.max_offset = 0


class AgesByTouch:
    """Files are as old as their `stamp` says."""

    def __init__(self, files: FileQueue, clock: Clock) -> None:
        self._files = files
        self._clock = clock

    def look(self) -> None: ...

    def age(self, start: int) -> float:
        return self._clock.seconds() - self._files.file_mtime(start)


class IndexStub:
    def __init__(self) -> None:
        self.begins: list[int] = []
        self.answer: object = None

    def expire(self, min_physical: int) -> object:
        self.begins.append(min_physical)
        return self.answer


class RetentionCase(DiskCase):
    """A log of 100-byte files at 12:00 whose last is half full; `ages` sets their ages in hours, oldest
    first."""

    def setUp(self) -> None:
        super().setUp()
        self.log = LogStub(FileQueue(self.fs, os.path.join(self.root, "commitlog"), SIZE))
        self.addCleanup(self.log.files.close)
        self.queues = ConsumeQueueTable(self.fs, os.path.join(self.root, "consumequeue"), 40)
        self.addCleanup(self.queues.close)
        self.index = IndexStub()

    def ages(self, *hours: float) -> None:
        """Make that many files, and let each be that old now."""
        for start in range(0, len(hours) * SIZE, SIZE):
            self.log.files.create(start)
        self.stamp(*hours)
        self.log.max_offset = self.log.files.capacity_end - SIZE // 2

    def stamp(self, *hours: float) -> None:
        """Let the log's files be that old now; the last of the ages holds for the rest."""
        for number, start in enumerate(self.log.files.starts):
            mtime = self.clock.seconds() - hours[min(number, len(hours) - 1)] * HOUR
            os.utime(os.path.join(self.root, "commitlog", file_name(start)), (mtime, mtime))

    def at(self, hour: int) -> None:
        """Go on to that local hour."""
        self.clock.advance((local(hour) - self.clock.seconds()) % (24 * HOUR))

    def retention(self, policy: RetentionPolicy | None = None, needed: int = 0) -> Retention:
        self.watermark = self.watch(needed=needed)
        return Retention(
            self.fs,
            self.clock,
            self.worker,
            self.watermark,
            Expiring(self.log, AgesByTouch(self.log.files, self.clock), self.queues, self.index),
            RetentionRules(lambda: policy or RetentionPolicy(), local_time=datetime.fromtimestamp),
        )

    def left(self) -> list[int]:
        """First offsets of the log files on disk, which must be those the log knows."""
        names = [int(name) for name in self.fs.listdir(os.path.join(self.root, "commitlog"))]
        self.assertEqual(names, self.log.files.starts)
        return names

    def round(self, retention: Retention) -> list[int]:
        """Run one round; what's left."""
        done = retention.run_round()
        for _ in range(20):
            self.clock.advance(0.1)
        self.successResultOf(done)
        return self.left()


class WhenFilesGoTests(RetentionCase):
    def test_in_the_hours_of_deleteWhen_what_is_old_enough_goes(self) -> None:
        retention = self.retention()
        self.at(3)
        self.ages(80, 73, 71.9, 70, 0)
        self.assertEqual(self.round(retention), [0, 100, 200, 300, 400])
        self.at(4)
        self.stamp(80, 73, 71.9, 70, 0)
        self.assertEqual(self.round(retention), [200, 300, 400])
        self.assertEqual(retention.removed_total, 2)

    def test_exactly_old_enough_is_old_enough(self) -> None:
        self.at(4)
        self.ages(72, 71.99, 0)
        self.assertEqual(self.round(self.retention()), [100, 200])

    def test_several_hours(self) -> None:
        policy = RetentionPolicy(delete_when="4;16; 23", reserved_hours=1)
        self.assertEqual(policy.hours, {4, 16, 23})
        for hour, goes in [(15, False), (16, True), (17, False), (23, True)]:
            self.log.files.delete_from(0)
            self.at(hour)
            self.ages(2, 0)
            self.assertEqual(self.round(self.retention(policy)), [100] if goes else [0, 100], hour)

    def test_above_75_percent_the_hour_does_not_matter_but_age_does(self) -> None:
        self.ages(80, 71, 0)
        retention = self.retention()
        self.use(75)
        self.assertEqual(self.round(retention), [0, 100, 200])
        self.use(75.1)
        self.assertEqual(self.round(retention), [100, 200])

    def test_above_85_percent_age_does_not_matter_either(self) -> None:
        self.ages(1, 1, 0)
        retention = self.retention()
        self.use(85)
        self.assertEqual(self.round(retention), [0, 100, 200])
        self.use(85.1)
        self.assertEqual(self.round(retention), [200])

    def test_without_cleanFileForciblyEnable_it_does(self) -> None:
        self.ages(80, 1, 0)
        self.use(99)
        self.assertEqual(self.round(self.retention(RetentionPolicy(clean_forcibly=False))), [100, 200])

    def test_the_first_that_is_not_due_protects_those_behind_it(self) -> None:
        self.ages(80, 1, 80, 0)
        self.use(80)
        self.assertEqual(self.round(self.retention()), [100, 200, 300])

    def test_the_last_file_stays_even_by_force(self) -> None:
        self.ages(900, 900)
        self.use(99)
        retention = self.retention()
        for _ in range(3):
            self.assertEqual(self.round(retention), [100])

    def test_the_last_file_is_the_one_in_use_not_the_one_prepared_ahead(self) -> None:
        self.ages(900, 900, 900)
        self.use(99)
        for end in (200, 150):
            self.log.max_offset = end
            self.assertEqual(self.round(self.retention()), [100, 200])
        self.log.max_offset = 201
        self.assertEqual(self.round(self.retention()), [200])

    def test_an_empty_log(self) -> None:
        self.use(99)
        self.assertEqual(self.round(self.retention()), [])

    def test_an_operators_request_lasts_20_rounds_and_minds_age(self) -> None:
        retention = self.retention()
        retention.clean_now()
        self.ages(80, 1, 0)
        self.assertEqual(self.round(retention), [100, 200])
        for _ in range(18):
            self.round(retention)
        self.stamp(80)
        self.assertEqual(self.round(retention), [200])
        self.log.files.create(300)
        self.log.max_offset = 350
        self.stamp(80)
        self.assertEqual(self.round(retention), [200, 300])

    def test_after_a_refused_write_the_hour_does_not_matter(self) -> None:
        self.ages(80, 1, 0)
        retention = self.retention(needed=900)
        self.watermark.note_full("no room")
        self.assertEqual(self.round(retention), [100, 200])

    def test_said_once_that_nothing_is_old_enough(self) -> None:
        self.ages(1, 1, 0)
        self.use(80)
        retention = self.retention()
        with capturedLogs() as logs:
            for _ in range(3):
                self.round(retention)
        self.assertEqual([event["log_level"] for event in logs], [LogLevel.warn])
        self.assertIn("80.0% of the disk is used", logs[0]["log_format"].format(**logs[0]))


class HowFilesGoTests(RetentionCase):
    def test_at_most_ten_in_a_round_100_ms_apart(self) -> None:
        files = FILES_PER_ROUND + 4
        self.ages(*[80] * files)
        self.use(80)
        retention = self.retention()
        done = retention.run_round()
        for count in range(1, FILES_PER_ROUND + 1):
            self.assertEqual(len(self.left()), files - count)
            self.clock.advance(0.099)
            self.assertEqual(len(self.left()), files - count)
            self.clock.advance(0.001)
        self.successResultOf(done)
        self.assertEqual(len(self.left()), 4)
        self.assertEqual(len(self.round(retention)), 1)

    def test_files_are_removed_by_the_worker_and_out_of_the_log_before(self) -> None:
        worker = self.worker = ManualWorker()
        self.ages(80, 80, 0)
        self.use(80)
        done = self.retention().run_round()
        worker.work(1)
        self.assertEqual((self.log.files.starts, len(worker)), ([100, 200], 1))
        self.assertNoResult(done)
        self.assertEqual(self.fs.listdir(os.path.join(self.root, "commitlog"))[0], file_name(0))
        worker.work(1)
        self.assertEqual(self.left(), [100, 200])
        self.clock.advance(0.1)
        worker.work()
        self.assertEqual(self.left(), [200])
        self.successResultOf(done)

    def test_a_file_that_can_not_be_removed_is_kept_and_stops_the_round(self) -> None:
        self.ages(80, 80, 0)
        self.use(80)
        self.fs.fail("remove", error=errno.EPERM, path="commitlog")
        retention = self.retention()
        self.assertEqual(self.round(retention), [0, 100, 200])
        self.assertEqual(retention.removed_total, 0)
        self.assertEqual(self.round(retention), [200])

    def test_rounds_begin_after_a_minute_and_follow_every_ten_seconds(self) -> None:
        self.ages(80, 0)
        self.use(80)
        retention = self.retention()
        retention.start()
        self.clock.advance(59.9)
        self.assertEqual(self.left(), [0, 100])
        self.clock.advance(0.1)
        self.assertEqual(self.left(), [100])
        self.log.files.create(200)
        self.log.max_offset = 201
        self.stamp(80)
        self.clock.advance(9.9)
        self.assertEqual(self.left(), [100, 200])
        self.clock.advance(0.1)
        self.assertEqual(self.left(), [200])
        self.successResultOf(retention.stop())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop_before_the_first_round(self) -> None:
        retention = self.retention()
        retention.start()
        self.successResultOf(retention.stop())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop_waits_for_the_file_being_removed_and_no_other_follows(self) -> None:
        worker = self.worker = ManualWorker()
        self.ages(80, 80, 0)
        self.use(80)
        retention = self.retention()
        retention.start()
        self.clock.advance(60)
        worker.work(1)
        stopped = retention.stop()
        self.assertNoResult(stopped)
        worker.work()
        self.clock.advance(0.1)
        worker.work()
        self.successResultOf(stopped)
        self.assertEqual(self.left(), [100, 200])

    def test_a_round_that_fails_is_reported_and_the_next_one_runs(self) -> None:
        self.ages(80, 0)
        self.use(80)
        retention = self.retention()
        retention.start()
        self.fs.fail("mtime", error=errno.EIO)
        self.clock.advance(60)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(self.left(), [0, 100])
        self.clock.advance(10)
        self.assertEqual(self.left(), [100])
        self.successResultOf(retention.stop())


class FollowTheLogTests(RetentionCase):
    """Queue files hold two entries here; records are 10 bytes, so ten to a log file."""

    def setUp(self) -> None:
        super().setUp()
        self.ages(80, 80, 0)
        self.use(80)
        entries = [struct.pack(">qiq", 10 * number, 10, 0) for number in range(25)]
        self.queues.get("even", 0).append(0, b"".join(entries[0::2]))
        self.queues.get("odd", 0).append(0, b"".join(entries[1::2]))

    def queue_files(self, topic: str) -> list[int]:
        return [
            int(name) // 20 for name in self.fs.listdir(os.path.join(self.root, "consumequeue", topic, "0"))
        ]

    def begins(self) -> dict[str, int]:
        return {queue.topic: queue.min_offset for queue in self.queues}

    def test_queues_and_index_begin_where_the_log_does(self) -> None:
        self.assertEqual(self.round(self.retention()), [200])
        self.assertEqual(self.begins(), {"even": 10, "odd": 10})
        self.assertEqual(self.queue_files("even"), [10, 12])
        self.assertEqual(self.index.begins, [200])

    def test_nothing_is_looked_at_while_the_log_begins_where_it_did(self) -> None:
        retention = self.retention()
        self.round(retention)
        self.fs.calls.clear()
        self.round(retention)
        self.assertEqual((self.index.begins, self.fs.count("remove")), ([200], 0))

    def test_an_index_that_takes_its_time_is_waited_for(self) -> None:
        self.index.answer = removing = Deferred()
        self.log.files.delete_before(100)
        self.stamp(0)
        done = self.retention().run_round()
        self.assertNoResult(done)
        removing.callback(None)
        self.successResultOf(done)

    def test_a_queue_file_that_can_not_be_removed_leaves_no_gap_and_is_tried_again(self) -> None:
        self.fs.fail("remove", error=errno.EPERM, path="even/0/" + file_name(80))
        retention = self.retention()
        self.round(retention)
        self.assertEqual(self.begins(), {"even": 10, "odd": 10})
        self.assertEqual((self.queue_files("even"), self.queue_files("odd")), ([4, 6, 8, 10, 12], [10]))
        self.round(retention)
        self.assertEqual(self.queue_files("even"), [10, 12])

    def test_a_queue_that_can_not_be_read_does_not_hold_up_the_others(self) -> None:
        self.fs.fail("pread", error=errno.EIO, path="even")
        retention = self.retention()
        self.round(retention)
        self.assertEqual(self.begins(), {"even": 0, "odd": 10})
        self.round(retention)
        self.assertEqual(self.begins(), {"even": 10, "odd": 10})

    def test_stopped_between_two_queues_it_goes_no_further(self) -> None:
        worker = self.worker = ManualWorker()
        retention = self.retention()
        self.log.files.delete_before(200)
        self.stamp(0)
        retention.start()
        self.clock.advance(60)
        worker.work(1)
        stopped = retention.stop()
        worker.work()
        self.successResultOf(stopped)
        self.assertEqual(self.begins(), {"even": 10, "odd": 0})
        self.assertEqual(self.index.begins, [])

    def test_the_reactor_gets_its_turn_between_many_queues(self) -> None:
        turns: list[int] = []

        class Idle:
            def expire(self, min_physical: int) -> list[str]:
                turns.append(min_physical)
                return []

            def restore(self, paths: Sequence[str]) -> None:
                """Nothing was given."""

        self.log.files.delete_before(100)
        self.stamp(0)
        retention = Retention(
            self.fs,
            self.clock,
            self.worker,
            self.watch(),
            Expiring(self.log, AgesByTouch(self.log.files, self.clock), [Idle() for _ in range(130)]),
            RetentionRules(local_time=datetime.fromtimestamp),
        )
        done = retention.run_round()
        self.assertEqual(len(turns), 64)
        self.assertNoResult(done)
        self.clock.advance(0)
        self.successResultOf(done)
        self.assertEqual(len(turns), 130)
