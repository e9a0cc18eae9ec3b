"""`hatwisted log compare` and `log cut`: where two logs part, and one of them made the other's slave again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.support.clistores import golden_copy, overwrite, run, snapshot, start_store, write_log
from tests.support.golden import GOLDEN_END

BODIES = [bytes([65 + n]) * (100 + 13 * n) for n in range(60)]
OWN = [bytes([97 + n]) * (150 + 7 * n) for n in range(20)]


class DivergenceCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.one, self.other = self.folder / "one", self.folder / "other"

    def compared(self, one: Path, other: Path) -> tuple[int, dict[str, object]]:
        result = run("compare", one, other, "--json")
        return result.exit_code, json.loads(result.stdout)

    def log_bytes(self, store: Path) -> bytes:
        return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))

    def apart(self, common: int) -> int:
        """Two stores with `common` records in common and different ones after those; where they part."""
        one = write_log(self.one, BODIES)
        write_log(self.other, [*BODIES[:common], *OWN])
        return one.records[common].physical_offset


class CompareTests(DivergenceCase):
    def test_a_copy_that_is_behind_fits(self) -> None:
        write_log(self.one, BODIES)
        end = write_log(self.other, BODIES[:50]).end
        for pair in ((self.one, self.other), (self.other, self.one)):
            code, found = self.compared(*pair)
            self.assertEqual((code, found["equalTo"], found["differsAt"]), (0, end, None))
        behind = [side["recordsAfter"] for side in self.compared(self.one, self.other)[1]["sides"]]
        self.assertEqual(behind, [10, 0])
        self.assertIn(
            "the shorter log is a copy of the longer one", run("compare", self.one, self.other).output
        )

    def test_the_golden_pair_and_a_slave_that_lacks_older_files(self) -> None:
        master, slave = golden_copy(str(self.one)), golden_copy(str(self.other), "slave")
        self.assertEqual(self.compared(master, slave)[1]["equalTo"], GOLDEN_END)
        (slave / "commitlog" / "00000000000000000000").unlink()
        code, found = self.compared(master, slave)
        self.assertEqual((code, found["begin"], found["equalTo"]), (0, 65536, GOLDEN_END))

    def test_B140_B141_where_they_part_is_the_end_of_a_record_of_both(self) -> None:
        for common in (1, 7, 8, 33, 59):
            offset = self.apart(common)
            code, found = self.compared(self.one, self.other)
            self.assertEqual((code, found["equalTo"]), (1, offset), common)
            self.assertGreaterEqual(found["differsAt"], offset)
            mine, theirs = found["sides"]
            self.assertEqual((mine["recordsAfter"], theirs["recordsAfter"]), (60 - common, 20))
            shutil.rmtree(self.folder)

    def test_it_says_what_to_do_and_changes_nothing(self) -> None:
        offset = self.apart(33)
        before = snapshot(self.folder)
        output = run("compare", self.one, self.other).output
        self.assertIn("the logs have diverged", output)
        self.assertIn(f"hatwisted log cut {self.one} --at {offset} --yes", output)
        self.assertEqual(snapshot(self.folder), before)

    def test_logs_that_cannot_be_copies(self) -> None:
        write_log(self.one, BODIES)
        write_log(self.other, BODIES, file_size=8192)
        result = run("compare", self.one, self.other)
        self.assertEqual(result.exit_code, 2)
        self.assertIn("logs with files of 4096 and of 8192 bytes can't be copies", result.stderr)

    def test_logs_without_a_common_offset(self) -> None:
        write_log(self.one, BODIES)
        write_log(self.other, BODIES[:5])
        (self.one / "commitlog" / "00000000000000000000").unlink()
        result = run("compare", self.one, self.other)
        self.assertEqual(result.exit_code, 2)
        self.assertIn("the logs share no offset", result.stderr)

    def test_a_damaged_log_is_no_shorter_copy(self) -> None:
        written = write_log(self.one, BODIES)
        write_log(self.other, BODIES)
        overwrite(self.one, written.records[55].physical_offset + 4, b"????", 4096)
        result = run("compare", self.one, self.other)
        self.assertEqual(result.exit_code, 2)
        self.assertIn(f"is damaged at offset {written.records[55].physical_offset}", result.stderr)


class CutTests(DivergenceCase):
    def test_B160_cut_to_what_both_have_it_fits_and_every_byte_cut_is_kept(self) -> None:
        offset = self.apart(33)
        before = self.log_bytes(self.other)
        result = run("cut", self.other, "--at", offset, "--yes", "--json")
        self.assertEqual(result.exit_code, 0, result.output)
        plan = json.loads(result.stdout)
        self.assertEqual((plan["offset"], plan["records"], plan["done"]), (offset, 20, True))
        self.assertEqual(Path(plan["sideFile"]).read_bytes(), before[offset : plan["end"]])
        self.assertEqual(self.compared(self.one, self.other)[0], 0)

    def test_a_store_starts_afterwards_and_agrees_with_itself(self) -> None:
        for unclean in (False, True):
            store = golden_copy(str(self.folder / f"unclean-{unclean}"))
            if unclean:
                (store / "abort").touch()
            self.assertEqual(run("cut", store, "--at", 102133, "--yes").exit_code, 0)
            report = start_store(store)
            self.assertEqual((report.end, report.torn_bytes), (102133, 0))
            checked = run("check", store)
            self.assertEqual(checked.exit_code, 0, checked.output)

    def test_at_the_begin_of_a_file(self) -> None:
        store = golden_copy(str(self.one))
        self.assertEqual(run("cut", store, "--at", 65536, "--yes").exit_code, 0)
        self.assertEqual(start_store(store).end, 65536)

    def test_the_plan_changes_nothing(self) -> None:
        offset = self.apart(33)
        before = snapshot(self.one)
        result = run("cut", self.one, "--at", offset)
        self.assertEqual(result.exit_code, 1)
        self.assertIn("27 records", result.output)
        self.assertIn("nothing was changed; add --yes", result.output)
        after = snapshot(self.one)
        after.pop("lock")
        self.assertEqual(after, before)

    def test_only_where_a_record_ends_and_something_is_left_and_something_goes(self) -> None:
        written = write_log(self.one, BODIES)
        before = self.log_bytes(self.one)
        inside = written.records[33].physical_offset
        for at, said in (
            (
                inside + 1,
                f"no record ends at {inside + 1}; the last offset before it where one does is {inside}",
            ),
            (written.end, f"the log already ends at {written.end}"),
            (written.end + 1, f"no record ends at {written.end + 1}"),
            (1 << 40, "no record ends at"),
        ):
            result = run("cut", self.one, "--at", at, "--yes")
            self.assertEqual(result.exit_code, 2, result.output)
            self.assertIn(said, result.stderr)
        (self.one / "commitlog" / "00000000000000000000").unlink()
        self.assertIn("nothing would be left", run("cut", self.one, "--at", 4096, "--yes").stderr)
        self.assertEqual(self.log_bytes(self.one), before[4096:])
