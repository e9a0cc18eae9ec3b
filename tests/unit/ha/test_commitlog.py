"""The link between two real commit logs: what is compared is files on a disk, records and blanks included."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha.grouptransfer import GroupTransferService
from hatwisted.ha.master import HAService
from hatwisted.ha.settings import SlaveSettings
from hatwisted.ha.slave import HAClientService, SlaveParts
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.put import Put
from hatwisted.wire.haframe import HaFirstSync
from hatwisted.wire.hostport import HostPort
from tests.support.faultyfs import FaultyFileSystem
from tests.unit.ha.faultylink import FaultyNetwork
from tests.unit.ha.rig import ToldMasterLog

FILE_SIZE = 4096
HOST = HostPort(b"\x7f\0\0\1", 10911).pack()


class CommitLogLinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.random = Random(5)
        self.network = FaultyNetwork(self.clock, self.random)
        self.slave_disk = FaultyFileSystem()
        self.master_log, self.master_folder = self.open(PosixFileSystem())
        self.slave_log, self.slave_folder = self.open(self.slave_disk)
        group = GroupTransferService(self.clock, 5.0)
        self.master = HAService(self.master_log, self.clock, self.network.listen, group)
        self.master.startService()

    def open(self, fs: PosixFileSystem) -> tuple[CommitLog, Path]:
        folder = Path(self.mktemp()) / "commitlog"
        files = FileQueue(fs, str(folder), FILE_SIZE)
        files.load()
        log = CommitLog(files, self.clock, InlineWorker(), HOST)
        self.addCleanup(log.close)
        return log, folder

    def dial(self, **settings: Any) -> HAClientService:
        def bounds() -> Deferred[tuple[int, int]]:
            return succeed((self.master_log.min_offset, self.master_log.max_offset))

        parts = SlaveParts(
            log=self.slave_log,
            clock=self.clock,
            connecting=self.network,
            random=self.random,
            master_address=lambda: "10.0.0.1:10912",
            master_log=ToldMasterLog(bounds),
        )
        slave = HAClientService(parts, SlaveSettings(**settings))
        slave.startService()
        return slave

    def put(self, count: int) -> None:
        for _ in range(count):
            body = self.random.randbytes(self.random.randrange(900))
            self.master_log.append([Put("Topic", 0, [(0, body, b"")], HOST, 1)])

    def assert_same_files(self, first: int) -> None:
        """Both folders hold the same bytes in the files from `first` on (index of the file)."""
        end = self.slave_log.max_offset
        self.assertEqual(end, self.master_log.max_offset)
        for start in range(first * FILE_SIZE, end, FILE_SIZE):
            name = f"{start:020d}"
            used = min(FILE_SIZE, end - start)
            ours = (self.slave_folder / name).read_bytes()
            self.assertEqual(len(ours), FILE_SIZE)
            self.assertEqual(ours[:used], (self.master_folder / name).read_bytes()[:used], name)

    def run_until_copied(self) -> None:
        for _ in range(3000):
            self.clock.advance(0.05)
            if self.slave_log.max_offset == self.master_log.max_offset:
                return
        self.fail(f"slave stuck at {self.slave_log.max_offset} of {self.master_log.max_offset}")

    def test_B40_B87_B88_last_file_first_then_rolls_and_cuts(self) -> None:
        self.put(20)
        first = self.master_log.max_offset // FILE_SIZE
        self.dial()
        self.run_until_copied()
        for _ in range(20):
            self.put(self.random.randrange(1, 12))
            self.clock.advance(0.3)
            if self.random.random() < 0.3:
                self.network.cut()
        self.run_until_copied()
        self.assertEqual(self.slave_log.min_offset, first * FILE_SIZE)
        self.assertGreater(self.master_log.max_offset, 10 * FILE_SIZE)
        self.assert_same_files(first)

    def test_B158_a_full_copy_from_a_master_that_knows_only_rocketmqs_rule(self) -> None:
        self.put(40)
        self.dial(first_sync=HaFirstSync.MIN_OFFSET)
        self.run_until_copied()
        self.assertEqual(self.slave_log.min_offset, 0)
        self.assertGreater(self.master_log.max_offset, 3 * FILE_SIZE)
        self.assert_same_files(0)

    def test_B90_a_full_disk_on_the_slave_costs_nothing_but_time(self) -> None:
        self.put(3)
        slave = self.dial()
        self.run_until_copied()
        fault = self.slave_disk.fail("reserve", error=errno.ENOSPC, times=None)
        self.put(30)
        self.clock.pump([0.05] * 60)
        self.assertEqual(slave.status().state, "store full")
        self.assertLess(self.slave_log.max_offset, self.master_log.max_offset)
        self.assertLessEqual(self.master.replicas.push2_slave_max_offset, self.slave_log.max_offset)
        fault.lift()
        self.run_until_copied()
        self.assert_same_files(0)
