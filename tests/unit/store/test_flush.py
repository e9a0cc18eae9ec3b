"""When the commit log is synced, who waits for it, and what a failing disk means."""

import errno

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.flush import AsyncFlush, Flusher, GroupCommitFlush
from hatwisted.store.log.put import Put, PutStatus
from tests.support.manualworker import ManualWorker

HOST = b"\x7f\0\0\1\0\0\0\1"


class FlushTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        files = FileQueue(PosixFileSystem(), self.mktemp() + "/commitlog", 1 << 20)
        files.load()
        self.log = CommitLog(files, self.clock, InlineWorker(), HOST)
        self.addCleanup(self.log.close)
        self.worker = ManualWorker()
        self.flushed: list[tuple[int, int]] = []
        self.flusher = Flusher(
            self.log, self.clock, self.worker, lambda offset, time: self.flushed.append((offset, time))
        )

    def put(self, size: int = 100) -> int:
        one = Put("T", 0, ((0, b"x" * size, b""),), HOST, 0)
        self.log.append([one])
        return one.end

    def group(self) -> GroupCommitFlush:
        policy = GroupCommitFlush(self.flusher, self.log, self.clock, 0.01)
        self.addCleanup(policy.stop)
        return policy

    def test_one_sync_serves_every_put_written_before_it_began(self) -> None:
        policy = self.group()
        ends = [self.put() for _ in range(3)]
        waits = [policy.wait(end, end, 5.0) for end in ends]
        self.assertEqual(len(self.worker), 1)
        late = self.put()
        late_wait = policy.wait(late, late, 5.0)
        self.worker.work(1)
        # The second and third put were written before the sync of the first wait had begun or not: only
        # what lies below its target counts.
        self.assertEqual([self.successResultOf(wait) for wait in waits], [ends[-1]] * 3)
        self.assertNoResult(late_wait)
        self.worker.work(1)
        self.assertEqual(self.successResultOf(late_wait), late)
        self.assertEqual(self.flusher.syncs_total, 2)

    def test_B82_a_stalled_disk_releases_the_wait_at_its_deadline(self) -> None:
        policy = self.group()
        end = self.put()
        waiting = policy.wait(end, end, 5.0)
        self.clock.advance(5)
        self.assertEqual(self.successResultOf(waiting), 0)
        self.worker.work(1)
        self.assertEqual(self.log.flushed_offset, end)

    def test_a_failed_fdatasync_is_final(self) -> None:
        policy = self.group()
        end = self.put()
        waiting = policy.wait(end, end, 5.0)
        self.worker.fail(OSError(5, "Input/output error"))
        self.assertNoResult(waiting)
        one = Put("T", 0, ((0, b"x", b""),), HOST, 0)
        self.log.append([one])
        self.assertEqual(one.status, PutStatus.SERVICE_NOT_AVAILABLE)
        self.assertIn(f"fdatasync of the commit log up to offset {end} failed", one.reason)
        self.assertIn("restart the broker", one.reason)
        self.assertEqual(self.successResultOf(self.flusher.flush_now()), 0)
        self.assertEqual(len(self.worker), 0)
        self.clock.advance(5)
        self.assertEqual(self.successResultOf(waiting), 0)

    def test_out_of_descriptors_is_no_failed_fdatasync(self) -> None:
        policy = self.group()
        policy.start()
        end = self.put()
        waiting = policy.wait(end, end, 5.0)
        self.worker.fail(OSError(errno.EMFILE, "Too many open files"))
        self.assertEqual((self.log.stopped_reason, len(self.worker)), (None, 0), "not again at once")
        end = self.put()
        self.clock.advance(0.01)
        self.worker.work(1)
        self.assertEqual(self.successResultOf(waiting), end)

    def test_B92_what_no_put_waits_for_is_synced_within_the_interval(self) -> None:
        policy = self.group()
        policy.start()
        first = self.put()
        self.clock.advance(0.01)
        second = self.put()
        self.worker.work(1)
        self.assertEqual(self.log.flushed_offset, first)
        self.clock.advance(0.01)
        self.worker.work(1)
        self.assertEqual(self.log.flushed_offset, second)

    def test_an_idle_log_costs_no_turn(self) -> None:
        policy = self.group()
        policy.start()
        self.put()
        self.clock.advance(0.01)
        self.worker.work(1)
        self.clock.advance(0.01)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_after_a_failed_fdatasync_nothing_is_tried_again(self) -> None:
        policy = self.group()
        policy.start()
        self.put()
        self.clock.advance(0.01)
        self.worker.fail(OSError(5, "Input/output error"))
        self.clock.advance(0.01)
        self.assertEqual((self.clock.getDelayedCalls(), len(self.worker)), ([], 0))

    def test_B92_async_flush_waits_for_enough_pages_or_the_thorough_interval(self) -> None:
        policy = AsyncFlush(self.flusher, self.log, self.clock, 0.5, 4, 10.0)
        error = self.assertRaises(NotImplementedError, policy.wait, 0, 1, 5.0)
        self.assertEqual(str(error), "with ASYNC_FLUSH no put waits for the disk")
        policy.start()
        self.addCleanup(policy.stop)
        self.put()
        self.clock.pump([0.5] * 19)
        self.assertEqual(len(self.worker), 0)
        self.clock.advance(0.5)
        self.assertEqual(len(self.worker), 1)
        self.worker.work(1)
        self.put(5 * 4096)
        self.clock.advance(0.5)
        self.assertEqual(len(self.worker), 1)

    def test_flush_now_covers_what_was_written_when_it_was_called(self) -> None:
        first = self.put()
        done = self.flusher.flush_now()
        second = self.put()
        again = self.flusher.flush_now()
        self.worker.work(1)
        self.assertEqual(self.successResultOf(done), first)
        self.assertNoResult(again)
        self.worker.work(1)
        self.assertEqual(self.successResultOf(again), second)

    def test_the_checkpoint_hears_of_the_newest_flushed_record(self) -> None:
        self.clock.advance(7)
        end = self.put()
        self.flusher.flush_now()
        self.clock.advance(1)
        self.put()
        self.worker.work(1)
        self.assertEqual(self.flushed, [(end, 7000)])
