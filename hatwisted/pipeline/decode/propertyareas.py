"""The property areas of many records taken apart at once: maps, tags, keys, unique keys.

The areas are joined into one buffer with a 02 between them, so that every property lies between two 02 and has its
first 01 behind its name. Numpy finds all 01 and 02; names and values are then substrings like bodies and topics,
and a map is two arrays of them and an offset per record. No property is touched in Python.

The rules are those of `wire.properties`, which the tests hold against this: split at 02, the name ends at the
first 01, an empty name or value doesn't count, the last of a repeated name wins, broken UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.decode.ragged import Longs, contents, gather, is_ascii, join_separated, texts
from hatwisted.pipeline.decode.schema import arrow_schema
from hatwisted.wire import layout

PAIRWISE: Final = 24
"""Properties of one record up to which each is compared with each that follows it; with more, all are sorted."""

_WORD: Final = 8
"""Bytes of a name looked at by one comparison; the names that matter here are no longer."""
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_BLANK: Final = ord(layout.KEY_SEPARATOR)
_LIST: Final = arrow_schema(("keys",)).field(0).type
_MAP: Final = arrow_schema(("properties",)).field(0).type


class PropertyAreas:
    """Areas [starts, ends) of `octets`, which begins with the prefix of `ragged.new_buffer`; n rows."""

    def __init__(self, octets: npt.NDArray[np.uint8], starts: Longs, ends: Longs) -> None:
        joined = join_separated(octets, starts, ends)
        self._rows = len(starts)
        self._octets = contents(joined)
        self._ascii = is_ascii(joined)
        edges = np.frombuffer(joined.buffers()[1], np.int32)
        self._area_at: Longs = edges[1 : 2 * self._rows + 1 : 2].astype(np.int64)
        # 01 and 02 only: 00 wraps around to 255.
        marks = np.flatnonzero((self._octets - np.uint8(1)) <= 1)
        kinds = self._octets[marks]
        self._name_at, self._name_ends, self._value_ends = _alternating(marks, kinds) or _pairs(marks, kinds)
        self._keep((self._name_ends > self._name_at) & (self._value_ends > self._name_ends + 1))

    def tags(self) -> pa.Array:
        """string[n], null without TAGS."""
        return self._value(layout.PROPERTY_TAGS)

    def unique_keys(self) -> pa.Array:
        """string[n], null without UNIQ_KEY."""
        return self._value(layout.PROPERTY_UNIQ_KEY)

    def keys(self) -> pa.Array:
        """list<string>[n], empty without KEYS: its parts between blanks."""
        row_pairs = self._find(layout.PROPERTY_KEYS)
        rows = np.flatnonzero(row_pairs >= 0)
        starts, ends = self._name_ends[row_pairs[rows]] + 1, self._value_ends[row_pairs[rows]]
        blanks = np.flatnonzero(self._octets == _BLANK)
        if len(blanks) and len(rows):
            rows, starts, ends = _split(blanks, rows, starts, ends)
        offsets = np.zeros(self._rows + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=self._rows), out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), self._texts(starts, ends), type=_LIST)

    def maps(self) -> pa.Array:
        """map<string, string>[n]; the pairs in stored order, of a repeated name the last."""
        self._drop_repeated()
        if not self._ascii:
            self._drop_names_alike()
        names = self._texts(self._name_at, self._name_ends)
        values = self._texts(self._name_ends + 1, self._value_ends)
        return pa.MapArray.from_arrays(pa.array(self._offsets.astype(np.int32)), names, values, type=_MAP)

    def _texts(self, starts: Longs, ends: Longs) -> pa.Array:
        return texts(gather(self._octets, starts, ends), ascii_only=self._ascii or None)

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        """Only these pairs."""
        if not kept.all():
            for name in ("_name_at", "_name_ends", "_value_ends"):
                setattr(self, name, getattr(self, name)[kept])
            for name in ("_words", "_offsets"):
                self.__dict__.pop(name, None)

    @cached_property
    def _words(self) -> npt.NDArray[np.uint64]:
        """The first bytes of each name, up to eight, as a number."""
        every = np.ndarray((len(self._octets) - _WORD + 1,), ">u8", self._octets, 0, (1,))
        lengths = np.minimum(self._name_ends - self._name_at, _WORD)
        words: npt.NDArray[np.uint64] = every[self._name_at].astype(np.uint64)
        words >>= (8 * (_WORD - lengths)).view(np.uint64)
        return words

    @cached_property
    def _offsets(self) -> Longs:
        """The first pair of each row, and how many pairs there are."""
        offsets: Longs = np.append(np.searchsorted(self._name_at, self._area_at), len(self._name_at))
        return offsets

    def _rows_of(self, pairs: Longs) -> Longs:
        """The row of each of these pairs."""
        rows: Longs = np.searchsorted(self._offsets, pairs, "right") - 1
        return rows

    def _find(self, name: str) -> Longs:
        """By row, the last pair of this name (at most eight bytes); -1 where there is none."""
        word = np.uint64(int.from_bytes(name.encode(), "big"))
        found = np.flatnonzero(self._words == word)
        found = found[self._name_ends[found] - self._name_at[found] == len(name)]
        offsets = self._offsets
        if len(found) == self._rows and (found >= offsets[:-1]).all() and (found < offsets[1:]).all():
            # One in each row, as usual.
            return np.asarray(found, np.int64)
        pairs = np.full(self._rows, -1)
        # Of several the last one stays.
        pairs[self._rows_of(found)] = found
        return pairs

    def _value(self, name: str) -> pa.Array:
        pairs = self._find(name)
        missing = pairs < 0
        if not missing.any():
            return self._texts(self._name_ends[pairs] + 1, self._value_ends[pairs])
        rows = np.flatnonzero(~missing)
        found = self._texts(self._name_ends[pairs[rows]] + 1, self._value_ends[pairs[rows]])
        pairs[rows] = np.arange(len(rows))
        return found.take(pa.array(pairs, mask=missing))

    def _drop_repeated(self) -> None:
        """Of a name that a record has twice, only the last."""
        lengths = (self._name_ends - self._name_at).view(np.uint64)
        # Equal names have equal keys; whether equal keys are equal names of one row is looked at below.
        keys = self._words * _MIX[0] + lengths * _MIX[1]
        most = int(np.diff(self._offsets).max()) if len(keys) else 0
        if most <= PAIRWISE:
            same = [np.flatnonzero(keys[:-step] == keys[step:]) for step in range(1, most)]
            earlier = np.concatenate([np.zeros(0, np.int64), *same])
            later = earlier + np.repeat(np.arange(1, len(same) + 1), [len(found) for found in same])
        else:
            rows = self._rows_of(np.arange(len(keys)))
            order = np.lexsort((keys, rows))
            alike = np.flatnonzero(keys[order[:-1]] == keys[order[1:]])
            earlier, later = order[alike], order[alike + 1]
        if len(earlier):
            one_row = self._rows_of(earlier) == self._rows_of(later)
            self._keep(self._unlike(earlier[one_row], later[one_row]))

    def _unlike(self, earlier: Longs, later: Longs) -> npt.NDArray[np.bool_]:
        """Which pairs aren't followed by one of the same name, among those that might be."""
        names = gather(self._octets, self._name_at, self._name_ends)
        equal = pc.equal(names.take(pa.array(earlier)), names.take(pa.array(later))).to_numpy(
            zero_copy_only=False
        )
        kept = np.ones(len(self._name_at), np.bool_)
        kept[earlier[equal]] = False
        return kept

    def _drop_names_alike(self) -> None:
        """Names that differ may be alike once what is broken in them is U+FFFD."""
        raw = gather(self._octets, self._name_at, self._name_ends)
        try:
            raw.cast(pa.string())
        except pa.ArrowInvalid:
            rows = self._rows_of(np.arange(len(raw)))
            pairs = list(zip(rows.tolist(), texts(raw).to_pylist(), strict=True))
            last = {pair: index for index, pair in enumerate(pairs)}
            self._keep(np.array([last[pair] == index for index, pair in enumerate(pairs)], np.bool_))


def _alternating(marks: Longs, kinds: npt.NDArray[np.uint8]) -> tuple[Longs, Longs, Longs] | None:
    """Starts and ends of names and ends of values where every 01 stands between two 02, as it usually does."""
    if not (
        len(marks) % 2 and (kinds[::2] == layout.PAIR_END).all() and (kinds[1::2] == layout.NAME_END).all()
    ):
        return None
    return marks[:-1:2] + 1, marks[1::2].copy(), marks[2::2].copy()


def _pairs(marks: Longs, kinds: npt.NDArray[np.uint8]) -> tuple[Longs, Longs, Longs]:
    """The same for any order of 01 and 02: only the first 01 behind a 02 ends a name."""
    named = np.flatnonzero((kinds[1:-1] == layout.NAME_END) & (kinds[:-2] == layout.PAIR_END)) + 1
    value_ends = marks[named + 1]
    inner = np.flatnonzero(kinds[named + 1] == layout.NAME_END)
    if len(inner):
        # A value that contains 01 ends at the next 02.
        separators = marks[kinds == layout.PAIR_END]
        value_ends[inner] = separators[np.searchsorted(separators, value_ends[inner])]
    return marks[named - 1] + 1, marks[named], value_ends


def _split(
    blanks: Longs, rows: Longs, starts: npt.NDArray[Any], ends: npt.NDArray[Any]
) -> tuple[Longs, npt.NDArray[Any], npt.NDArray[Any]]:
    """Row, start and end of the parts between blanks of [start, end), empty ones left out."""
    first = np.searchsorted(blanks, starts)
    counts = np.searchsorted(blanks, ends) - first
    if not counts.any():
        return rows, starts, ends
    owner = np.repeat(np.arange(len(rows)), counts + 1)
    # Which part of its value each is, and so which blank is behind it.
    part = np.arange(len(owner)) - np.repeat(np.cumsum(counts + 1) - counts - 1, counts + 1)
    behind = first[owner] + part
    part_starts = np.where(part == 0, starts[owner], blanks[behind - 1] + 1)
    part_ends = np.where(part == counts[owner], ends[owner], blanks[np.minimum(behind, len(blanks) - 1)])
    kept = part_ends > part_starts
    return rows[owner[kept]], part_starts[kept], part_ends[kept]
