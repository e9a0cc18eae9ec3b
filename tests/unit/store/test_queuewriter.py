"""Queue entries that wait in memory are written a few queues at a time."""

from __future__ import annotations

import errno
import os

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.errors import StoreFull
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.store.queue.queuewriter import INTERVAL, PORTION, RETRY, QueueWriter
from tests.support.faultyfs import FaultyFileSystem
from tests.unit.store.test_consumequeue import entry


class QueueWriterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fs = FaultyFileSystem()
        self.clock = Clock()
        self.table = ConsumeQueueTable(self.fs, os.path.abspath(self.mktemp()), 2000)
        self.addCleanup(self.table.close)
        for index in range(3 * PORTION):
            self.table.get("T", index).append(0, entry(index))
        self.table.write_out()
        self.writer = QueueWriter(self.clock, self.table)
        self.writer.start()
        self.fs.calls.clear()

    def fill(self, count: int) -> None:
        for index in range(count):
            queue = self.table.get("T", index)
            queue.append(queue.max_offset, entry(5000 + index))

    def test_nothing_runs_while_nothing_waits(self) -> None:
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.fill(1)
        self.clock.advance(INTERVAL)
        self.assertEqual((self.fs.count("pwrite"), self.clock.getDelayedCalls()), (1, []))

    def test_a_round_writes_a_portion_those_first_that_waited_longest(self) -> None:
        self.fill(2 * PORTION + 1)
        self.fill(1)
        for left in (PORTION + 1, 1, 0):
            self.clock.advance(INTERVAL)
            self.assertEqual(self.table.tails, left)
        self.assertEqual(self.fs.count("pwrite"), 2 * PORTION + 1)

    def test_what_waits_at_the_start_is_written(self) -> None:
        self.writer.stop()
        self.fill(1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.writer.start()
        self.clock.advance(INTERVAL)
        self.assertEqual(self.table.tails, 0)

    def test_everything_a_portion_a_turn(self) -> None:
        self.fill(3 * PORTION)
        done = self.writer.write_all()
        self.assertEqual(self.table.tails, 2 * PORTION)
        self.assertNoResult(done)
        self.clock.pump([0, 0, 0])
        self.successResultOf(done)
        self.assertEqual(self.table.tails, 0)

    def test_a_full_disk_is_waited_for(self) -> None:
        self.fill(2)
        fault = self.fs.fail("pwrite", error=errno.ENOSPC, times=None)
        self.clock.pump([INTERVAL, RETRY, RETRY])
        self.failureResultOf(self.writer.write_all(), StoreFull)
        self.assertEqual(self.table.tails, 2)
        fault.lift()
        self.clock.advance(RETRY)
        self.assertEqual(self.table.tails, 0)

    def test_a_queue_that_cannot_be_written_does_not_hold_up_the_others(self) -> None:
        self.fill(3)
        self.fs.fail("pwrite", path="T/0/", times=None)
        self.clock.pump([INTERVAL, RETRY])
        self.assertEqual(self.table.tails, 1)
