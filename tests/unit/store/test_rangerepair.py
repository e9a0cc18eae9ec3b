"""Rotten bytes overwritten by intact ones: what was there is kept, what is there is on the disk."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.errors import OutsideLog
from hatwisted.store.lifecycle.rangerepair import replace_range
from hatwisted.store.lifecycle.sidefile import side_file
from hatwisted.store.log.logranges import OpenedLog
from hatwisted.wire.layout import file_name
from hatwisted.wire.logrange import LogRange
from tests.support.faultyfs import FaultyFileSystem
from tests.support.pattern import pattern

FILE_SIZE = 400
BYTES = pattern(800)
BEGIN, END = 450, 500


class RangeRepairTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        folder = self.root / "commitlog"
        folder.mkdir(parents=True)
        self.files = [folder / file_name(start) for start in (0, FILE_SIZE)]
        rotten = BYTES[:470] + bytes(10) + BYTES[480:]
        self.rotten = rotten[BEGIN:END]
        for start, file in zip((0, FILE_SIZE), self.files, strict=True):
            file.write_bytes(rotten[start : start + FILE_SIZE])
        self.fs = FaultyFileSystem()
        self.log = OpenedLog(self.fs, str(folder), FILE_SIZE, LogRange(0, len(BYTES)))

    def repair(self) -> Path:
        return Path(replace_range(self.fs, str(self.root), self.log, BEGIN, BYTES[BEGIN:END]))

    @property
    def held(self) -> bytes:
        return b"".join(file.read_bytes() for file in self.files)

    def test_the_bytes_are_the_intact_ones_and_the_old_ones_are_kept(self) -> None:
        kept = self.repair()
        self.assertEqual(self.held, BYTES)
        self.assertEqual(kept, Path(side_file(str(self.root), BEGIN, END)))
        self.assertEqual(kept.read_bytes(), self.rotten)

    def test_the_old_ones_are_on_the_disk_before_the_first_byte_changes_and_so_are_the_new_ones_then(
        self,
    ) -> None:
        self.repair()
        steps = [
            (call.operation, Path(call.path).parent.name)
            for call in self.fs.calls
            if call.operation in ("pwrite", "datasync", "replace")
        ]
        self.assertEqual(
            steps,
            [
                ("pwrite", "repair"),
                ("datasync", "repair"),
                ("replace", "repair"),
                ("pwrite", "commitlog"),
                ("datasync", "commitlog"),
            ],
        )

    def test_a_further_repair_overwrites_no_side_file(self) -> None:
        first, second = self.repair(), self.repair()
        self.assertEqual(second, first.with_name(first.name + ".1"))
        self.assertEqual((first.read_bytes(), second.read_bytes()), (self.rotten, BYTES[BEGIN:END]))

    def test_without_room_for_the_old_ones_nothing_is_changed(self) -> None:
        self.fs.fail("pwrite", path="repair")
        before = self.held
        self.assertRaises(OSError, self.repair)
        self.assertEqual(self.held, before)

    def test_what_has_expired_is_not_written(self) -> None:
        self.files[1].unlink()
        self.assertRaises(OutsideLog, self.repair)
        self.assertFalse(self.files[1].exists())
