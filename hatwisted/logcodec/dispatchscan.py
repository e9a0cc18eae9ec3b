"""What a batch of records means to consume queues and index: tags codes and hashes of index keys.

The second step behind `scan`: the property areas of all records are joined into one buffer, with a 02 between
them, so that every property of every record lies between two 02 bytes and has its first 01 behind its name.
Numpy finds all 01 and 02 at once; a name is recognised by looking at the eight bytes where it begins; values
become substrings for `keyhash`. Nothing is decoded, and only record counts, never property counts, are looped
over in Python. Rules (split at 02, the name ends at the first 01, empty values don't count, the last of a
repeated name wins) are those of `wire.properties`, which the tests hold against this.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.delaylevel import deliver_time
from hatwisted.logcodec.keyhash import Hashes, hash_spans, index_hashes
from hatwisted.logcodec.scan import Longs, ScanResult
from hatwisted.wire import layout
from hatwisted.wire.javahash import java_hash


class DispatchColumns(NamedTuple):
    """tags_codes: int64[n], one per record. item_rows, item_hashes: int64[m], int32[m]: for every index item
    the row of its record, ascending, and the key hash as an index file stores it; a record's UNIQ_KEY comes
    before its KEYS."""

    tags_codes: Longs
    item_rows: Longs
    item_hashes: npt.NDArray[np.int32]


class Spans(NamedTuple):
    """Substrings of the joined property areas: owning row, start and end of each. int64[k] each."""

    rows: Longs
    starts: Longs
    ends: Longs


_PAD: Final = bytes(1) * 8
"""In front of the joined areas and behind them: a name is looked at eight bytes at a time."""


def _word(name: str) -> tuple[np.uint64, np.uint64]:
    """A name (with its end mark if there's room in 8 bytes) as a big-endian number, and the shift that cuts a
    word of eight bytes down to it."""
    raw = name.encode() + (b"\x01" if len(name) < 8 else b"")
    return np.uint64(int.from_bytes(raw, "big")), np.uint64(64 - 8 * len(raw))


_KEYS: Final = _word(layout.PROPERTY_KEYS)
_UNIQ_KEY: Final = _word(layout.PROPERTY_UNIQ_KEY)
_TAGS: Final = _word(layout.PROPERTY_TAGS)
_DELAY: Final = _word(layout.PROPERTY_DELAY)


@lru_cache(maxsize=4096)
def topic_prefix(topic: str) -> int:
    """Hash (unsigned) of the `topic#` that index keys of the topic begin with."""
    return java_hash(topic + "#") & 0xFFFFFFFF


class PropertyAreas:
    """The joined property areas of a batch and all (name, value) pairs in them."""

    def __init__(self, scan: ScanResult) -> None:
        starts = scan.properties_at
        ends = scan.positions + scan.sizes
        buf = scan.buf
        areas = [buf[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        self.data = b"\x02".join((_PAD, *areas, _PAD))
        octets = np.frombuffer(self.data, np.uint8)
        # Where each record's area begins in the joined buffer: behind its predecessors and one mark each.
        lengths = ends - starts
        self.area_at = np.cumsum(lengths + 1) - lengths + len(_PAD)
        self._rows = np.arange(len(areas))
        # 01 and 02 only: 00 wraps around to 255.
        marks = ((octets - np.uint8(1)) <= 1).nonzero()[0]
        kinds = octets[marks]
        named = ((kinds[1:-1] == layout.NAME_END) & (kinds[:-2] == layout.PAIR_END)).nonzero()[0] + 1
        self._name_at = marks[named - 1] + 1
        self._value_at = marks[named] + 1
        self._value_end = marks[named + 1]
        self._mend_values((kinds[named + 1] == layout.NAME_END).nonzero()[0])
        words = np.ndarray((len(self.data) - 7,), ">u8", self.data, 0, (1,))
        self._words = words[self._name_at].astype(np.uint64)

    def _mend_values(self, rows: npt.NDArray[np.intp]) -> None:
        """A value may contain 01; it ends at the next 02 (rare)."""
        for row in rows.tolist():
            self._value_end[row] = self.data.index(b"\x02", self._value_at[row])

    def find(self, name: tuple[np.uint64, np.uint64]) -> Spans:
        """The values of one name: per record the last that isn't empty."""
        word, shift = name
        found = ((self._words >> shift if shift else self._words) == word).nonzero()[0]
        starts, ends = self._value_at[found], self._value_end[found]
        wanted = ends > starts
        if not shift:
            wanted &= starts - self._name_at[found] == 9
        if not wanted.all():
            starts, ends = starts[wanted], ends[wanted]
        area_at = self.area_at
        if len(starts) == len(area_at) and (starts >= area_at).all() and (starts[:-1] < area_at[1:]).all():
            # One in each record, as usual.
            return Spans(self._rows, starts, ends)
        rows: Longs = np.searchsorted(area_at, starts, "right") - 1
        last = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=last[:-1])
        return Spans(rows[last], starts[last], ends[last])

    def split_keys(self, spans: Spans) -> Spans:
        """The parts of KEYS values between blanks, empty ones left out."""
        if b" " not in self.data or not len(spans.rows):
            return spans
        blanks = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord(" "))
        first = np.searchsorted(blanks, spans.starts)
        counts = np.searchsorted(blanks, spans.ends) - first
        inner = _ranges(first, counts)
        rows = np.repeat(np.arange(len(counts)), counts + 1)
        starts, ends = spans.starts[rows], spans.ends[rows]
        is_first = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
        is_last = np.ones(len(rows), np.bool_)
        is_last[:-1] = is_first[1:]
        starts[~is_first] = blanks[inner] + 1
        ends[~is_last] = blanks[inner]
        kept = ends > starts
        return Spans(spans.rows[rows[kept]], starts[kept], ends[kept])


def _ranges(firsts: Longs, counts: Longs) -> Longs:
    """first, first + 1, ... (count of them) for each pair, joined."""
    total = int(counts.sum())
    shifts: Longs = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    return np.arange(total) + shifts


def dispatch_columns(scan: ScanResult, delay_levels: Sequence[int], *, keys: bool = True) -> DispatchColumns:
    """Tags codes and index items of scanned records. delay_levels: ms by level, from level 1 on; keys: False
    leaves the index items out."""
    if not len(scan):
        none = np.zeros(0, np.int64)
        return DispatchColumns(none, none, np.zeros(0, np.int32))
    areas = PropertyAreas(scan)
    tags_codes = np.zeros(len(scan), np.int64)
    tags = areas.find(_TAGS)
    tags_codes[tags.rows] = hash_spans(areas.data, tags.starts, tags.ends)[0].view(np.int32)
    if layout.SCHEDULE_TOPIC in scan.topics:
        _set_deliver_times(scan, areas, tags_codes, delay_levels)
    if not keys:
        return DispatchColumns(tags_codes, np.zeros(0, np.int64), np.zeros(0, np.int32))
    found = areas.find(_UNIQ_KEY), areas.split_keys(areas.find(_KEYS))
    # Hashed apart: the ids of a batch are all of one length.
    hashed = [hash_spans(areas.data, spans.starts, spans.ends) for spans in found]
    return DispatchColumns(
        tags_codes,
        *_items(
            scan,
            np.concatenate([spans.rows for spans in found]),
            np.concatenate([hashes for hashes, _ in hashed]),
            np.concatenate([units for _, units in hashed]),
        ),
    )


def _items(
    scan: ScanResult, rows: Longs, hashes: Hashes, units: Longs
) -> tuple[Longs, npt.NDArray[np.int32]]:
    """Index items in log order; records of a rolled-back transaction have none."""
    order: npt.NDArray[Any] = rows.argsort(kind="stable")
    rolled_back = scan.sys_flags & layout.SYS_TRANSACTION_MASK == layout.SYS_TRANSACTION_ROLLBACK
    if rolled_back.any():
        order = order[~rolled_back[rows[order]]]
    rows = rows[order]
    prefixes = np.array([topic_prefix(topic) for topic in scan.topics], np.uint32)[scan.topic_rows[rows]]
    return rows, index_hashes(prefixes, hashes[order], units[order])


def _set_deliver_times(
    scan: ScanResult, areas: PropertyAreas, tags_codes: Longs, delay_levels: Sequence[int]
) -> None:
    """Delayed messages carry their deliver time where others have the hash of a tag."""
    delayed = scan.topic_rows == scan.topics.index(layout.SCHEDULE_TOPIC)
    delays = areas.find(_DELAY)
    for row, start, end in zip(*(column.tolist() for column in delays), strict=True):
        if delayed[row]:
            due = deliver_time(areas.data[start:end], int(scan.store_timestamps[row]), delay_levels)
            if due is not None:
                tags_codes[row] = due
