"""`hatwisted log repair`: a plan first, every byte kept, and a store that starts afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.errors import DamagedLog
from hatwisted.store.lifecycle.lastrun import LastRun
from hatwisted.store.lifecycle.recovery import RecoveryReport
from tests.support.clistores import golden_copy, overwrite, run, snapshot, start_store
from tests.support.golden import GOLDEN, GOLDEN_END

FIRST, SECOND = 4958, 102133
"""Offsets of records in the golden log's two files."""


class RepairTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = golden_copy(self.mktemp())
        self.original = self.log_bytes()

    def log_bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted((self.store / "commitlog").iterdir()))

    def damage(self, *offsets: int) -> bytes:
        for offset in offsets:
            overwrite(self.store, offset + 4, b"????")
        return self.log_bytes()

    def refused(self, start: Callable[[], object]) -> DamagedLog:
        error: DamagedLog = self.assertRaises(DamagedLog, start)
        return error

    def test_plan_changes_nothing(self) -> None:
        self.damage(SECOND)
        before = snapshot(self.store)
        result = run("repair", self.store)
        self.assertEqual(result.exit_code, 1)
        self.assertIn(
            "damage at offset 102133 (unknown magic 3f3f3f3f); valid records resume at 102363", result.output
        )
        self.assertIn("nothing was changed", result.output)
        after = snapshot(self.store)
        after.pop("lock")
        self.assertEqual(after, before)

    def test_every_byte_cut_is_kept(self) -> None:
        damaged = self.damage(FIRST)
        result = run("repair", self.store, "--yes", "--json")
        self.assertEqual(result.exit_code, 0, result.output)
        plan = json.loads(result.stdout)
        side = self.store / "repair" / "00000000000000004958-00000000000000111713.bin"
        self.assertEqual(plan["sideFile"], str(side.resolve()))
        self.assertEqual(side.read_bytes(), damaged[FIRST:GOLDEN_END])
        self.assertEqual(self.log_bytes(), damaged[:FIRST].ljust(65536, b"\0"))
        note = json.loads(side.with_suffix(".json").read_text())
        self.assertEqual(
            (note["offset"], note["end"], note["bytes"]), (FIRST, GOLDEN_END, GOLDEN_END - FIRST)
        )
        self.assertEqual((note["records"], note["resumesAt"]), (246 - 13, 5400))

    def test_store_starts_afterwards_and_agrees_with_itself(self) -> None:
        self.damage(SECOND)
        error = self.refused(lambda: start_store(self.store))
        self.assertEqual((error.offset, error.resumes_at), (SECOND, 102363))
        self.assertEqual(run("repair", self.store, "--yes").exit_code, 0)
        report = start_store(self.store)
        self.assertEqual((report.end, report.torn_bytes), (SECOND, 0))
        checked = run("check", self.store)
        self.assertEqual(checked.exit_code, 0, checked.output)

    def test_store_that_was_killed_starts_as_well(self) -> None:
        self.damage(SECOND)
        (self.store / "abort").touch()
        self.refused(lambda: start_store(self.store))
        self.assertEqual(run("repair", self.store, "--yes").exit_code, 0)
        self.assertEqual(start_store(self.store).end, SECOND)
        self.assertEqual(run("check", self.store).exit_code, 0)

    def test_a_masters_log_may_still_have_messages_of_its_own(self) -> None:
        """As a slave it gives none of them out before it knows; that all is there it says no more."""
        for unclean in (False, True):
            store = self.store = golden_copy(self.mktemp())
            last = LastRun(PosixFileSystem(), str(store), "monday")
            last.serve(master=True)
            if not unclean:
                last.stop(SECOND)
            self.damage(SECOND)
            self.assertEqual(run("repair", store, "--yes").exit_code, 0)
            last = LastRun(PosixFileSystem(), str(store), "monday")
            self.assertFalse(last.same_boot)
            last.compare(RecoveryReport(unclean, end=SECOND))
            self.assertFalse(last.serve(master=False))
            self.assertTrue(last.own)
            self.assertFalse(last.serve(master=True))

    def test_damage_at_a_file_start_removes_the_file(self) -> None:
        damaged = self.damage(65536)
        self.assertEqual(run("repair", self.store, "--yes").exit_code, 0)
        self.assertEqual(self.log_bytes(), damaged[:65536])
        self.assertEqual(start_store(self.store).end, 65536)

    def test_nothing_to_repair(self) -> None:
        for tail in (b"", b"\0\0\1\0\xda\xa3\x20\xa7half a record"):
            overwrite(self.store, GOLDEN_END, tail)
            result = run("repair", self.store, "--yes")
            self.assertEqual((result.exit_code, result.output), (0, "no damage: nothing to repair\n"))
        self.assertEqual(run("repair", self.store, "--json").output, "null\n")
        self.assertFalse((self.store / "repair").exists())

    def test_several_damages_must_be_chosen_from(self) -> None:
        damaged = self.damage(FIRST, SECOND)
        result = run("repair", self.store, "--yes")
        self.assertEqual(result.exit_code, 2)
        self.assertIn("damage at 2 offsets (4958, 102133): choose one with --at", result.stderr)
        self.assertEqual(run("repair", self.store, "--yes", "--at", 5).exit_code, 2)
        self.assertEqual(self.log_bytes(), damaged)
        self.assertEqual(run("repair", self.store, "--yes", "--at", SECOND).exit_code, 0)
        self.assertEqual(self.log_bytes()[:SECOND], damaged[:SECOND])
        self.assertEqual(self.log_bytes()[SECOND:].strip(b"\0"), b"")

    def test_earlier_side_file_is_never_overwritten(self) -> None:
        damaged = self.damage(SECOND)
        run("repair", self.store, "--yes")
        (path,) = (self.store / "commitlog").glob("*65536")
        (side,) = (self.store / "repair").glob("*.bin")
        kept = side.read_bytes()
        for other in (kept[:-1] + b"!", kept[:-1]):
            path.write_bytes(damaged[65536:])
            side.write_bytes(other)
            result = run("repair", self.store, "--yes")
            self.assertEqual(result.exit_code, 2)
            self.assertIn("the only copy of bytes that were cut earlier", result.stderr)
            self.assertEqual(self.log_bytes(), damaged)
            self.assertEqual(side.read_bytes(), other)

    def test_a_cut_that_was_interrupted_when_all_was_kept_goes_on(self) -> None:
        damaged = self.damage(SECOND)
        run("repair", self.store, "--yes")
        cut = self.log_bytes()
        (path,) = (self.store / "commitlog").glob("*65536")
        (side,) = (self.store / "repair").glob("*.bin")
        kept = side.read_bytes()
        for zeros in (0, 100):
            path.write_bytes(damaged[65536:])
            overwrite(self.store, SECOND + 2000, bytes(zeros))
            side.with_suffix(".json").unlink()
            result = run("repair", self.store, "--yes", "--at", SECOND)
            self.assertEqual(result.exit_code, 0, result.output)
            self.assertEqual(self.log_bytes(), cut)
            self.assertEqual(side.read_bytes(), kept)
            self.assertTrue(side.with_suffix(".json").exists())

    def test_no_room_for_the_side_file(self) -> None:
        damaged = self.damage(SECOND)
        self.patch(PosixFileSystem, "usage", lambda fs, path: (1 << 30, 100))
        result = run("repair", self.store, "--yes")
        self.assertEqual(result.exit_code, 2)
        self.assertIn("has 100 bytes free, but 9580 are needed", result.stderr)
        self.assertEqual(self.log_bytes(), damaged)

    def test_golden_store_itself_needs_no_repair(self) -> None:
        self.assertEqual(
            self.original,
            b"".join(path.read_bytes() for path in sorted((GOLDEN / "slave" / "commitlog").iterdir())),
        )
        self.assertEqual(run("repair", self.store).exit_code, 0)
