"""Where an export may go: what is no export is never replaced by one."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import TestCase

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.messages.exportplace import check_free, place_of
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
