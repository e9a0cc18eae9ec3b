"""What sizes a store was made with, taken from its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.index.indexfile import IndexFile, file_length
from hatwisted.store.lifecycle.filesizes import common_size, index_shape, queue_file_size
from hatwisted.wire.layout import file_name


class FileSizeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fs = PosixFileSystem()
        self.folder = Path(self.mktemp())
        self.folder.mkdir()

    def file(self, *names: str, size: int) -> None:
        path = self.folder.joinpath(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))

    def test_the_size_that_most_have(self) -> None:
        self.assertIsNone(common_size(self.fs, str(self.folder)))
        for number, size in enumerate((100, 200, 200, 0, 0, 0)):
            self.file(file_name(1000 * number), size=size)
        for name in ("a", "b", "c"):
            self.file(name, size=7)
        self.assertEqual(common_size(self.fs, str(self.folder)), 200)

    def test_of_queues_the_first_that_has_files(self) -> None:
        self.assertIsNone(queue_file_size(self.fs, str(self.folder)))
        self.file("A", size=3)
        self.file("B", "stray", size=4)
        (self.folder / "C" / "0").mkdir(parents=True)
        self.file("D", "0", file_name(0), size=0)
        self.assertIsNone(queue_file_size(self.fs, str(self.folder)))
        self.file("E", "0", file_name(0), size=400)
        self.file("F", "0", file_name(0), size=600)
        self.assertEqual(queue_file_size(self.fs, str(self.folder)), 400)

    def test_an_index_files_slots_and_items_where_its_length_fits(self) -> None:
        self.assertIsNone(index_shape(self.fs, str(self.folder)))
        for size, found in (
            (file_length(7, 28), (7, 28)),
            (file_length(1, 4), (1, 4)),
            (file_length(7, 28) + 1, None),
            (file_length(0, 0), None),
            (0, None),
        ):
            self.file("20240101000000000", size=size)
            self.file("20240101000000001", size=file_length(9, 36))
            self.assertEqual(index_shape(self.fs, str(self.folder)), found)

    def index(self, slots: int, items: int, count: int) -> Path:
        """An index file with so many items."""
        path = self.folder / "20240101000000000"
        path.write_bytes(bytes(file_length(slots, items)))
        file = IndexFile(self.fs.open(str(path)), str(path), slots, items)
        numbers = np.arange(count, dtype=np.int64)
        hashes = (numbers * 7919 % 1009).astype(np.int32)
        file.append(hashes, 1000 + numbers * 100, 1_700_000_000_000 + numbers * 1000)
        file.close()
        return path

    def test_items_tell_any_shape(self) -> None:
        for slots, items, count in ((10, 50, 30), (7, 40, 39), (100, 30, 2), (3, 4000, 3999), (5, 20, 9)):
            self.index(slots, items, count)
            self.assertEqual(index_shape(self.fs, str(self.folder)), (slots, items))

    def test_items_that_fit_nowhere_tell_nothing(self) -> None:
        path = self.index(10, 50, 30)
        data = bytearray(path.read_bytes())
        data[16:24] = (12345).to_bytes(8, "big")
        path.write_bytes(data)
        self.assertIsNone(index_shape(self.fs, str(self.folder)))
        path.write_bytes(data[:20])
        self.assertIsNone(index_shape(self.fs, str(self.folder)))
