"""The engine `local` over a cluster: topics pulled from their brokers by this process, without Spark and Java.

What it lands into is behind a port, `QueueTable`: a Delta table (deltalanding.py) or an Iceberg table
(icebergbatches.py). There's no checkpoint: commits say where every queue ends, and a run goes on there. What
the table has of a queue is its beginning without a gap, so a batch may end anywhere in a queue, and a killed run's
is in the table whole or not at all. The engines may take turns.

Queues are looked up anew at every round of a run that follows: brokers that appear are claimed before anything of
theirs is landed, those that are away are waited for (spark/queuewatch.py, which is Spark's source's as well).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.clientcore.errors import BrokerGone, OffsetsGone
from hatwisted.pipeline.delta.compaction import Compaction
from hatwisted.pipeline.delta.landedrows import with_store_date
from hatwisted.pipeline.delta.queuetails import QueueTails, last_of_queues
from hatwisted.pipeline.jobs.land.landedbatch import ClaimedTable
from hatwisted.pipeline.jobs.land.landingrounds import land_in_rounds
from hatwisted.pipeline.jobs.land.landingsources import Cluster
from hatwisted.pipeline.jobs.land.landoptions import LandOptions, Progress
from hatwisted.pipeline.jobs.land.queuestarts import queue_starts
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.queuepull import PullOptions, QueueRange
from hatwisted.pipeline.spark.queueoffsets import queue_order
from hatwisted.pipeline.spark.queuewatch import QueueWatch

SETTLED: Final = 3
"""Claims of brokers that appear while a round is planned, before it goes on with those it has."""

_log = logging.getLogger(__name__)


class QueueTable(ClaimedTable, Protocol):
    """A table into which queues are landed."""

    def widen(self, brokers: Collection[str]) -> bool:
        """Claim these brokers as well; False if they all are."""

    def tails(self) -> QueueTails:
        """Where each queue of the claimed brokers ends now; from then on commits say it."""

    def former(self) -> Collection[str]:
        """The brokers of this landing's last commit: those that are away now are missed, and not left out in
        silence."""


@dataclass
class ClusterLanding:
    """One run.

    - table: where it lands
    - source: the topics
    - how: options
    - progress: called with (bytes done, about how many in all)
    - seconds: the clock
    """

    table: QueueTable
    source: Cluster
    how: LandOptions
    progress: Progress
    seconds: Callable[[], float]

    def run(self, stop: threading.Event) -> tuple[Compaction, bool]:
        """(what was compacted, whether it was stopped before its end)."""
        reading = self.source.reading()
        self._lossy = reading.lossy
        self.table.widen(() if self._lossy else self.table.former())
        self._tails = self.table.tails()
        with ClusterReader(reading.settings) as self._cluster:
            self._watch = QueueWatch(self._cluster, reading.choice, reading.patience, self._lost)
            land = partial(self._land, stop, wait=self.how.mode != "continuous")
            return land_in_rounds(self.how, land, self.table.upkeep, stop, self.seconds)

    # ---- a round: all that there is now

    def _land(self, stop: threading.Event, *, wait: bool) -> None:
        """What there is, or what there's time for before the stop. wait: for brokers that are away."""
        ranges = self._ranges(wait)
        self._messages, self._seen, self._bytes = sum(each.end - each.begin for each in ranges), 0, 0
        away: set[str] = set()
        self._begin()
        try:
            for wanted in ranges:
                if stop.is_set():
                    break
                if wanted.queue.broker_name not in away and not self._take(wanted, stop, wait=wait):
                    away.add(wanted.queue.broker_name)
            self._commit()
        except BaseException:
            self._batch.drop()
            raise

    def _ranges(self, wait: bool) -> list[QueueRange]:
        queues = self._queues(wait)
        bounds = self._watch.bounds(queues, wait=wait)
        absent = None if wait else self._watch.is_absent
        starts = queue_starts(self._cluster, queues, bounds, self._tails, self._lost, absent)
        for queue, begin in starts.items():
            tail = self._tails.get(queue)
            if tail is not None and begin < tail.end:
                del self._tails[queue]  # told once; the table says so as soon as it has a row
        return [
            QueueRange(queue, begin, bounds[queue].high, queues[queue])
            for queue, begin in sorted(starts.items(), key=lambda start: queue_order(start[0]))
            if begin < bounds[queue].high
        ]

    def _queues(self, wait: bool) -> Queues:
        """All that are read now; their brokers are claimed, and what the table has of them is known."""
        reading = self.source.reading()
        for _ in range(SETTLED):
            landed = [queue for queue in self._tails if reading.choice.has(queue)]
            queues = self._watch.queues(landed, wait=wait, retries=reading.settings.retries)
            brokers = {queue.broker_name for queue in queues}
            if not self.table.widen(brokers):
                break
            self._tails = self.table.tails()
        return {queue: at for queue, at in queues.items() if queue.broker_name in self.table.brokers}

    def _take(self, wanted: QueueRange, stop: threading.Event, *, wait: bool) -> bool:
        """Land a range, or its beginning; False if its brokers are away."""
        how = PullOptions(fail_on_loss=not self._lossy)
        try:
            for rows in self._cluster.read(wanted, self.table.columns, how=how):
                self._write(rows)
                self._seen += rows.num_rows
                self.progress(self._bytes, max(self._bytes, self._bytes * self._messages // self._seen))
                if self._size >= self.how.max_bytes_per_trigger:
                    self._commit()
                if stop.is_set():
                    return True
        except BrokerGone as error:
            if wait:
                raise
            self._watch.is_absent(wanted.queue.broker_name, error)
            return False
        return True

    # ---- the table

    def _begin(self) -> None:
        """A new batch: its rows' size in the log, and where their queues end."""
        self._batch, self._size, self._moved = self.table.batch(), 0, QueueTails()

    def _write(self, rows: pa.RecordBatch) -> None:
        self._batch.write(with_store_date(rows))
        self._moved |= last_of_queues(rows)
        size: int = pc.sum(rows.column("size")).as_py() or 0
        self._size += size
        self._bytes += size

    def _commit(self) -> None:
        """The batch into the table, and a new batch."""
        if self._batch.commit(self._moved):
            self._tails |= self._moved
            self._begin()

    def _lost(self, what: str) -> None:
        if not self._lossy:
            raise OffsetsGone(f"{what}: set failOnDataLoss=false to continue with what is left")
        _log.warning("%s", what)
