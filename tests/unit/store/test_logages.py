"""How old log files are for certain, whatever the clock says."""

from __future__ import annotations

import os

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.lifecycle.logages import LOOK_LIMIT, LogAges
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.put import Put
from hatwisted.wire.layout import file_name

HOST = b"\x7f\0\0\1\0\0\0\1"
SIZE = 4096
HOUR = 3600.0
NOW = 1_795_221_957.0


class LogAgesTests(SynchronousTestCase):
    """A log of small files; `filled` writes files, `wait` lets hours pass with a look every ten seconds."""

    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        self.clock = Clock()
        self.clock.advance(NOW)
        self.log = self.opened()
        self.ages = LogAges(self.log, self.clock)

    def opened(self) -> CommitLog:
        files = FileQueue(PosixFileSystem(), os.path.join(self.folder, "commitlog"), SIZE)
        log = CommitLog(files, self.clock, InlineWorker(), HOST)
        log.load()
        if not files.starts:
            log.set_end(0)
        self.addCleanup(log.close)
        return log

    def filled(self, count: int = 1, log: CommitLog | None = None) -> None:
        """So many files more, and a record in the next one; all touched at the time that it is."""
        log = log or self.log
        begin = log.max_offset // SIZE
        while log.max_offset // SIZE < begin + count:
            log.append([Put("T", 0, ((0, bytes(1000), b""),), HOST, 0)])
        for start in range(begin * SIZE, log.max_offset, SIZE):
            self.touch(start)

    def touch(self, start: int) -> None:
        path = os.path.join(self.folder, "commitlog", file_name(start))
        os.utime(path, (self.clock.seconds(), self.clock.seconds()))

    def wait(self, hours: float, ages: LogAges | None = None) -> None:
        for _ in range(int(hours * 360)):
            (ages or self.ages).look()
            self.clock.advance(10)
        (ages or self.ages).look()

    def restarted(self) -> LogAges:
        """The same log in a new process."""
        last = self.log.newest_store_timestamp
        log = self.opened()
        log.set_end(self.log.max_offset)
        log.resume({}, last, log.max_offset)
        self.log = log
        ages = LogAges(log, self.clock)
        ages.look()
        return ages

    def test_a_file_ages_from_the_look_that_finds_it_filled(self) -> None:
        self.ages.look()
        self.filled()
        self.wait(3)
        self.assertEqual((self.ages.age(0), self.ages.age(SIZE)), (3 * HOUR, 0.0))

    def test_a_leap_between_two_looks_counts_for_little(self) -> None:
        self.ages.look()
        self.filled()
        self.wait(1)
        self.clock.advance(100 * 24 * HOUR)
        self.wait(1)
        self.assertEqual(self.ages.age(0), 2 * HOUR + LOOK_LIMIT)

    def test_at_the_start_the_log_says_how_old_its_files_are(self) -> None:
        for _ in range(3):
            self.filled()
            self.clock.advance(HOUR)
        self.filled()
        self.clock.advance(500 * HOUR)  # nobody ran, or the clock is wrong
        ages = self.restarted()
        self.assertEqual(
            [ages.age(start) for start in range(0, 4 * SIZE, SIZE)], [3 * HOUR, 2 * HOUR, HOUR, 0.0]
        )
        self.wait(1, ages)
        self.assertEqual(ages.age(0), 4 * HOUR)

    def test_records_from_a_clock_that_was_ahead_make_nothing_old(self) -> None:
        self.filled(2)
        before = self.clock.seconds()
        self.clock.advance(100 * 24 * HOUR)
        self.filled()
        for start in self.log.files.starts:  # written again under the right clock
            os.utime(os.path.join(self.folder, "commitlog", file_name(start)), (before, before + 1))
        self.assertEqual(self.restarted().age(0), 0.0)

    def test_nor_do_files_touched_long_ago(self) -> None:
        self.filled(3)
        os.utime(os.path.join(self.folder, "commitlog", file_name(0)), (1, 1))
        self.assertEqual(self.restarted().age(0), 0.0)

    def test_removed_files_are_forgotten(self) -> None:
        self.filled(3)
        self.ages.look()
        self.log.files.delete_before(2 * SIZE)
        self.ages.look()
        self.assertEqual(list(self.ages._closed), [2 * SIZE])
