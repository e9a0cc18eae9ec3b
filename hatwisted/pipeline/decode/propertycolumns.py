"""Properties of many records as Arrow columns: maps, tags, keys, unique keys.

`logcodec.propertyareas` finds the pairs; names and values are then substrings like bodies and topics, and a map is
two arrays of them and an offset per record. Broken UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.logcodec.octets import Longs
from hatwisted.logcodec.propertyareas import PropertyAreas
from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.decode.ragged import contents, gather, is_ascii, join_separated, texts
from hatwisted.wire import layout

PAIRWISE: Final = 24
"""Properties of one record up to which each is compared with each that follows it; with more, all are sorted."""

_WORD: Final = 8
"""Bytes of a name looked at by one comparison."""
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_LIST: Final = arrow_schema(("keys",)).field(0).type
_MAP: Final = arrow_schema(("properties",)).field(0).type


class PropertyColumns:
    """The properties of n rows.

    - octets: the bytes, beginning with the prefix of `ragged.new_buffer`
    - starts: where each row's properties begin
    - ends: where they end
    """

    def __init__(self, octets: npt.NDArray[np.uint8], starts: Longs, ends: Longs) -> None:
        joined = join_separated(octets, starts, ends)
        edges = np.frombuffer(joined.buffers()[1], np.int32)
        self._ascii = is_ascii(joined)
        self._areas = PropertyAreas(contents(joined), edges[1 : 2 * len(starts) + 1 : 2].astype(np.int64))
        self._octets = self._areas.octets

    def tags(self) -> pa.Array:
        """string[n], null without TAGS."""
        return self._value(layout.PROPERTY_TAGS)

    def unique_keys(self) -> pa.Array:
        """string[n], null without UNIQ_KEY."""
        return self._value(layout.PROPERTY_UNIQ_KEY)

    def keys(self) -> pa.Array:
        """list<string>[n], empty without KEYS: its parts between blanks."""
        spans = self._areas.split_keys(self._areas.find(layout.PROPERTY_KEYS))
        offsets = np.zeros(len(self._areas) + 1, np.int32)
        np.cumsum(np.bincount(spans.rows, minlength=len(self._areas)), out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), self._texts(spans.starts, spans.ends), type=_LIST)

    def maps(self) -> pa.Array:
        """map<string, string>[n]; the pairs in stored order, of a repeated name the last."""
        return _Maps(self._areas, self._ascii).array()

    def _value(self, name: str) -> pa.Array:
        spans = self._areas.find(name)
        values = self._texts(spans.starts, spans.ends)
        if len(values) == len(self._areas):
            return values
        found = np.zeros(len(self._areas), np.int64)
        missing = np.ones(len(self._areas), np.bool_)
        found[spans.rows], missing[spans.rows] = np.arange(len(values)), False
        return values.take(pa.array(found, mask=missing))

    def _texts(self, starts: Longs, ends: Longs) -> pa.Array:
        return texts(gather(self._octets, starts, ends), ascii_only=self._ascii or None)


class _Maps:
    """The pairs of the areas, those that don't count left out."""

    def __init__(self, areas: PropertyAreas, ascii_only: bool) -> None:
        self._areas = areas
        self._octets = areas.octets
        self._ascii = ascii_only
        self._name_at, self._name_ends = areas.name_at, areas.name_ends
        self._value_ends = areas.value_ends
        self._words = areas.words >> (8 * (_WORD - np.minimum(self._name_ends - self._name_at, _WORD))).view(
            np.uint64
        )
        self._keep((self._name_ends > self._name_at) & (self._value_ends > self._name_ends + 1))

    def array(self) -> pa.Array:
        """map<string, string>[n]."""
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
            for name in ("_name_at", "_name_ends", "_value_ends", "_words"):
                setattr(self, name, getattr(self, name)[kept])
            self.__dict__.pop("_offsets", None)

    @cached_property
    def _offsets(self) -> Longs:
        """The first pair of each row, and how many pairs there are."""
        offsets: Longs = np.append(np.searchsorted(self._name_at, self._areas.area_at), len(self._name_at))
        return offsets

    def _rows_of(self, pairs: Longs) -> Longs:
        """The row of each of these pairs."""
        rows: Longs = np.searchsorted(self._offsets, pairs, "right") - 1
        return rows

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
