"""What commits say of themselves is told of the version that was opened, and read once."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from deltalake import DeltaTable
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.delta import notes as notes_
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.notes import AT_ONCE, Notes
from hatwisted.pipeline.delta.tablefolder import TableFolder
from tests.tables.delta.tables import Run, commit_as_before, rows, write_commit


class TestNotes(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()
        self.run_ = Run(self.path)

    def batches(self, notes: Notes) -> list[tuple[int, int]]:
        """(version, batch)"""
        return [(note.version, note.said["batch"]) for note in notes.all() if "batch" in note.said]

    def test_commits_since_it_was_opened_are_not_told(self) -> None:
        self.run_.land(0, rows(0, 10))
        notes = Notes(self.path)
        self.run_.land(1, rows(10, 10))
        self.assertEqual(self.batches(notes), [(2, 0)])
        self.assertEqual(self.batches(Notes(self.path)), [(3, 1), (2, 0)])

    def test_each_commit_is_read_once(self) -> None:
        self.run_.land(0, rows(0, 10))
        for _ in range(30):
            write_commit(self.path, "WRITE")
        read, commit = [], TableFolder.commit

        def counted(folder: TableFolder, version: int) -> bytes:
            read.append(version)
            return commit(folder, version)

        notes = Notes(self.path)
        with patch.object(TableFolder, "commit", counted):
            for _ in range(2):
                self.assertFalse(notes.was_taken_back("app", self.run_.claim.note))
                self.assertEqual(next(iter(notes))["batch"], 0)
            self.assertEqual(read, list(range(32, 1, -1)))
            for _ in range(2):
                self.assertEqual(self.batches(notes), [(2, 0)])
            self.assertEqual(read, list(range(32, -1, -1)))

    def test_of_an_object_store_some_are_read_at_a_time(self) -> None:
        for number in range(3 * AT_ONCE):
            commit_as_before(self.path, {"batch": number})
        with patch.object(notes_, "is_remote", return_value=True):
            notes = Notes(self.path)
            found = self.batches(notes)
        self.assertEqual(found, [(number + 2, number) for number in reversed(range(3 * AT_ONCE))])

    def test_what_has_expired_ends_it(self) -> None:
        for number in range(4):
            self.run_.land(number, rows(10 * number, 10))
        DeltaTable(self.path).create_checkpoint()
        for version in range(4):
            Path(self.path, "_delta_log", f"{version:020}.json").unlink()
        self.assertEqual(self.batches(Notes(self.path)), [(5, 3), (4, 2)])
        self.assertFalse(Notes(self.path).was_taken_back("other"))

    def test_restored_versions_take_back_what_came_after_them(self) -> None:
        for number in range(3):
            self.run_.land(number, rows(10 * number, 10))
        DeltaTable(self.path).restore(3)
        self.assertEqual([note["batch"] for note in Notes(self.path) if "batch" in note], [1, 0])
        self.assertTrue(Notes(self.path).was_taken_back("app"))
        write_commit(self.path, "RESTORE", operationParameters={"version": "4"})
        self.assertFalse(Notes(self.path).was_taken_back("app"))
        for how in ({"timestamp": "x"}, {"version": "x"}, {}):
            write_commit(self.path, "RESTORE", operationParameters=how)
            self.assertTrue(Notes(self.path).was_taken_back("app"))

    def test_what_is_no_commit_is_told(self) -> None:
        self.run_.land(0, rows(0, 10))
        DeltaTable(self.path).create_checkpoint()
        log = Path(self.path, "_delta_log")
        for text in ('{"commitInfo": {"hatwisted"', '{"commitInfo": "hatwisted' + "[" * 10):
            (log / f"{1:020}.json").write_text(text)
            error = self.assertRaises(WrongTable, list, Notes(self.path))
            self.assertIn("its history can't be read: commit 1 isn't JSON", str(error))
        (log / f"{1:020}.json").write_text('[1, "commitInfo", "hatwisted"]\n{"commitInfo": ["hatwisted"]}')
        self.assertEqual(len(list(Notes(self.path))), 1)
        (log / f"{1:020}.json").unlink()
        (log / f"{1:020}.json").mkdir()
        error = self.assertRaises(WrongTable, list, Notes(self.path))
        self.assertIn("its history can't be read", str(error))
