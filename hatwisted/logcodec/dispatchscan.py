"""What a batch of records means to consume queues and index: tags codes and hashes of index keys.

The second step after `scan`: `propertyareas` finds the values of a few names in the properties of all records,
`keyhash` hashes them. Only record counts, never property counts, are looped over in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hatwisted.logcodec.delaylevel import deliver_time
from hatwisted.logcodec.keyhash import Hashes, hash_spans, index_hashes
from hatwisted.logcodec.octets import Longs
from hatwisted.logcodec.propertyareas import PropertyAreas, join_areas
from hatwisted.logcodec.scan import Records
from hatwisted.wire import layout
from hatwisted.wire.javahash import java_hash


class DispatchColumns(NamedTuple):
    """tags_codes: int64[n], one per record. item_rows, item_hashes: int64[m], int32[m]: for every index item
    the row of its record, ascending, and the key hash as an index file stores it; a record's UNIQ_KEY comes
    before its KEYS."""

    tags_codes: Longs
    item_rows: Longs
    item_hashes: npt.NDArray[np.int32]


@lru_cache(maxsize=4096)
def topic_prefix(topic: str) -> int:
    """Hash (unsigned) of the `topic#` that index keys of the topic begin with."""
    return java_hash(topic + "#") & 0xFFFFFFFF


def dispatch_columns(scan: Records, delay_levels: Sequence[int], *, keys: bool = True) -> DispatchColumns:
    """Tags codes and index items of scanned records.

    - scan: the records
    - delay_levels: ms by level, from level 1 on
    - keys: False leaves the index items out
    """
    if not len(scan):
        none = np.zeros(0, np.int64)
        return DispatchColumns(none, none, np.zeros(0, np.int32))
    areas = PropertyAreas(*join_areas(scan))
    tags_codes = np.zeros(len(scan), np.int64)
    tags = areas.find(layout.PROPERTY_TAGS)
    tags_codes[tags.rows] = hash_spans(areas.data, tags.starts, tags.ends)[0].view(np.int32)
    if layout.SCHEDULE_TOPIC in scan.topics:
        _set_deliver_times(scan, areas, tags_codes, delay_levels)
    if not keys:
        return DispatchColumns(tags_codes, np.zeros(0, np.int64), np.zeros(0, np.int32))
    found = areas.find(layout.PROPERTY_UNIQ_KEY), areas.split_keys(areas.find(layout.PROPERTY_KEYS))
    # Hashed separately: the ids of a batch are all of one length.
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


def _items(scan: Records, rows: Longs, hashes: Hashes, units: Longs) -> tuple[Longs, npt.NDArray[np.int32]]:
    """Index items in log order; records of a rolled-back transaction have none."""
    order: npt.NDArray[Any] = rows.argsort(kind="stable")
    rolled_back = scan.sys_flags & layout.SYS_TRANSACTION_MASK == layout.SYS_TRANSACTION_ROLLBACK
    if rolled_back.any():
        order = order[~rolled_back[rows[order]]]
    rows = rows[order]
    prefixes = np.array([topic_prefix(topic) for topic in scan.topics], np.uint32)[scan.topic_rows[rows]]
    return rows, index_hashes(prefixes, hashes[order], units[order])


def _set_deliver_times(
    scan: Records, areas: PropertyAreas, tags_codes: Longs, delay_levels: Sequence[int]
) -> None:
    """Delayed messages carry their deliver time where others have the hash of a tag."""
    delayed = scan.topic_rows == scan.topics.index(layout.SCHEDULE_TOPIC)
    delays = areas.find(layout.PROPERTY_DELAY)
    for row, start, end in zip(*(column.tolist() for column in delays), strict=True):
        if delayed[row]:
            due = deliver_time(areas.data[start:end], int(scan.store_timestamps[row]), delay_levels)
            if due is not None:
                tags_codes[row] = due
