"""Where an export may go: what is no export is never replaced by one."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import TestCase, mock

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.messages.exportplace import check_free, is_movable, move_in, place_of
from tests.support.golden import GOLDEN


class PlaceTests(TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(TemporaryDirectory()))

    def assertRefused(self, said, out, overwrite=True, stores=()):
        with self.assertRaisesRegex(PipelineError, said):
            check_free(str(out), overwrite, stores)

    def exported(self):
        out = self.folder / "out"
        out.mkdir()
        for name in ("part-00000-1.json", ".part-00000-1.json.crc", "_SUCCESS", "._SUCCESS.crc"):
            (out / name).touch()
        (out / "_temporary").mkdir()
        return out

    def test_a_store_is_never_overwritten(self):
        store = self.folder / "data" / "store"
        shutil.copytree(GOLDEN / "master", store)
        for out in (store, store / "commitlog", store / "consumequeue", store.parent, self.folder):
            self.assertRefused("is no part of an export", out)
        self.assertRefused("is no part of an export", f"file://{store}")
        self.assertRefused("isn't a folder", next((store / "commitlog").iterdir()))

    def test_an_earlier_export_is_if_that_is_asked_for(self):
        out = self.exported()
        self.assertRefused("already exists", out, overwrite=False)
        self.assertRefused("already exists", f"file:{out}", overwrite=False)
        self.assertRefused("already exists", f"file://{out}", overwrite=False)
        check_free(str(out), True)
        (out / "notes.txt").touch()
        self.assertRefused("has notes.txt", out)

    def test_what_is_new_or_empty_is_free(self):
        for overwrite in (False, True):
            check_free(str(self.folder), overwrite)
            check_free(str(self.folder / "new"), overwrite)
            check_free(str(self.folder / "new.csv"), overwrite)

    def test_a_file_replaces_a_file(self):
        out = self.folder / "m.csv"
        out.write_text("mine")
        self.assertRefused("already exists", out, overwrite=False)
        check_free(str(out), True)
        (self.folder / "n.csv").mkdir()
        self.assertRefused("isn't a file", self.folder / "n.csv")

    def test_one_file_is_not_written_to_an_object_store(self):
        self.assertRefused("one file is written on this machine only", "s3://bucket/m.ndjson", False)
        check_free("s3://bucket/messages", False)

    def test_a_store_at_an_object_store_is_not_overwritten(self):
        for out in ("s3://b/stores/a", "s3://b/stores/", "s3://b/stores/a/commitlog"):
            self.assertRefused("is where the messages are read from", out, stores=["s3://b/stores/a/"])
        check_free("s3://b/stores/ab", True, ["s3://b/stores/a"])

    def test_this_machine_s_own_files_have_no_scheme(self):
        for out, wanted in (
            ("file:///a/b", "/a/b"),
            ("file:/a/b", "/a/b"),
            ("/a/file:/b", "/a/file:/b"),
            ("a/b", "a/b"),
            ("s3://b/c", "s3://b/c"),
        ):
            self.assertEqual(place_of(out), wanted)


class MoveTests(TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        self.out = self.folder / "out"

    def export(self, out, text, check=lambda: None):
        def write(draft):
            os.mkdir(draft)
            for name in ("part-0", "_SUCCESS"):
                Path(draft, name).write_text(text)

        return move_in(str(out), write, check)

    def there(self):
        """What is visible and what isn't, but for the old one, which is to stay until the new one is there."""
        return sorted(path.name for path in self.folder.iterdir())

    def test_a_folder_appears_or_takes_another_ones_place_when_it_is_whole(self):
        for text in ("old", "new"):
            self.assertEqual(self.export(self.out, text), [str(self.out / "part-0")])
            self.assertEqual((self.out / "part-0").read_text(), text)
            self.assertEqual(self.there(), ["out"])

    def test_an_empty_folder_is_filled_and_keeps_its_mode(self):
        self.out.mkdir(mode=0o750)
        self.export(self.out, "new")
        self.assertEqual(self.out.stat().st_mode & 0o777, 0o750)

    def test_a_link_stays_one(self):
        self.out.symlink_to("elsewhere")
        (self.folder / "elsewhere").mkdir()
        self.export(self.out, "new")
        self.assertTrue(self.out.is_symlink())
        self.assertEqual((self.folder / "elsewhere" / "part-0").read_text(), "new")

    def test_whatever_fails_the_old_one_stays(self):
        def refuse():
            raise ValueError

        for out, file in ((self.out, self.out / "part-0"), (self.folder / "m.csv", self.folder / "m.csv")):
            self.export(out, "old")
            before = self.there()
            for check, write in ((refuse, None), (lambda: None, refuse)):
                with self.assertRaises(ValueError):
                    if write is None:
                        self.export(out, "new", check)
                    else:
                        move_in(str(out), lambda draft: refuse(), check)
                self.assertEqual((file.read_text(), self.there()), ("old", before))

    def test_a_folder_that_can_not_be_moved_there_gives_the_old_one_back(self):
        self.export(self.out, "old")
        renamed, rename = [], os.rename

        def fail_third(source, target):
            renamed.append(target)
            if len(renamed) == 3:
                raise OSError
            rename(source, target)

        with mock.patch.object(os, "rename", fail_third), self.assertRaises(OSError):
            self.export(self.out, "new")
        self.assertEqual(((self.out / "part-0").read_text(), self.there()), ("old", ["out"]))
        self.assertEqual(len(renamed), 4)

    def test_nothing_is_moved_to_an_object_store_or_a_mount_point(self):
        self.assertTrue(is_movable(str(self.out)))
        self.assertTrue(is_movable(str(self.out / "deeper" / "still")))
        self.assertFalse(is_movable("s3://bucket/out"))
        self.assertFalse(is_movable("/proc"))
