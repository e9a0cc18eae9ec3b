"""The simulated disk: what programs see, what survives a failure of power, and what only may."""

from __future__ import annotations

import errno
import struct
from random import Random

import numpy as np
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.diskstrike import Strike
from hatwisted.sim.simclock import PowerLoss
from hatwisted.sim.simdisk import SimDisk
from hatwisted.sim.siminode import PAGE, SECTOR
from hatwisted.sim.trace import Trace
from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.errors import StoreLocked

SEEDS = range(200)


class DiskCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = self.new_disk()

    def new_disk(self) -> SimDisk:
        disk = SimDisk(lambda: 0.0, Trace(lambda: 0.0))
        disk.makedirs("/d")
        disk.sync_folder("/")
        return disk

    def file_of(self, disk: SimDisk, content: bytes, path: str = "/d/f") -> None:
        """A durable file."""
        file = disk.open(path, create=True)
        file.pwrite((content,), 0)
        file.datasync()
        file.close()
        disk.sync_folder("/d")

    def outcomes(self, steps: object, path: str = "/d/f") -> set[bytes | None]:
        """Contents of the file after a power failure that follows `steps`, with many seeds."""
        found: set[bytes | None] = set()
        for seed in SEEDS:
            disk = self.new_disk()
            steps(disk)  # type: ignore[operator]
            disk.reboot(Random(seed), 0.5)
            found.add(disk.read(path) if disk.exists(path) else None)
        return found


class PowerTests(DiskCase):
    def test_what_was_synced_stays(self) -> None:
        self.assertEqual(self.outcomes(lambda disk: self.file_of(disk, b"kept")), {b"kept"})

    def test_a_synced_file_whose_name_was_not_may_be_gone(self) -> None:
        def steps(disk: SimDisk) -> None:
            file = disk.open("/d/f", create=True)
            file.pwrite((b"new",), 0)
            file.datasync()

        self.assertEqual(self.outcomes(steps), {b"new", None})

    def test_any_of_the_dirty_pages_may_be_there_and_a_page_in_part(self) -> None:
        def steps(disk: SimDisk) -> None:
            self.file_of(disk, bytes(2 * PAGE))
            disk.open("/d/f").pwrite((b"x" * (2 * PAGE),), 0)

        found = self.outcomes(steps)
        old, new = bytes(PAGE), b"x" * PAGE
        self.assertLessEqual({old + old, old + new, new + old, new + new}, found)
        torn = [each for each in found if each is not None and each[:PAGE] not in (old, new)]
        self.assertTrue(torn)
        for each in torn:
            for at in range(0, PAGE, SECTOR):
                self.assertIn(each[at : at + SECTOR], (bytes(SECTOR), b"x" * SECTOR))

    def test_a_truncation_or_growth_that_was_not_synced_may_be_lost(self) -> None:
        def steps(disk: SimDisk) -> None:
            self.file_of(disk, b"long content")
            disk.open("/d/f").extend(4)

        self.assertEqual(self.outcomes(steps), {b"long content", b"long"})

    def test_a_rename_is_whole_or_not_at_all(self) -> None:
        def steps(disk: SimDisk) -> None:
            self.file_of(disk, b"old")
            file = disk.open("/d/t", create=True)
            file.pwrite((b"new",), 0)
            file.datasync()
            disk.replace("/d/t", "/d/f")

        self.assertEqual(self.outcomes(steps), {b"old", b"new"})

    def test_a_removal_may_be_lost(self) -> None:
        def steps(disk: SimDisk) -> None:
            self.file_of(disk, b"old")
            disk.remove("/d/f")

        self.assertEqual(self.outcomes(steps), {b"old", None})

    def test_names_are_lost_from_the_end(self) -> None:
        for seed in SEEDS:
            disk = self.new_disk()
            for number in range(4):
                disk.open(f"/d/{number}", create=True)
            disk.reboot(Random(seed), 0.5)
            names = disk.listdir("/d")
            self.assertEqual(names, [str(number) for number in range(len(names))])

    def test_changes_through_the_pages_count_as_writes(self) -> None:
        def steps(disk: SimDisk) -> None:
            self.file_of(disk, bytes(3 * PAGE))
            pages = disk.open("/d/f").pages()
            pages.write(0, b"a")
            pages.pack(struct.Struct(">I"), PAGE, 7)
            pages.write_cells(2 * PAGE, np.array([1]), np.array([9], ">i4"))
            self.assertEqual(pages.view[PAGE + 3], 7)

        found = self.outcomes(steps)
        self.assertLessEqual({None if each is None else each[PAGE + 3] for each in found}, {0, 7})
        self.assertEqual({each[0] for each in found if each}, {0, ord("a")})
        self.assertEqual({each[2 * PAGE + 7] for each in found if each}, {0, 9})

    def test_a_sync_that_failed_leaves_pages_that_no_later_one_writes(self) -> None:
        def steps(disk: SimDisk) -> None:
            self.file_of(disk, b"old")
            file = disk.open("/d/f")
            file.pwrite((b"new",), 0)
            disk.strike(Strike(("datasync",), error=errno.EIO))
            self.assertRaises(OSError, file.datasync)
            file.datasync()

        self.assertEqual(self.outcomes(steps), {b"old", b"new"})

    def test_the_kernel_may_write_an_earlier_state_by_itself(self) -> None:
        def steps(disk: SimDisk) -> None:
            self.file_of(disk, b"1")
            file = disk.open("/d/f")
            file.pwrite((b"2",), 0)
            disk.write_back(Random(5), 1.0)
            file.pwrite((b"3",), 0)

        self.assertEqual(self.outcomes(steps), {b"2", b"3"})

    def test_replacing_a_whole_file_leaves_the_old_or_the_new_wherever_the_power_fails(self) -> None:
        seen = set()
        for seed in range(300):
            random = Random(seed)
            disk = self.new_disk()
            self.file_of(disk, b"old")
            disk.strike(Strike(after=random.randrange(8)))
            try:
                replace_file(disk, "/d/f", b"new")
                done = True
            except PowerLoss:
                done = False
            disk.reboot(random, random.random())
            content = disk.read("/d/f")
            self.assertIn(content, (b"new",) if done else (b"old", b"new"), f"seed {seed}")
            seen.add((done, content))
        self.assertEqual(len(seen), 3)


class FailureTests(DiskCase):
    def test_a_full_disk_refuses_what_needs_blocks_and_takes_the_rest(self) -> None:
        file = self.disk.open("/d/f", create=True)
        file.reserve(100)
        self.disk.full = True
        file.pwrite((b"x" * 100,), 0)
        error = self.assertRaises(OSError, file.pwrite, (b"x",), 100)
        self.assertEqual(error.errno, errno.ENOSPC)
        self.assertRaises(OSError, self.disk.open, "/d/g", True)
        self.assertEqual(self.disk.usage("/d")[1], 0)

    def test_without_descriptors_open_files_go_on(self) -> None:
        file = self.disk.open("/d/f", create=True)
        self.disk.no_descriptors = True
        error = self.assertRaises(OSError, self.disk.open, "/d/f")
        self.assertEqual(error.errno, errno.EMFILE)
        file.pwrite((b"x",), 0)
        file.datasync()

    def test_a_strike_tears_a_write_at_its_turn(self) -> None:
        file = self.disk.open("/d/f", create=True)
        self.disk.strike(Strike(("pwrite",), path="/f", after=1, error=errno.EIO, torn=0.5))
        file.pwrite((b"1234",), 0)
        self.assertRaises(OSError, file.pwrite, (b"abcd",), 4)
        self.assertEqual(self.disk.read("/d/f"), b"1234ab")
        file.pwrite((b"abcd",), 4)

    def test_nothing_works_without_power(self) -> None:
        told: list[bool] = []
        self.disk.on_power_loss = lambda: told.append(True)
        file = self.disk.open("/d/f", create=True)
        self.disk.strike(Strike())
        self.assertRaises(PowerLoss, file.datasync)
        self.assertRaises(PowerLoss, file.pread, 1, 0)
        self.assertRaises(PowerLoss, self.disk.exists, "/d")
        self.assertEqual(told, [True])

    def test_a_lock_is_held_until_it_is_released_or_the_process_is_gone(self) -> None:
        self.disk.lock("/d/lock")
        self.assertRaises(StoreLocked, self.disk.lock, "/d/lock")
        self.disk.process_gone()
        self.disk.lock("/d/lock").release()
        self.disk.lock("/d/lock")

    def test_a_lock_that_has_no_room_leaves_nothing_open(self) -> None:
        self.disk.open("/d/lock", create=True).close()
        self.disk.full = True
        self.assertRaises(OSError, self.disk.lock, "/d/lock")
        self.assertEqual(self.disk.open_files, set())

    def test_a_flipped_bit_is_there_at_once_and_after_a_restart(self) -> None:
        self.file_of(self.disk, b"\0\0")
        self.disk.flip_bit("/d/f", 9)
        self.assertEqual(self.disk.read("/d/f"), b"\0\2")
        self.disk.reboot(Random(1), 0.5)
        self.assertEqual(self.disk.read("/d/f"), b"\0\2")
