"""The property areas of many records, parsed at once.

The areas lie in one buffer with a 02 before each and after the last, so that every property lies between
two 02 and has its first 01 after its name. Numpy finds all 01 and 02 at once; a name is recognised by looking at
the eight bytes where it begins; values are returned as substrings. Nothing is decoded, and no property is
touched in Python. The rules are those of `wire.properties`, with which the tests compare: split at 02, the name
ends at the first 01, pairs with an empty name or value are ignored, the last of a repeated name wins.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.octets import Longs
from hatwisted.logcodec.scan import Records
from hatwisted.wire import layout

PAD: Final = bytes(8)
"""Padding before the first 02 and after the last: a name is read eight bytes at a time."""

_WORD: Final = 8
_BLANK: Final = ord(layout.KEY_SEPARATOR)


class Spans(NamedTuple):
    """Substrings of the joined areas: owning row, start and end of each. int64[k] each."""

    rows: Longs
    starts: Longs
    ends: Longs


def join_areas(records: Records) -> tuple[bytes, Longs]:
    """The records' property areas as PropertyAreas wants them."""
    starts, ends, buf = records.properties_at, records.ends, records.buf
    areas = [buf[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    lengths = ends - starts
    # Each comes after its predecessors with one mark each, and its own mark.
    return b"\x02".join((PAD, *areas, PAD)), np.cumsum(lengths + 1) - lengths + len(PAD)


class PropertyAreas:
    """All pairs in the areas that begin at `area_at` of `data` (bytes or an array of them), padded."""

    def __init__(self, data: Any, area_at: Longs) -> None:
        self.data = data
        self.area_at = area_at
        self.octets: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        # 01 and 02 only: 00 wraps around to 255.
        marks = ((self.octets - np.uint8(1)) <= 1).nonzero()[0]
        kinds = self.octets[marks]
        self.name_at, self.name_ends, self.value_ends = _alternating(marks, kinds) or _pairs(marks, kinds)

    def __len__(self) -> int:
        return len(self.area_at)

    @cached_property
    def words(self) -> npt.NDArray[np.uint64]:
        """The eight bytes where each name begins, as a number."""
        every = np.ndarray((len(self.octets) - _WORD + 1,), ">u8", self.data, 0, (1,))
        words: npt.NDArray[np.uint64] = every[self.name_at].astype(np.uint64)
        return words

    def find(self, name: str) -> Spans:
        """The values of one name (at most eight bytes): per record the last that isn't empty."""
        raw = name.encode() + (b"\x01" if len(name) < _WORD else b"")
        shift = np.uint64(64 - 8 * len(raw))
        word = np.uint64(int.from_bytes(raw, "big"))
        found = ((self.words >> shift if shift else self.words) == word).nonzero()[0]
        starts, ends = self.name_ends[found] + 1, self.value_ends[found]
        wanted = ends > starts
        if not shift:
            wanted &= starts - self.name_at[found] == _WORD + 1
        if not wanted.all():
            starts, ends = starts[wanted], ends[wanted]
        area_at = self.area_at
        if len(starts) == len(area_at) and (starts >= area_at).all() and (starts[:-1] < area_at[1:]).all():
            # One in each record, as usual.
            return Spans(np.arange(len(starts)), starts, ends)
        rows: Longs = np.searchsorted(area_at, starts, "right") - 1
        last = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=last[:-1])
        return Spans(rows[last], starts[last], ends[last])

    def split_keys(self, spans: Spans) -> Spans:
        """The parts of KEYS values between blanks, empty ones left out."""
        if isinstance(self.data, bytes) and b" " not in self.data:
            return spans
        blanks = (self.octets == _BLANK).nonzero()[0]
        first = np.searchsorted(blanks, spans.starts)
        counts = np.searchsorted(blanks, spans.ends) - first
        if not counts.any():
            return spans
        owner = np.repeat(np.arange(len(counts)), counts + 1)
        # Which part of its value each is, and so which blank is after it.
        part = np.arange(len(owner)) - np.repeat(np.cumsum(counts + 1) - counts - 1, counts + 1)
        following = first[owner] + part
        starts = np.where(part == 0, spans.starts[owner], blanks[following - 1] + 1)
        ends = np.where(
            part == counts[owner], spans.ends[owner], blanks[np.minimum(following, len(blanks) - 1)]
        )
        kept = ends > starts
        return Spans(spans.rows[owner[kept]], starts[kept], ends[kept])


def _alternating(marks: Longs, kinds: npt.NDArray[np.uint8]) -> tuple[Longs, Longs, Longs] | None:
    """Starts and ends of names and ends of values where every 01 stands between two 02, as it usually does."""
    if not (
        len(marks) % 2 and (kinds[::2] == layout.PAIR_END).all() and (kinds[1::2] == layout.NAME_END).all()
    ):
        return None
    return marks[:-1:2] + 1, marks[1::2].copy(), marks[2::2].copy()


def _pairs(marks: Longs, kinds: npt.NDArray[np.uint8]) -> tuple[Longs, Longs, Longs]:
    """The same for any order of 01 and 02: only the first 01 after a 02 ends a name."""
    named = ((kinds[1:-1] == layout.NAME_END) & (kinds[:-2] == layout.PAIR_END)).nonzero()[0] + 1
    value_ends = marks[named + 1]
    inner = (kinds[named + 1] == layout.NAME_END).nonzero()[0]
    if len(inner):
        # A value that contains 01 ends at the next 02.
        separators = marks[kinds == layout.PAIR_END]
        value_ends[inner] = separators[np.searchsorted(separators, value_ends[inner])]
    return marks[named - 1] + 1, marks[named], value_ends
