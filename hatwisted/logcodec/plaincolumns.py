"""Plain records as columns by a compiled twin, where there is one: what `scan` finds by a loop and by numpy.

The twin is in the room above (`hatwisted.kernel`) and comes as an argument. It takes a piece whole or not at all:
of records that it isn't sure of, such as those of version 2, it leaves the whole piece to `scan`, so every rule is
written there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.octets import Buffer, Longs
from hatwisted.logcodec.scan import HEAD, Records, ScanEnd, Stop, look
from hatwisted.wire import layout

COLUMNS: Final = 10
"""Those of Records that are numbers."""
ROOM: Final = 16_000
"""Records of one piece, at most. No multiple of a page: columns would get into each other's way in the cache."""


class PlainRun(NamedTuple):
    """What a twin has found: how many records, the position after them, why they end (None: `look` says), and the
    distinct topics."""

    records: int
    position: int
    stop: Stop | None
    topics: list[str]


PlainColumns = Callable[
    [Buffer, int, int, int, bool, npt.NDArray[np.uint8], npt.NDArray[np.int64]], PlainRun | None
]
"""(piece, physical offset of its first byte, position of the first record, position before which records start, do
they carry the offset they lie at, room for heads, room for columns) -> None: something isn't plain."""

CopySpans = Callable[[Any, Longs, Longs, npt.NDArray[np.int32], Any], None]
"""(bytes, where substrings start, where they end, their edges in the target, the target, which they fill). Raises
ValueError if they don't."""

SpanSums = Callable[[Any, Longs, Longs, npt.NDArray[np.uint32]], None]
"""(bytes, where substrings start, where they end, their CRC-32s; of empty ones 0)."""

PlainPairs = Callable[
    [Any, Longs, Longs, npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32]],
    tuple[int, bool] | None,
]
"""The pairs that count of property areas: (bytes, where areas start, where they end, first pair of each area and
the number of all, room for starts and ends of names and ends of values, pair by area of TAGS, KEYS and UNIQ_KEY or
-1) -> how many pairs, are all values ASCII; None: a name isn't, or there are very many."""

SplitSpans = Callable[[Any, Longs, Longs, int, npt.NDArray[np.int32], npt.NDArray[np.int64]], int]
"""Substrings' parts that aren't empty: (bytes, where substrings start, where they end, the separator, first part
of each and the number of all, room for starts and ends of parts) -> how many. Raises ValueError without room."""


def plain_records(
    take: PlainColumns,
    buf: Buffer,
    base: int,
    within: range,
    *,
    placed: bool = True,
    room: int = ROOM,
) -> Records | None:
    """The records of a piece, or the first `room` of them; None if something isn't plain.

    - take: the compiled twin
    - buf: the piece
    - base: physical offset of its first byte
    - within: positions where records may start; the first does where it begins
    - placed: do they carry the offset they lie at?
    - room: records at most
    """
    room = min(room, (len(buf) - within.start) // layout.FIXED_SIZE + 1)
    heads, longs = np.empty(room, HEAD), np.empty((COLUMNS, room), np.int64)
    found = take(buf, base, within.start, within.stop, placed, heads.view(np.uint8), longs)
    if found is None:
        return None
    count = found.records
    end = look(buf, found.position) if found.stop is None else ScanEnd(found.position, found.stop)
    columns: list[Longs] = [column[:count] for column in longs]
    at, sizes, queue_ids, queue_offsets, flags, stored, body_at, body_ends, topics, properties = columns
    return Records(
        buf=buf,
        base=base,
        positions=at,
        sizes=sizes,
        heads=heads[:count],
        queue_ids=queue_ids,
        queue_offsets=queue_offsets,
        sys_flags=flags,
        store_timestamps=stored,
        body_at=body_at,
        body_ends=body_ends,
        topics=found.topics,
        topic_rows=topics,
        properties_at=properties,
        end=end,
    )
