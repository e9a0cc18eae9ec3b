"""The source `commitlog` as a stream: from where each broker's log was read to where it ends now.

A place is one physical offset per broker, `{"broker-a": 1234, "broker-b": 99}`, always between two records. The
log determines everything else, so a batch that Spark repeats after a crash is made of the same records, and a
checkpoint holds across restarts, versions and machines. Beside it, under `:last`, is where the record before it
starts and when it was stored: a log that was cut after a crash and has grown on past the place has another one
there. And under `:first`, where the batch that led to it began, if that's no batch's end: in the first one, and in
the log of a broker that appeared. Spark keeps ends alone.

Logs don't only grow. Retention deletes old files, and a broker that crashed may cut its log's end. A stream that
was to read what is gone, or has read what is gone, fails (`failOnDataLoss`), or continues with what is left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import LostRange, PipelineError
from hatwisted.pipeline.spark.logplaces import end_of_records, offset_at_time, shares
from hatwisted.pipeline.spark.logtask import LogPartition, ReadTask
from hatwisted.pipeline.spark.readoptions import Limits, OffsetBound, Options, Start
from hatwisted.pipeline.spark.storelist import StoreList
from hatwisted.pipeline.spark.streamlag import Waiting, lag_of

Offsets = dict[str, int]
"""Physical offset by broker."""
LAST: Final = ":last"
FIRST: Final = ":first"
"""No brokers' names: brokers are named by folders, or by letters, digits, - and _."""

_log = logging.getLogger(__name__)


def starting_offsets(options: Options) -> Start:
    """The option `startingOffsets`."""
    start = options.start("startingOffsets", OffsetBound.EARLIEST)
    if isinstance(start, dict):
        start = offsets_alone(start)
    if isinstance(start, dict) and not all(_is_offset(value) for value in start.values()):
        raise options.wrong("startingOffsets", 'physical offsets by broker, as {"broker-a": 0}')
    return start


def offsets_alone(tree: Mapping[str, Any]) -> Offsets:
    """Of a place, without what is beside them."""
    return {broker: offset for broker, offset in tree.items() if broker not in (LAST, FIRST)}


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. Spark asks one instance for offsets and plans, and copies of another one for rows.

    - stores: which
    - read_task: what each task needs
    - split_bytes: of a task; None: by the amount there is
    - limits: of a trigger, and what becomes of lost data
    - now: seconds since 1970
    """

    def __init__(
        self,
        stores: StoreList,
        read_task: ReadTask,
        split_bytes: int | None,
        limits: Limits,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._stores = stores
        self._read_task = read_task
        self._split_bytes = split_bytes
        self._limits = limits
        self._target: Offsets | None = None
        self._initial: Offsets | None = None
        self._now = now
        self._reported: Offsets | None = None
        self._lag: dict[str, Any] = {}

    def initialOffset(self) -> dict[str, Any]:
        stores = self._stores.stores()
        if isinstance(self._limits.start, dict) and (unknown := self._limits.start.keys() - stores.keys()):
            raise PipelineError(
                f"commitlog: startingOffsets names broker {min(unknown)!r}; there are: {', '.join(stores)}"
            )
        self._initial = {broker: self._first(store) for broker, store in stores.items()}
        return dict(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._limits.of_a_trigger()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {broker: store.end() for broker, store in self._stores.stores().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        stores = self._stores.stores()
        self._check_brokers(start, stores)
        self._reported = {broker: store.end() for broker, store in stores.items()}
        ends = self._reported if self._target is None else self._target
        begins = {
            broker: self._begin(store, start.get(broker), ends[broker])
            for broker, store in stores.items()
            if broker in ends  # one that came after AvailableNow's target is for the next run
        }
        ends = {broker: max(ends[broker], begin) for broker, begin in begins.items()}
        for broker, begin in begins.items():
            if begin < ends[broker]:
                self._check_last(stores[broker], start.get(LAST, {}).get(broker), begin)
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(stores, begins, ends)
        self._note_lag(stores, self._reported, ends)
        moved = [broker for broker, end in ends.items() if start.get(broker) != end]
        is_first = start == self._initial  # Spark makes it a batch, whether there's something in it or not
        if not moved and not is_first:
            return start
        lasts = {broker: last for broker in moved if (last := stores[broker].record_before(ends[broker]))}
        kept = {broker: last for broker, last in start.get(LAST, {}).items() if broker not in moved}
        found: dict[str, Any] = {**offsets_alone(start), **ends}
        if kept or lasts:
            found[LAST] = {**kept, **{broker: list(last) for broker, last in lasts.items()}}
        firsts = {broker: at for broker, at in begins.items() if is_first or broker not in start}
        return found | ({FIRST: firsts} if firsts else {})

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Spark shows it next to the offset reached: the difference is the stream's lag in bytes."""
        return None if self._reported is None else {**self._reported, **self._lag}

    def _note_lag(self, stores: Mapping[str, LogStore], ends: Offsets, reached: Offsets) -> None:
        left = {broker: max(0, ends[broker] - offset) for broker, offset in reached.items()}
        waiting = [
            Waiting(size, size, stores[broker].stored_from(reached[broker]) if size else None)
            for broker, size in left.items()
        ]
        self._lag = lag_of(waiting, self._now())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        stores = self._stores.stores()
        self._check_brokers(end, stores)
        begins = offsets_alone(start) | end.get(FIRST, {})
        return [
            partition
            for broker, store in stores.items()
            if broker in end
            for partition in self._planned(store, begins.get(broker), end[broker])
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read_task.rows(partition)

    def _first(self, store: LogStore) -> int:
        """Where a new stream begins in a log; one that `startingOffsets` doesn't name is read from its start."""
        start = self._limits.start
        if isinstance(start, datetime):
            return offset_at_time(store, start)
        if isinstance(start, dict):
            given = start.get(store.broker, store.min_offset)
            if 0 < given < store.min_offset:
                self._deleted(store, given)
            return store.boundary_at_or_after(given)
        end = store.end()
        return end if start is OffsetBound.LATEST else store.min_offset

    def _planned(self, store: LogStore, start: int | None, end: int) -> Iterator[InputPartition]:
        if start == end:
            return
        reached = store.end()  # lists the files again, so it comes before what asks for the first one
        begin = store.min_offset if start is None else start
        if reached < end:
            self._lost(store, f"the log ends at {reached}, before {end}, which it had reached")
        if end < begin:
            self._lost(
                store, f"a planned batch ends at {end}, and the log would be read from {begin} on by now"
            )
        splits = store.splits(begin, end, self._split_bytes)
        if begin < store.min_offset:  # as of this very listing
            self._deleted(store, begin)
        for split in splits:
            yield LogPartition(replace(split, aligned=split.aligned or split.begin == start))

    def _begin(self, store: LogStore, start: int | None, end: int) -> int:
        """Where reading really begins: a broker that is new begins with its first file."""
        if start is None:
            return store.min_offset
        if start < store.min_offset < end:
            self._deleted(store, start)
            return store.min_offset
        if end < start:
            self._lost(store, f"the log ends at {end}, before {start}, which was read already")
        return start

    def _check_last(self, store: LogStore, last: list[int] | None, begin: int) -> None:
        """Is the record that was read last still there, if it isn't deleted?"""
        if last is None:
            return
        start, stored = last
        if store.stored_at(start) not in (None, stored):
            self._lost(
                store,
                f"the record at {start}, the last one before {begin} that was read, is another one now: the log "
                "was cut after a crash and written on, so the last ones that were read are no part of it",
            )

    def _limited(self, stores: Mapping[str, LogStore], begins: Offsets, ends: Offsets) -> Offsets:
        """How far this trigger goes: the limits are shared by the brokers that have something."""
        backlog = {broker: ends[broker] - begins[broker] for broker in ends}
        if self._limits.max_bytes is not None and sum(backlog.values()) > self._limits.max_bytes:
            for broker, share in shares(backlog, self._limits.max_bytes).items():
                ends[broker] = self._cut(stores[broker], begins[broker], ends[broker], share)
        if self._limits.max_records is not None:
            ends = self._counted(stores, begins, ends, self._limits.max_records)
        return ends

    def _cut(self, store: LogStore, begin: int, end: int, share: int) -> int:
        """The last boundary within the share; the first record's end if that is larger."""
        if end - begin <= share:
            return end
        within = store.boundary_at_or_before(begin + share)
        return min(end, within if within > begin else store.boundary_at_or_after(begin + 1))

    def _counted(
        self, stores: Mapping[str, LogStore], begins: Offsets, ends: Offsets, records: int
    ) -> Offsets:
        waiting = [broker for broker in ends if begins[broker] < ends[broker]]
        found = dict(ends)
        for index, broker in enumerate(waiting):
            share = max(1, records // (len(waiting) - index))
            found[broker], count = end_of_records(stores[broker], begins[broker], ends[broker], share)
            records = max(0, records - count)
        return found

    def _check_brokers(self, offsets: Mapping[str, Any], stores: Mapping[str, LogStore]) -> None:
        for broker in offsets_alone(offsets).keys() - stores.keys():
            if not self._read_task.lossy:
                raise LostRange(
                    f"commitlog: the stream has read broker {broker!r} up to {offsets[broker]}, and its store is "
                    "gone: bring it back, or set failOnDataLoss=false"
                )

    def _deleted(self, store: LogStore, begin: int) -> None:
        self._lost(store, f"offsets {begin} to {store.min_offset} were deleted before they were read")

    def _lost(self, store: LogStore, what: str) -> None:
        message = f"{store.path}: broker {store.broker}: {what}"
        if not self._read_task.lossy:
            raise LostRange(f"{message}: set failOnDataLoss=false to continue with what is left")
        _log.warning("%s", message)


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
