"""The source `rocketmq` as a stream: from the offset reached in each queue to where it ends now.

A place is one offset per queue, by topic, broker and queue, and which record came before it (see `queueplaces`). A
queue's messages never change, so a batch that Spark repeats after a crash has the same rows, whichever broker they
come from. Queues that come later (a topic got more of them, or a new topic's name matches) are read from their
beginning.

Ends are the master's: what isn't on a slave yet is read from the master. Queues are looked up every few
seconds (see `queuewatch`), their ends at every trigger. A queue that ends before the place reached, or has another
record there, is a topic that was deleted and created again, or a master that was replaced by one with fewer
messages: an error, or with failOnDataLoss=false read from its beginning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from hatwisted.clientcore.errors import OffsetsGone
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.groupquestions import Absent
from hatwisted.pipeline.remote.positions import Bounds
from hatwisted.pipeline.remote.queuepull import QueueRange, queue_name
from hatwisted.pipeline.spark.queueoffsets import Offsets, offsets_json
from hatwisted.pipeline.spark.queueplaces import Place, Places, places_json, stored_places
from hatwisted.pipeline.spark.queuereads import (
    ReadTask,
    check_places,
    check_within,
    may_hold_rows,
    narrowed,
    resolve,
)
from hatwisted.pipeline.spark.queuewatch import QueueWatch
from hatwisted.pipeline.spark.readoptions import Limits, OffsetBound
from hatwisted.pipeline.spark.streamlag import lag_of, queues_waiting
from hatwisted.pipeline.spark.timeedges import TimeEdges
from hatwisted.pipeline.spark.triggerlimits import TriggerLimits
from hatwisted.pipeline.spark.triggerpace import TriggerPace
from hatwisted.wire.messagequeue import MessageQueue

_ANOTHER: Final = "the topic was deleted and created again, or the master replaced by one that lacks messages"

_log = logging.getLogger(__name__)


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. Spark asks one instance for places and plans, and copies of another one for rows.

    - read_task: what each task needs
    - limits: of a trigger, and where it begins
    - patience: seconds for which a group of brokers may be away
    - pace: how long triggers wait
    - now: seconds since 1970
    """

    def __init__(
        self,
        read_task: ReadTask,
        limits: Limits,
        patience: float,
        pace: TriggerPace | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._read_task = read_task
        self._limits = limits
        self._patience = patience
        self._trigger_limits = TriggerLimits(limits)
        self._pace = pace or TriggerPace(None)
        self._edges = TimeEdges()
        self._opened: tuple[ClusterReader, QueueWatch] | None = None
        self._target: Offsets | None = None
        # Where the first batch begins. Spark keeps where batches end alone: that one has to say it.
        self._initial: dict[str, Any] | None = None
        self._now = now
        self._reported: Offsets | None = None
        self._lag: dict[str, Any] = {}
        # The end of the batch that was planned by this instance, which needn't be checked again.
        self._planned: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    # ---- what Spark asks

    def initialOffset(self) -> dict[str, Any]:
        queues = self._watch.first_queues()
        check_places(queues, self._limits.start, "startingOffsets")
        bounds = self._cluster.bounds(queues)
        begins = resolve(self._cluster, queues, bounds, self._limits.start, OffsetBound.EARLIEST)
        check_within(begins, bounds, "startingOffsets")
        self._initial = offsets_json(begins)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._limits.of_a_trigger()

    def prepareForTriggerAvailableNow(self) -> None:
        bounds = self._cluster.bounds(self._watch.first_queues(left=self._read_task.lossy))
        self._target = {queue: each.high for queue, each in bounds.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        reached = stored_places(start)
        is_first = start == self._initial
        if is_first:  # Spark makes it a batch, whether there's something in it or not
            reached = {queue: place._replace(begin=place.offset) for queue, place in reached.items()}
        queues = self._queues_of(reached)
        bounds = self._watch.bounds(queues, wait=self._waits)
        self._reported = {queue: each.high for queue, each in bounds.items()}
        same = self._compared(queues, reached, _read_before(reached, bounds))
        begins, ends = {}, {}
        for queue, end in (self._reported if self._target is None else self._target).items():
            if queue in bounds and queue in same:
                place, begin = reached.get(queue), self._begin(queue, reached, bounds[queue], same[queue])
                restarted = place is not None and begin != place.offset
                begins[queue] = begin
                ends[queue] = max(begin, min(end, bounds[queue].high) if restarted else end)
        waiting = sum(ends[queue] - begins[queue] for queue in ends)
        if not self._waits and not self._pace.is_due(waiting):
            self._note_lag(queues, begins)
            return places_json(reached)
        if not isinstance(limit, ReadAllAvailable):
            ends = self._trigger_limits.applied(self._cluster, queues, begins, ends, self._absent)
        self._note_lag(queues, ends)
        moved = self._places(queues, reached, begins, ends)
        if is_first:
            moved = {queue: place._replace(begin=begins[queue]) for queue, place in moved.items()}
        self._planned = places_json({**reached, **moved})
        return self._planned

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Spark shows it next to the offset reached: the difference is the stream's lag in messages."""
        return None if self._reported is None else {**offsets_json(self._reported), **self._lag}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        reached, ends = stored_places(start), stored_places(end)
        wanted = {
            queue: place
            for queue, place in ends.items()
            if place != reached.get(queue) and place.begin != place.offset
        }
        if not wanted:
            return []
        queues = self._queues_of(wanted)
        if end != self._planned:
            wanted = self._still_there(queues, wanted)
        where = self._read_task.where
        begins = {
            queue: begin
            for queue, begin in self._begins(queues, reached, wanted).items()
            if may_hold_rows(queue, where)
        }
        placed = {queue: queues.get(queue, {}) for queue in begins}
        begins, last = narrowed(
            begins,
            {queue: wanted[queue].offset for queue in begins},
            where,
            lambda time: self._at(placed, time),
        )
        ranges = [QueueRange(queue, begins[queue], last[queue], placed[queue]) for queue in placed]
        return self._read_task.tasks(ranges, 0.0 if self._waits else self._patience)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read_task.rows(partition)

    def stop(self) -> None:
        if self._opened is not None:
            self._cluster.close()

    # ---- the cluster

    @property
    def _cluster(self) -> ClusterReader:
        return self._open()[0]

    @property
    def _watch(self) -> QueueWatch:
        return self._open()[1]

    def _open(self) -> tuple[ClusterReader, QueueWatch]:
        if self._opened is None:
            cluster = ClusterReader(self._read_task.settings)
            watch = QueueWatch(cluster, self._read_task.choice, self._patience, self._lost)
            self._opened = cluster, watch
        return self._opened

    @property
    def _waits(self) -> bool:
        """Is it a run to an end that is fixed, which mustn't leave out the queues of brokers that are away?"""
        return self._target is not None

    def _queues_of(self, places: Mapping[MessageQueue, Place]) -> Queues:
        return self._watch.queues(places, wait=self._waits, retries=self._read_task.settings.retries)

    # ---- how far this trigger goes

    def _note_lag(self, queues: Queues, reached: Offsets) -> None:
        assert self._reported is not None
        self._lag = lag_of(queues_waiting(self._cluster, queues, reached, self._reported), self._now())

    def _compared(
        self, queues: Queues, places: Places, offsets: Mapping[MessageQueue, int | None]
    ) -> dict[MessageQueue, bool]:
        """Is the record at an offset of each queue the last one of its place, as far as can be known? None: there
        is nothing to compare. Without the queues of absent groups."""
        asked = {queue: offset for queue, offset in offsets.items() if offset is not None}
        marks = self._cluster.marks(queues, asked, self._absent)
        found = dict.fromkeys(offsets.keys() - asked.keys(), True)
        for queue, mark in marks.items():
            last = places[queue].last
            found[queue] = mark is None or last is None or mark.is_same(last)
        return found

    @property
    def _absent(self) -> Absent | None:
        return None if self._waits else self._watch.is_absent

    def _begin(self, queue: MessageQueue, places: Places, bounds: Bounds, is_same: bool) -> int:
        """Where reading goes on; a new queue begins with its first message."""
        if queue not in places:
            return bounds.low
        reached = places[queue].offset
        if reached > bounds.high and bounds.by_master:
            what = f"ends at {bounds.high}, before {reached}, which was read already"
        elif not is_same:
            what = f"has another message at {reached - 1} than the one that was read"
        else:
            return reached
        self._lost(f"{queue_name(queue)} {what}: {_ANOTHER}")
        return bounds.low

    def _places(self, queues: Queues, reached: Places, begins: Offsets, ends: Offsets) -> Places:
        """The places after a trigger of the queues that move."""
        moved = {}
        for queue, end in ends.items():
            place = reached.get(queue)
            if place is None or (place.offset, end) != (begins[queue],) * 2:
                moved[queue] = place
        read = {queue: ends[queue] - 1 for queue in moved if ends[queue] > begins[queue]}
        marks = self._cluster.marks(queues, read, self._absent)
        found: Places = {}
        for queue, place in moved.items():
            if queue in read and queue not in marks:
                continue  # its brokers went away just now: it waits
            continues = place is not None and place.offset == begins[queue]
            found[queue] = Place(ends[queue], marks.get(queue), None if continues else begins[queue])
        return found

    # ---- a batch that was planned before

    def _still_there(self, queues: Queues, wanted: Places) -> Places:
        """What a batch planned by an earlier run can still have. Of a queue that is gone or has other messages now
        it has nothing; where that one goes on is found by the next trigger."""
        bounds = self._watch.bounds(
            {queue: queues[queue] for queue in wanted if queue in queues}, wait=self._waits
        )
        same = self._compared(queues, wanted, _planned_before(wanted, bounds))
        found = {}
        for queue, place in wanted.items():
            each = bounds.get(queue)
            if self._watch.is_gone(queue):
                continue
            if each is not None and each.by_master and place.offset > each.high:
                what = f"ends at {each.high}, before {place.offset}, where a planned batch ends"
            elif not same.get(queue, True):
                what = f"has another message at {place.offset - 1} than a planned batch"
            else:
                found[queue] = place
                continue
            self._lost(f"{queue_name(queue)} {what}: {_ANOTHER}")
        return found

    def _begins(self, queues: Queues, reached: Places, wanted: Places) -> Offsets:
        """Where the ranges of a batch begin. A checkpoint of an earlier version doesn't say it of a queue that was
        new or begun again: there it's the queue's beginning now."""
        found = {queue: place.begin for queue, place in wanted.items() if place.begin is not None}
        for queue, place in wanted.items():
            if queue in reached and reached[queue].offset < place.offset:
                found.setdefault(queue, reached[queue].offset)
        unsure = {queue: queues[queue] for queue in wanted if queue not in found and queue in queues}
        lows = {queue: each.low for queue, each in self._cluster.bounds(unsure).items()}
        for queue, low in lows.items():
            if low > wanted[queue].offset:
                self._lost(
                    f"{queue_name(queue)} begins at {low}, after {wanted[queue].offset}, where a planned "
                    "batch ends: its messages have expired"
                )
        return dict.fromkeys(wanted, 0) | lows | found

    def _at(self, queues: Queues, time: datetime) -> Offsets:
        return self._edges.at(
            self._cluster, queues, lambda some: self._watch.bounds(some, wait=self._waits), time
        )

    def _lost(self, what: str) -> None:
        self._edges.forget()
        message = f"rocketmq: {what}"
        if not self._read_task.lossy:
            raise OffsetsGone(f"{message}: set failOnDataLoss=false to continue with what is left")
        _log.warning("%s", message)


def _read_before(reached: Places, bounds: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int | None]:
    """Where the record that was read last is, in the queues that have more; None, where that isn't known, or it's
    gone."""
    found: dict[MessageQueue, int | None] = {}
    for queue, each in bounds.items():
        place = reached.get(queue)
        is_there = place is not None and place.last is not None and each.low < place.offset < each.high
        found[queue] = place.offset - 1 if place is not None and is_there else None
    return found


def _planned_before(wanted: Places, bounds: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int | None]:
    """Where the last record of a planned batch is, likewise."""
    return {
        queue: wanted[queue].offset - 1
        if wanted[queue].last is not None and each.low < wanted[queue].offset <= each.high
        else None
        for queue, each in bounds.items()
    }
