"""Properties as `propertycolumns` makes them, of pairs that the compiled twin has found."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hatwisted.kernel import plain_pairs, split_spans
from hatwisted.logcodec.octets import Longs
from hatwisted.pipeline.decode.arrowschema import arrow_schema
from hatwisted.pipeline.decode.ragged import gather, texts
from hatwisted.wire import layout

SMALLEST_PAIR: Final = 4
"""Bytes of a pair with the end of the one before it."""
_LIST: Final = arrow_schema(("keys",)).field(0).type
_MAP: Final = arrow_schema(("properties",)).field(0).type


class PlainProperties:
    """Columns of the areas' pairs.

    - octets: the bytes
    - firsts: first pair of each area, and the number of all
    - spans: where names start, where they end, where values end
    - known: pair by area of TAGS, KEYS and UNIQ_KEY, or -1
    - ascii_only: are all values ASCII?
    """

    def __init__(
        self,
        octets: npt.NDArray[np.uint8],
        firsts: npt.NDArray[np.int32],
        spans: Longs,
        known: npt.NDArray[np.int32],
        ascii_only: bool,
    ) -> None:
        self._octets = octets
        self._firsts = firsts
        self._name_at, self._name_ends, self._value_ends = spans
        self._tags, self._keys, self._unique = known
        self._ascii = ascii_only

    def tags(self) -> pa.Array:
        """string[n], null without TAGS."""
        return self._value(self._tags)

    def unique_keys(self) -> pa.Array:
        """string[n], null without UNIQ_KEY."""
        return self._value(self._unique)

    def keys(self) -> pa.Array:
        """list<string>[n], empty without KEYS: its parts between blanks."""
        assert split_spans is not None
        starts, ends = self._spans(self._keys)
        offsets = np.empty(len(starts) + 1, np.int32)
        parts = np.empty((2, int((ends - starts + 1).sum()) // 2 + 1), np.int64)
        count = split_spans(self._octets, starts, ends, ord(layout.KEY_SEPARATOR), offsets, parts)
        return pa.ListArray.from_arrays(
            pa.array(offsets), self._texts(parts[0, :count], parts[1, :count]), type=_LIST
        )

    def maps(self) -> pa.Array:
        """map<string, string>[n]; the pairs in stored order, of a repeated name the last."""
        names = gather(self._octets, self._name_at, self._name_ends).view(pa.string())
        values = self._texts(self._name_ends + 1, self._value_ends)
        return pa.MapArray.from_arrays(pa.array(self._firsts), names, values, type=_MAP)

    def _spans(self, pairs: npt.NDArray[np.int32]) -> tuple[Longs, Longs]:
        """Values of the areas' pairs; empty where there's none."""
        if not len(self._name_ends):
            return np.zeros(len(pairs), np.int64), np.zeros(len(pairs), np.int64)
        missing = pairs < 0
        starts, ends = self._name_ends.take(pairs, mode="clip") + 1, self._value_ends.take(pairs, mode="clip")
        if missing.any():
            starts[missing] = ends[missing] = 0
        return starts, ends

    def _value(self, pairs: npt.NDArray[np.int32]) -> pa.Array:
        if not len(self._name_at):
            return pa.nulls(len(pairs), pa.string())
        missing = pairs < 0
        values = gather(self._octets, *self._spans(pairs))
        if missing.any():
            valid = pa.array(~missing)
            values = pa.Array.from_buffers(
                pa.binary(), len(pairs), [valid.buffers()[1], *values.buffers()[1:]]
            )
        return texts(values, ascii_only=self._ascii or None)

    def _texts(self, starts: Longs, ends: Longs) -> pa.Array:
        return texts(gather(self._octets, starts, ends), ascii_only=self._ascii or None)


def plain_properties(octets: Any, starts: Longs, ends: Longs) -> PlainProperties | None:
    """The properties of some areas; None if there's no compiled twin, or something isn't plain.

    - octets: the bytes
    - starts: where each area starts
    - ends: where each ends
    """
    if plain_pairs is None or not len(starts):
        return None
    rows, size = len(starts), int((ends - starts).sum())
    firsts, known = np.empty(rows + 1, np.int32), np.empty((3, rows), np.int32)
    spans = np.empty((3, (size + rows) // SMALLEST_PAIR + 1), np.int64)
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    found = plain_pairs(octets, starts, ends, firsts, spans, known)
    if found is None:
        return None
    count, ascii_only = found
    return PlainProperties(octets, firsts, spans[:, :count], known, ascii_only)
