"""Offsets in a log by time or by a number of records, and how several logs share a limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.spark.filters import time_span

COUNTED_AT_ONCE: Final = 4 << 20
"""Bytes read at once while records are counted: a trigger's worth, not the log."""
CLOCK_SLACK: Final = timedelta(minutes=10)
"""How far a broker's clock may have been set back: a condition on times reads this much more of a log on each
side."""
TIME_GRAIN: Final = 32 << 20
"""Bytes at which the search for a time stops: reading them costs no more than searching on."""


def shares(backlog: Mapping[str, int], limit: int) -> dict[str, int]:
    """Each log's part of `limit`: equal parts, and what one doesn't need goes to the others."""
    found: dict[str, int] = {}
    ascending = sorted(
        (broker for broker in backlog if backlog[broker] > 0), key=lambda broker: backlog[broker]
    )
    for index, broker in enumerate(ascending):
        found[broker] = min(backlog[broker], limit // (len(ascending) - index))
        limit -= found[broker]
    return found


def end_of_records(store: LogStore, begin: int, end: int, count: int) -> tuple[int, int]:
    """(the end of some records, how many there are before it). Damage is skipped: the tasks report
    it.

    - store: the log
    - begin: start of the first
    - end: where to stop if there are fewer
    - count: how many
    """
    found = 0
    for split in store.splits(begin, end, COUNTED_AT_ONCE):
        aligned = replace(split, aligned=split.aligned or split.begin == begin)
        for batch in read_split(aligned, ("physical_offset", "size"), mode="skip-and-report"):
            if found + batch.num_rows >= count:
                index = count - found - 1
                return batch.column(0)[index].as_py() + batch.column(1)[index].as_py(), count
            found += batch.num_rows
    return end, found


def offset_at_time(store: LogStore, time: datetime) -> int:
    """Where the first record stored at or after `time` starts; the log's end, if none was."""
    return store.boundary_at_or_after(_around_time(store, time, 0)[0])


def time_bounds(store: LogStore, where: Iterable[Condition], grain: int = TIME_GRAIN) -> tuple[int, int]:
    """Which part [begin, end) of a log can hold rows at all.

    - store: the log
    - where: conditions, of which those on store_timestamp count
    - grain: bytes that may be too many on each side
    """
    begin, end = store.min_offset, store.end()
    for condition in where:
        if condition.column == "store_timestamp":
            earliest, latest = time_span(condition, CLOCK_SLACK)
            if earliest is not None:
                begin = max(begin, _around_time(store, earliest, grain)[0])
            if latest is not None:
                end = min(end, _around_time(store, latest, grain)[1])
    return begin, end


def _around_time(store: LogStore, time: datetime, grain: int) -> tuple[int, int]:
    """(low, high), at most `grain` apart: records that start before `low` were stored before `time`, those
    at or after `high` weren't.

    By halving, as brokers look for times: store times ascend along the log but for a clock set back.
    """
    low, high = store.min_offset, store.end()
    wanted = (time - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
    while low + grain < high:
        middle = (low + high) // 2
        stored = _time_at(store, store.boundary_at_or_after(middle))
        if stored is None or stored >= wanted:
            high = middle
        else:
            low = middle + 1
    return low, high


def _time_at(store: LogStore, offset: int) -> int | None:
    """When the record that starts at `offset` was stored, in microseconds: Python has no time after the year 9999,
    a log may. None at the log's end."""
    for split in store.splits(offset, offset + 1):
        for batch in read_split(replace(split, aligned=True), ("store_timestamp",), mode="skip-and-report"):
            stored: int | None = batch.column(0).cast(pa.int64())[0].as_py()
            return stored
    return None
