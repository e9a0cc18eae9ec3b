"""The checkpoint file: RocketMQ's bytes, replaced whole, zeros where nothing is known."""

from __future__ import annotations

import errno
import os

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.lifecycle.checkpoint import FUTURE, StoreCheckpoint
from tests.support.faultyfs import FaultyFileSystem
from tests.support.golden import GOLDEN


class CheckpointTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fs = FaultyFileSystem()
        self.path = os.path.abspath(self.mktemp())

    def load(self, path: str | None = None) -> StoreCheckpoint:
        checkpoint = StoreCheckpoint(self.fs, path or self.path)
        checkpoint.load()
        return checkpoint

    def stored(self) -> bytes:
        return self.fs.read(self.path)

    def test_golden_checkpoints_are_read_and_written_to_the_same_bytes(self) -> None:
        for side in ("master", "slave"):
            path = os.path.join(GOLDEN, side, "checkpoint")
            checkpoint = self.load(path)
            self.assertEqual(checkpoint.encode(), self.fs.read(path))
            self.assertGreater(checkpoint.physic_timestamp, 0)

    def test_times_ahead_of_the_clock_count_as_now_and_garbage_as_nothing(self) -> None:
        checkpoint = self.load()
        now = 1_795_221_957_000
        checkpoint.physic_timestamp, checkpoint.logics_timestamp = now + 3_600_000, now - 5000
        checkpoint.flush()
        checkpoint = StoreCheckpoint(self.fs, self.path)
        checkpoint.load(now)
        self.assertEqual((checkpoint.physic_timestamp, checkpoint.logics_timestamp), (now, now - 5000))
        checkpoint.load(now - FUTURE)
        self.assertEqual((checkpoint.physic_timestamp, checkpoint.logics_timestamp), (0, 0))

    def test_the_fields_the_specification_shows(self) -> None:
        checkpoint = self.load(os.path.join(GOLDEN, "master", "checkpoint"))
        self.assertEqual(checkpoint.physic_timestamp, 0x1A1FB85A2C3)
        self.assertEqual(checkpoint.logics_timestamp, 0x1A1FB85A2C3)
        self.assertEqual(checkpoint.index_timestamp, 0)
        self.assertEqual(checkpoint.min_timestamp, 0x1A1FB85A2C3 - 3000)
        self.assertEqual(checkpoint.min_timestamp_with_index, 0)

    def test_a_missing_or_short_file_reads_as_zeros(self) -> None:
        self.assertEqual(self.load().encode(), bytes(4096))
        for size in (0, 7, 12):
            with open(self.path, "wb") as file:
                file.write((bytes(7) + b"\1" + bytes(7) + b"\2")[:size])
            checkpoint = self.load()
            self.assertEqual(checkpoint.physic_timestamp, 1 if size > 7 else 0)
            self.assertEqual((checkpoint.logics_timestamp, checkpoint.min_timestamp), (0, 0))

    def test_what_5x_keeps_there_stays(self) -> None:
        checkpoint = self.load()
        checkpoint.master_flushed_offset, checkpoint.confirm_offset = 5, 6
        checkpoint.flush()
        again = self.load()
        again.physic_timestamp = 9
        again.flush()
        self.assertEqual(self.stored()[24:40].hex(), "00000000000000050000000000000006")
        self.assertEqual(len(self.stored()), 4096)

    def test_how_far_the_index_is_complete_stands_where_rocketmq_looks_at_nothing(self) -> None:
        checkpoint = self.load()
        self.assertIsNone(checkpoint.indexed)
        checkpoint.indexed = (-1, 1 << 40)
        checkpoint.flush()
        self.assertEqual(self.load().indexed, (-1, 1 << 40))
        self.assertEqual((len(self.stored()), self.stored()[:4072]), (4096, bytes(4072)))
        again = self.load()
        again.indexed = None
        again.flush()
        self.assertEqual(self.stored(), bytes(4096))

    def test_the_oldest_of_the_times_counts(self) -> None:
        checkpoint = self.load()
        checkpoint.physic_timestamp, checkpoint.logics_timestamp, checkpoint.index_timestamp = (
            9000,
            8000,
            7000,
        )
        self.assertEqual((checkpoint.min_timestamp, checkpoint.min_timestamp_with_index), (5000, 5000))
        checkpoint.index_timestamp = 4000
        self.assertEqual(checkpoint.min_timestamp_with_index, 4000)
        checkpoint.logics_timestamp = 100
        self.assertEqual(checkpoint.min_timestamp, 0)

    def test_only_changes_are_written(self) -> None:
        checkpoint = self.load()
        checkpoint.physic_timestamp = 1
        for _ in range(3):
            checkpoint.flush()
        self.load().flush()
        self.assertEqual(self.fs.count("replace"), 1)

    def test_a_failed_flush_leaves_the_old_file_and_is_made_up_for(self) -> None:
        checkpoint = self.load()
        checkpoint.physic_timestamp = 1
        checkpoint.flush()
        checkpoint.physic_timestamp = 2
        self.fs.fail("pwrite", error=errno.ENOSPC)
        self.assertRaises(OSError, checkpoint.flush)
        self.assertEqual(self.load().physic_timestamp, 1)
        checkpoint.flush()
        self.assertEqual(self.load().physic_timestamp, 2)
