"""Bytes that recovery cuts, kept in a file of their own."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.lifecycle import sidefile
from hatwisted.store.lifecycle.sidefile import keep_aside, side_file
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.wire.layout import file_name
from tests.support.faultyfs import FaultyFileSystem
from tests.support.pattern import pattern

BYTES = pattern(300)


class SideFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        folder = self.root / "commitlog"
        folder.mkdir(parents=True)
        for start in (0, 100, 200):
            (folder / file_name(start)).write_bytes(BYTES[start : start + 100])
        self.fs = FaultyFileSystem()
        self.log = FileQueue(PosixFileSystem(), str(folder), 100)
        self.log.load()
        self.addCleanup(self.log.close)
        self.path = Path(side_file(str(self.root), 50, 260))
        self.reached: list[int] = []

    def keep(self, begin: int, end: int) -> bytes:
        keep_aside(self.fs, str(self.path), self.log, (begin, end), self.reached.append)
        return self.path.read_bytes()

    def test_its_name_says_which_bytes(self) -> None:
        self.assertEqual(self.path, self.root / "repair" / f"{50:020d}-{260:020d}.bin")

    def test_it_holds_them_durably_and_tells_how_far_it_is(self) -> None:
        self.patch(sidefile, "CHUNK", 80)
        self.assertEqual(self.keep(50, 260), BYTES[50:260])
        self.assertEqual((self.reached[-1], sorted(self.reached)), (260, self.reached))
        self.assertGreater(len(self.reached), 2)
        self.assertEqual([each.name for each in self.path.parent.iterdir()], [self.path.name])
        self.assertEqual(self.fs.count("datasync"), 1)
        for folder in (self.path.parent, self.root):
            self.assertGreaterEqual(self.fs.count("sync_folder", str(folder)), 1)

    def test_what_an_earlier_try_has_left_is_cut_off(self) -> None:
        self.path.parent.mkdir()
        self.path.with_name(self.path.name + ".tmp").write_bytes(b"x" * 1000)
        self.assertEqual(self.keep(50, 260), BYTES[50:260])
        self.path.with_name(self.path.name + ".tmp").write_bytes(b"x" * 1000)
        self.assertEqual(self.keep(50, 50), b"")

    def test_without_room_there_is_no_file_of_that_name(self) -> None:
        self.fs.fail("pwrite")
        self.assertRaises(OSError, self.keep, 50, 260)
        self.assertFalse(self.path.exists())
