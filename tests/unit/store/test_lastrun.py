"""What a run leaves for the next one to know whether anything can be missing (B165)."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.lifecycle.lastrun import MAX_BYTES, LastRun
from hatwisted.store.lifecycle.recovery import RecoveryReport

KILLED, STOPPED = RecoveryReport(unclean=True, end=700), RecoveryReport(unclean=False, end=700)


class LastRunTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        self.root.mkdir()
        self.run_of("monday", STOPPED)

    def run_of(self, boot: str, report: RecoveryReport, master: bool = True) -> bool:
        """A run begins; is the store known to be complete?"""
        self.last = LastRun(PosixFileSystem(), str(self.root), boot)
        self.last.compare(report)
        return self.last.serve(master)

    def test_the_first_run_knows_nothing(self) -> None:
        (self.root / "lastrun").unlink()
        self.assertFalse(self.run_of("monday", STOPPED))

    def test_a_file_that_is_too_long_is_nobody_s(self) -> None:
        path = self.root / "lastrun"
        content = path.read_bytes()
        for size, known in ((MAX_BYTES, True), (MAX_BYTES + 1, False)):
            for padded in (content.rjust(size), content.ljust(size)):
                path.write_bytes(padded)
                self.assertEqual(self.run_of("monday", KILLED), known)

    def test_killed_and_started_again(self) -> None:
        self.assertTrue(self.run_of("monday", KILLED))

    def test_the_system_has_been_started_again(self) -> None:
        self.assertFalse(self.run_of("tuesday", KILLED))

    def test_recovery_had_to_cut_records(self) -> None:
        cut = RecoveryReport(unclean=True, end=500, kept_aside="repair/500.bin")
        self.assertFalse(self.run_of("monday", cut))

    def test_an_orderly_stop_outlives_the_system(self) -> None:
        self.last.stop(700)
        self.assertTrue(self.run_of("tuesday", STOPPED))

    def test_another_program_has_had_the_store_since(self) -> None:
        self.last.stop(600)
        self.assertFalse(self.run_of("monday", STOPPED))

    def test_another_program_has_stopped_it(self) -> None:
        self.assertFalse(self.run_of("monday", STOPPED))

    def test_it_was_a_slaves(self) -> None:
        self.run_of("monday", KILLED, master=False)
        self.assertFalse(self.run_of("monday", KILLED))

    def test_a_slave_is_never_asked(self) -> None:
        self.assertFalse(self.run_of("monday", KILLED, master=False))

    def test_a_slave_that_becomes_master_while_it_runs(self) -> None:
        self.run_of("monday", KILLED, master=False)
        self.assertFalse(self.last.serve(master=True))

    def test_an_answer_counts_once(self) -> None:
        self.run_of("monday", KILLED)
        self.last.serve(master=False)
        self.assertFalse(self.last.serve(master=True))

    def test_no_file_of_ours(self) -> None:
        for content in (b"", b"[1]", b"\xff", b'{"master": true', b"[" * 4096):
            (self.root / "lastrun").write_bytes(content)
            self.assertFalse(self.run_of("monday", KILLED), content)

    def test_a_disk_that_takes_nothing_leaves_no_old_word(self) -> None:
        (self.root / "lastrun.tmp").mkdir()
        self.last.serve(master=False)
        self.assertFalse((self.root / "lastrun").exists())
