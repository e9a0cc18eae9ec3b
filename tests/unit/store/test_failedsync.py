"""A sync that fails is final on Linux: the kernel takes the pages for clean, the next sync leaves them out, and a
process that starts again reads them from memory as if they were on the disk."""

from __future__ import annotations

import errno
import struct
from contextlib import closing

from hatwisted.logcodec.queueentry import ENTRY_SIZE
from hatwisted.sim.simdisk import Strike
from hatwisted.store.lifecycle import queuecompleteness
from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.store.log.put import Put
from tests.unit.store.powerloss import PowerLossCase


class FailedSyncTests(PowerLossCase):
    def fail_sync(self) -> None:
        self.disk.strike(Strike(("datasync",), "commitlog", error=errno.EIO))
        done = self.store.flusher.flush_now()
        self.flusher.work()
        self.assertLess(self.successResultOf(done), self.store.log.max_offset)
        self.assertIn("failed", self.store.log.stopped_reason or "")

    def test_B169_what_a_failed_sync_left_out_is_synced_after_a_restart(self) -> None:
        self.start()
        self.put("T", b"synced", 3)
        self.flush()
        self.put("T", b"left out" * 900, 3)
        self.fail_sync()
        self.kill()
        self.start(same_boot=True)
        self.put("T", b"promised" * 900)
        self.flush()
        self.lose_power()
        self.start()
        self.dispatch()
        self.assertEqual(len(self.bodies("T")), 7)

    def synced_then_failed(self) -> tuple[Put, Put]:
        """A checkpoint, a sync that it doesn't know of, and one that fails; the last records of the first two."""
        self.start()
        self.put("T", b"synced", 5)
        self.clock.advance(0.5)
        (in_checkpoint,) = self.put("T", b"synced")
        self.flush()
        self.pass_time(12)
        (synced,) = self.put("T", b"synced, and in no checkpoint")
        self.flush()
        self.put("T", b"left out", 3)
        self.fail_sync()
        self.kill()
        return in_checkpoint, synced

    def log_writes(self, *, same_boot: bool) -> list[str]:
        """The writes to the log that a start makes."""
        done: list[str] = []
        self.patch(self.disk.trace, "note", lambda what, blob=b"": done.append(what))
        self.start(same_boot=same_boot)
        return [what for what in done if what.startswith("write /s/commitlog")]

    def test_B169_only_what_no_sync_covers_is_written_again(self) -> None:
        _, synced = self.synced_then_failed()
        writes = self.log_writes(same_boot=True)
        self.assertEqual(writes, [f"write /s/commitlog/{0:020d} {synced.end}"])

    def test_B169_in_another_boot_what_no_checkpoint_covers_is_written_again(self) -> None:
        in_checkpoint, _ = self.synced_then_failed()
        writes = self.log_writes(same_boot=False)
        self.assertEqual(writes, [f"write /s/commitlog/{0:020d} {in_checkpoint.end}"])

    def test_B169_without_a_readable_note_the_checkpoint_counts(self) -> None:
        in_checkpoint, _ = self.synced_then_failed()
        with closing(self.disk.open("/s/flushed")) as file:
            file.extend(3)
        writes = self.log_writes(same_boot=True)
        self.assertEqual(writes, [f"write /s/commitlog/{0:020d} {in_checkpoint.end}"])

    def test_a_note_of_no_offset_is_none(self) -> None:
        in_checkpoint, _ = self.synced_then_failed()
        for note in (-1, -(1 << 63)):
            with closing(self.disk.open("/s/flushed")) as file:
                file.pwrite((struct.pack(">q", note),), 0)
            writes = self.log_writes(same_boot=True)
            self.assertEqual(writes, [f"write /s/commitlog/{0:020d} {in_checkpoint.end}"])
            self.assertEqual(self.store.log.flushed_offset, 0)
            self.kill()

    def test_B169_a_note_that_cannot_be_written_is_removed_at_start(self) -> None:
        self.synced_then_failed()
        self.disk.strike(Strike(("replace",), "/s/flushed", error=errno.ENOSPC))
        self.start(same_boot=True)
        self.assertFalse(self.disk.exists("/s/flushed"))
        self.put("T", b"promised")
        self.flush()
        self.assertFalse(self.disk.exists("/s/flushed"))

    def test_B169_a_note_that_fails_later_fails_no_put(self) -> None:
        self.start()
        self.disk.strike(Strike(("write",), "/s/flushed", error=errno.EIO))
        self.put("T", b"promised")
        self.flush()
        self.assertIsNone(self.store.log.stopped_reason)

    def leave_entries_out(self, **options: object) -> None:
        """The entries of a whole log file, more than a queue file, are in a sync that fails."""
        self.start(index_enable=False, **options)
        self.put("T", b"of the first file" * 60, 58)
        self.flush()
        self.dispatch()
        self.disk.strike(Strike(("datasync",), "consumequeue/T", error=errno.EIO))
        self.clock.advance(10)
        self.worker.work()

    def assert_entries_outlast_power(self, **options: object) -> RecoveryReport:
        """Once a checkpoint covers the second file's begin, recovery doesn't look at the first one any more."""
        self.clock.advance(10)
        (first,) = self.put("T", b"of the second file" * 60)
        self.assertEqual(first.offset, 1 << 16)
        self.flush()
        self.clock.advance(10)
        self.put("T", b"later")
        self.flush()
        self.pass_time(30)
        self.lose_power()
        report = self.start(index_enable=False, **options)
        self.assertEqual(report.start, first.offset)
        self.dispatch()
        self.assertEqual(len(self.bodies("T")), 60)
        self.assertNotIn(b"", self.bodies("T"))
        return report

    def test_B169_entries_that_a_failed_sync_left_out_are_synced_after_a_restart(self) -> None:
        self.leave_entries_out()
        self.kill()
        self.start(same_boot=True, index_enable=False)
        report = self.assert_entries_outlast_power()
        self.assertEqual(report.dispatched_from, report.start)

    def test_B169_so_are_those_of_more_files_than_a_start_looks_at(self) -> None:
        small = {"consume_queue_file_size": 5 * ENTRY_SIZE}
        self.leave_entries_out(**small)
        self.kill()
        self.start(same_boot=True, index_enable=False, **small)
        report = self.assert_entries_outlast_power(**small)
        self.assertEqual(report.dispatched_from, report.start)

    def test_B169_entries_that_a_failed_sync_left_out_are_written_again(self) -> None:
        self.leave_entries_out()
        report = self.assert_entries_outlast_power()
        self.assertEqual(report.dispatched_from, report.start)

    def leave_items_out(self) -> list[int]:
        """Of a whole log file, the key index's first file is in a sync that fails; the offsets that it names."""
        self.start(index_items=20)
        puts = self.put("T", b"of the first file" * 60, 58, properties=b"KEYS\1k\2")
        self.flush()
        # Two files are made ahead, each with a sync of its own.
        self.disk.strike(Strike(("datasync",), "/s/index.next", after=2, error=errno.EIO))
        self.dispatch()
        self.pass_time(12)
        path = min(path for path in self.disk.names.files if path.startswith("/s/index/"))
        self.assertTrue(self.disk.names.files[path].doubtful)
        return [put.offset for put in reversed(puts)]

    def assert_items_outlast_power(self, offsets: list[int]) -> None:
        """Once a checkpoint covers the second file's begin, recovery doesn't look at the first one any more."""
        (first,) = self.put("T", b"of the second file" * 60)
        self.assertEqual(first.offset, 1 << 16)
        self.flush()
        self.pass_time(30)
        self.lose_power()
        self.start(index_items=20)
        self.dispatch()
        assert self.store.index is not None
        self.assertEqual(self.store.index.query("T", "k", 100, 0, 1 << 62), offsets)

    def test_B169_items_that_a_failed_sync_left_out_are_built_again(self) -> None:
        self.assert_items_outlast_power(self.leave_items_out())

    def test_B169_items_that_a_failed_sync_left_out_are_synced_after_a_restart(self) -> None:
        offsets = self.leave_items_out()
        self.kill()
        self.start(index_items=20, same_boot=True)
        self.assert_items_outlast_power(offsets)

    def torn(self) -> bytearray:
        """A tail of some sectors is torn; what the disk holds of the log's first file."""
        self.start()
        self.put("T", b"synced", 3)
        self.flush()
        self.pass_time(12)
        (torn,) = self.put("T", b"never acknowledged" * 500)
        self.kernel_writes("commitlog")
        stable = self.disk.names.files[f"/s/commitlog/{0:020d}"].stable
        stable[torn.end - 3000] ^= 1
        self.lose_power()
        return stable

    def test_B169_a_cut_whose_sync_has_failed_is_made_again(self) -> None:
        stable = self.torn()
        self.disk.strike(Strike(("datasync",), "commitlog", error=errno.EIO))
        self.assertRaises(OSError, self.start)
        self.kill()
        report = self.start()
        self.assertGreater(report.torn_bytes, 0)
        (new,) = self.put("T", b"new")
        self.flush()
        self.lose_power()
        self.assertFalse(any(stable[new.end :]))
        self.assertEqual(self.start().torn_bytes, 0)
        self.assertEqual(len(self.bodies("T")), 4)

    def test_B169_a_cut_whose_second_sync_has_failed_leaves_one_byte(self) -> None:
        stable = self.torn()
        self.disk.strike(Strike(("datasync",), "commitlog", after=1, error=errno.EIO))
        self.assertRaises(OSError, self.start)
        self.kill()
        report = self.start()
        self.lose_power()
        self.assertLessEqual(sum(map(bool, stable[report.end :])), 1)

    def test_a_killed_process_leaves_a_queue_without_its_last_half_entry(self) -> None:
        self.start()
        puts = self.put("T", b"m", 3)
        self.dispatch()
        self.clock.advance(1)
        self.kill()
        (path,) = [path for path in self.disk.names.files if "consumequeue/T" in path]
        with closing(self.disk.open(path)) as file:
            file.pwrite((bytes(6),), 2 * ENTRY_SIZE + 14)
        self.start(same_boot=True)
        self.assertEqual(self.entries("T"), [(put.offset, put.end - put.offset) for put in puts])
        queue = self.store.queues.find("T", 0)
        assert queue is not None
        self.assertEqual(queue.read(2, 1)[12:], bytes(8))

    def test_B169_after_an_orderly_stop_nothing_is(self) -> None:
        self.start()
        self.put("T", b"synced", 5)
        self.flush()
        self.pass_time(12)
        stopping = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopping)
        done: list[str] = []
        self.patch(self.disk.trace, "note", lambda what, blob=b"": done.append(what))
        self.start(same_boot=True)
        self.assertEqual([what for what in done if what.startswith("write /s/commitlog")], [])


class FailedQueueSyncTests(PowerLossCase):
    def put_synced(self, topic: str, body: bytes, count: int) -> None:
        self.put(topic, body, count)
        self.flush()
        self.dispatch()
        self.pass_time(12)

    def after_a_failed_sync(self) -> None:
        """Nothing checks log files as old as that when the store starts."""
        self.patch(queuecompleteness, "CHECKED_FILES", 2)
        self.start()
        self.put_synced("Other", b"", 1)
        self.put_synced("T", b"before", 5)
        self.disk.strike(Strike(("datasync",), "/s/consumequeue/T", error=errno.EIO))
        self.put_synced("T", b"acknowledged", 600)
        for _ in range(5):
            self.put_synced("Other", bytes(20_000), 3)

    def test_B169_queue_entries_that_a_failed_sync_left_out_outlive_a_power_failure(self) -> None:
        self.after_a_failed_sync()
        self.lose_power()
        self.start()
        self.assertEqual(len(self.bodies("T")), 605)

    def test_B169_queue_entries_that_a_failed_sync_left_out_outlive_an_orderly_stop_and_a_boot(self) -> None:
        self.after_a_failed_sync()
        stopped = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopped)
        self.lose_power()
        self.start()
        self.assertEqual(len(self.bodies("T")), 605)
