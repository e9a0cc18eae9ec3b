"""What a table's folder holds, as stores show it that have no folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

from fsspec.implementations.local import LocalFileSystem
from pyarrow import fs
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.delta import tablefolder
from hatwisted.pipeline.delta.tablefolder import TableFolder


class Flat(fs.FSSpecHandler):
    """As Google's store by pyarrow: a folder that nobody has made as such isn't listed."""

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = super().get_file_info_selector(selector)
        return [info for info in found if info.type is fs.FileType.File]


class TestOthers(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        self.root.mkdir()
        place: Any = (fs.PyFileSystem(Flat(LocalFileSystem())), str(self.root))
        self.enterContext(mock.patch.object(tablefolder, "_filesystem", lambda path: place))

    def has_others(self, *files: str) -> bool:
        for file in files:
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            (self.root / file).touch()
        return TableFolder("gs://lake/messages").has_others()

    def test_nothing_and_what_is_aside_is_nobody_s(self) -> None:
        self.assertFalse(self.has_others())
        self.assertFalse(self.has_others("_landing/state", "_delta_log/0.json", ".hidden"))

    def test_a_file_below_a_folder_that_is_not_listed_is(self) -> None:
        self.assertTrue(self.has_others("_delta_log/0.json", "mine/letters/a.txt"))
