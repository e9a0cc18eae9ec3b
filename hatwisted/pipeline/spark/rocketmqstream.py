"""The source `rocketmq` as a stream: from the offset reached in each queue to where it ends now.

A place is one offset per queue, by topic, broker and queue. A queue's messages never change, so a batch that
Spark repeats after a crash has the same rows, whichever broker they come from. Queues that come later (a topic
got more of them, or a new topic's name matches) are read from their beginning.

Ends are the master's: what isn't on a slave yet is read from the master. Queues are looked up every few
seconds, their ends at every trigger. A queue that ends before the place reached is a topic that was
deleted and created again, or a master that was replaced by one with fewer messages: an error, or with
failOnDataLoss=false read from its beginning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from hatwisted.clientcore.errors import BrokerGone, NoRoute, OffsetsGone
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.positions import Bounds
from hatwisted.pipeline.remote.queuepull import STEP, QueueRange, queue_name
from hatwisted.pipeline.spark.logplaces import shares
from hatwisted.pipeline.spark.queueoffsets import Offsets, offsets_json, stored_offsets
from hatwisted.pipeline.spark.queuereads import ReadTask, check_places, may_hold_rows, resolve
from hatwisted.pipeline.spark.readoptions import Limits, OffsetBound
from hatwisted.wire.messagequeue import MessageQueue

QUEUES_KNOWN_FOR: Final = 10.0
"""Seconds after which the name servers are asked for queues again (RocketMQ's clients: 30 s)."""

_log = logging.getLogger(__name__)


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. Spark asks one instance for places and plans, and copies of another one for rows."""

    def __init__(self, read_task: ReadTask, limits: Limits) -> None:
        self._read_task = read_task
        self._limits = limits
        self._cluster: ClusterReader | None = None
        self._queues: Queues = {}
        self._queues_until = 0.0
        # Lost, and reported: not looked for at every trigger.
        self._gone: set[MessageQueue] = set()
        self._target: Offsets | None = None
        self._reported: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cluster": None}

    # ---- what Spark asks

    def initialOffset(self) -> dict[str, Any]:
        queues = self._current_queues()
        check_places(queues, self._limits.start, "startingOffsets")
        bounds = self._reader.bounds(queues)
        return offsets_json(resolve(self._reader, queues, bounds, self._limits.start, OffsetBound.EARLIEST))

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._limits.of_a_trigger()

    def prepareForTriggerAvailableNow(self) -> None:
        bounds = self._reader.bounds(self._current_queues())
        self._target = {queue: each.high for queue, each in bounds.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        reached = stored_offsets(start)
        queues = self._queues_with(reached)
        bounds = self._reader.bounds(queues)
        self._reported = {queue: each.high for queue, each in bounds.items()}
        begins, ends = {}, {}
        for queue, end in (self._reported if self._target is None else self._target).items():
            if queue in bounds:
                begins[queue] = self._begin(queue, reached.get(queue), bounds[queue])
                ends[queue] = max(end, begins[queue])
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(queues, begins, ends)
        return offsets_json({**reached, **ends})

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Spark shows it next to the offset reached: the difference is the stream's lag in messages."""
        return None if self._reported is None else offsets_json(self._reported)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        reached, ends = stored_offsets(start), stored_offsets(end)
        wanted = [queue for queue in ends if ends[queue] != reached.get(queue)]
        queues = self._current_queues()
        placed = {queue: queues.get(queue, {}) for queue in wanted}
        # Where a queue begins matters only if it is new, or begins again.
        unsure = [
            queue for queue in wanted if reached.get(queue, ends[queue]) >= ends[queue] and placed[queue]
        ]
        lows = self._reader.bounds({queue: placed[queue] for queue in unsure})
        ranges = []
        for queue in wanted:
            begin = lows[queue].low if queue in lows else reached.get(queue, 0)
            if may_hold_rows(queue, self._read_task.where):
                ranges.append(QueueRange(queue, begin, ends[queue], placed[queue]))
        return self._read_task.tasks(ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read_task.rows(partition)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()

    # ---- the cluster

    @property
    def _reader(self) -> ClusterReader:
        if self._cluster is None:
            self._cluster = ClusterReader(self._read_task.settings)
        return self._cluster

    def _current_queues(self) -> Queues:
        if time.monotonic() >= self._queues_until:
            self._queues = self._read_task.choice.queues(self._reader)
            self._queues_until = time.monotonic() + QUEUES_KNOWN_FOR
        return self._queues

    def _queues_with(self, reached: Mapping[MessageQueue, int]) -> Queues:
        """The queues there are now. Name servers forget queues while no broker that has them is alive, so
        they are asked again, for as long as a broker may take to restart, before the queues count as lost."""
        retries = self._read_task.settings.retries
        for tried in range(retries + 1):
            try:
                queues = self._current_queues()
            except (NoRoute, BrokerGone):
                if tried == retries:
                    raise
            else:
                gone = reached.keys() - queues.keys() - self._gone
                if not gone:
                    return queues
                if tried == retries:
                    break
            self._queues_until = 0.0
            self._reader.pause(tried)
        first, *others = sorted(map(queue_name, gone))
        more = f" and {len(others)} more" if others else ""
        self._lost(f"{first}{more}: no name server knows it any more")
        self._gone |= gone
        return queues

    # ---- how far this trigger goes

    def _begin(self, queue: MessageQueue, reached: int | None, bounds: Bounds) -> int:
        """Where reading goes on; a new queue begins with its first message."""
        if reached is None:
            return bounds.low
        if reached > bounds.high and bounds.by_master:
            self._lost(f"{queue_name(queue)} ends at {bounds.high}, before {reached}, which was read already")
            return bounds.low
        return reached

    def _limited(self, queues: Queues, begins: Offsets, ends: Offsets) -> Offsets:
        """The limits are shared by the queues that have something."""
        keys = {str(number): queue for number, queue in enumerate(ends)}
        if self._limits.max_bytes is not None:
            sizes = {queue: self._size(queues, queue, begins[queue], ends[queue]) for queue in ends}
            backlog = {key: int(sizes[queue] * (ends[queue] - begins[queue])) for key, queue in keys.items()}
            for key, share in _shared(backlog, self._limits.max_bytes).items():
                queue = keys[key]
                ends[queue] = min(ends[queue], begins[queue] + max(1, int(share / sizes[queue])))
        if self._limits.max_records is not None:
            backlog = {key: ends[queue] - begins[queue] for key, queue in keys.items()}
            for key, share in _shared(backlog, self._limits.max_records).items():
                ends[keys[key]] = begins[keys[key]] + share
        return ends

    def _size(self, queues: Queues, queue: MessageQueue, begin: int, end: int) -> float:
        """Bytes of a record, from the first ones waiting: no broker says how many bytes a queue has."""
        sample = QueueRange(queue, begin, min(begin + STEP, end), queues[queue])
        read = sum(len(piece) for piece in self._reader.records(sample, fail_on_loss=False))
        return max(1.0, read / max(1, sample.end - begin))

    def _lost(self, what: str) -> None:
        message = f"rocketmq: {what}"
        if not self._read_task.lossy:
            raise OffsetsGone(f"{message}: set failOnDataLoss=false to continue with what is left")
        _log.warning("%s", message)


def _shared(backlog: Mapping[str, int], limit: int) -> dict[str, int]:
    """Each queue's part; those that get none wait for a later trigger."""
    return shares(backlog, limit) if sum(backlog.values()) > limit else dict(backlog)
