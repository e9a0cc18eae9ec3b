"""Items of the index: the compiled twin links them into the same chains as the index file does by columns."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.index import indexfile
from hatwisted.store.index.indexfile import HEADER, ITEM, MAX_SECONDS, IndexFile, file_length
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, twins

SLOTS, ITEMS = 7, 60
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
item = st.tuples(
    st.integers(0, 20) | st.integers(0, (1 << 31) - 1),
    st.integers(0, (1 << 63) - 1),
    st.integers(1_000, 9_000_000) | int64,
)


def columns(items: list[tuple[int, int, int]]) -> tuple[Any, Any, Any]:
    hashes, physical, timestamps = zip(*items, strict=True)
    return np.array(hashes, np.int32), np.array(physical, np.int64), np.array(timestamps, np.int64)


class IndexFileTests(SynchronousTestCase):
    def filled(self, twin: Any, batches: list[list[tuple[int, int, int]]], begin: int) -> tuple[Any, ...]:
        """What a file of this twin's holds after these batches, and what it says of itself."""
        self.patch(indexfile, "ItemLinker", twin.ItemLinker)
        path = self.mktemp()
        with open(path, "wb") as raw:
            raw.truncate(file_length(SLOTS, ITEMS))
        file = IndexFile(PosixFileSystem().open(path), path, SLOTS, ITEMS)
        file.preset(begin, 0)
        for batch in batches:
            file.append(*columns(batch))
        told = (file.count, file.slots_used, file.begin_timestamp, file.end_timestamp, file.end_physical)
        file.close()
        with open(path, "rb") as raw:
            return *told, raw.read()

    @examples(60)
    @given(st.lists(st.lists(item, min_size=1, max_size=40), max_size=4), st.integers(0, 2000))
    def test_both_twins_fill_the_same_file(
        self, batches: list[list[tuple[int, int, int]]], begin: int
    ) -> None:
        first, *others = [self.filled(twin, batches, begin) for twin in twins()]
        for other in others:
            self.assertEqual(other, first)


class LinkerTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.linker = compiled().ItemLinker(HEADER.size, 4)

    def link(self, heads: list[int], first: int, begin: int, *items: tuple[int, int, int]) -> Any:
        pages = bytes(HEADER.size) + struct.pack(">4i", *heads)
        return self.linker.link(memoryview(pages), first, begin, *columns(list(items)))

    def test_items_follow_the_newest_of_their_slot(self) -> None:
        items, slots, values, unused = self.link(
            [0, 8, 9, -1], 9, 5000, (5, 70, 5000), (1, 71, 7999), (6, 72, 4999), (3, 73, 1 << 62)
        )
        self.assertEqual(
            list(ITEM.iter_unpack(items)),
            [(5, 70, 0, 8), (1, 71, 2, 9), (6, 72, 0, 0), (3, 73, MAX_SECONDS, 0)],
        )
        self.assertEqual(np.frombuffer(slots, np.int64).tolist(), [1, 2, 3])
        self.assertEqual(struct.unpack(">3i", values), (10, 11, 12))
        self.assertEqual(unused, 2)  # 9 isn't below the first, hence a leftover

    def test_without_a_beginning_no_seconds_are_counted(self) -> None:
        for begin in (0, -5):
            items, *_ = self.link([0] * 4, 2, begin, (5, 70, 90_000))
            self.assertEqual(list(ITEM.iter_unpack(items)), [(5, 70, 0, 0)])

    def test_a_hash_below_zero_has_a_slot_too(self) -> None:
        _, slots, _, _ = self.link([0] * 4, 2, 1, (-1, 70, 1))
        self.assertEqual(np.frombuffer(slots, np.int64).tolist(), [3])

    def test_what_cant_be_is_refused(self) -> None:
        pages, good = memoryview(bytes(HEADER.size + 16)), columns([(1, 2, 3), (4, 5, 6)])
        link = self.linker.link
        for wrong in (
            (pages[:-1], 2, 1, *good),
            (pages, 0, 1, *good),
            (pages, (1 << 31) - 2, 1, *good),
            (pages, 2, 1, good[0][:1], *good[1:]),
            (pages, 2, 1, good[0], good[1][:1], good[2]),
            (pages, 2, 1, *(column[:0] for column in good)),
            (pages, 2, 1, good[0].astype(np.int64), *good[1:]),
        ):
            self.assertRaises(ValueError, link, *wrong)
        self.assertRaises(TypeError, link, None, 2, 1, *good)
        for slots_at, count in ((-1, 4), (40, 0), (40, 1 << 31)):
            self.assertRaises(ValueError, compiled().ItemLinker, slots_at, count)
