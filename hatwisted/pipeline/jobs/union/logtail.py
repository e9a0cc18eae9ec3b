"""What of a log a version of a table lacks, fixed when it's asked for.

The table's version is read first, and the log's end after that. So whatever a landing commits meanwhile is in
the log as well, from where that version ends, and nothing is counted twice: rows that are committed later aren't
in the version.

A table that was landed from stores ends at one offset of each broker's log. One that was landed from a cluster
ends at an offset of each queue, since it may lack topics: a store can't say what it lacks, its cluster can.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from hatwisted.clientcore.errors import OffsetsGone
from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import LostRange, PipelineError
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores
from hatwisted.pipeline.jobs.land.queuestarts import queue_starts
from hatwisted.pipeline.jobs.union.landedversion import LandedVersion
from hatwisted.pipeline.remote.clusterreader import ClusterReader
from hatwisted.pipeline.remote.queuepull import QueueRange, queue_name

ADDRESS: Final = re.compile(r"[^/\\;,]+:\d+([;,][^/\\;,]+:\d+)*")
"""Name servers, and no folder."""
GO_ON: Final = "set failOnDataLoss=false to continue with what is left"

_log = logging.getLogger(__name__)

Log = str | Sequence[str] | Stores | Cluster


@dataclass(frozen=True)
class StoreTail:
    """Offsets [begin, end) of a store's log. more: options of its read, as the caller gave them."""

    store: LogStore
    begin: int
    end: int
    more: Mapping[str, str] = field(default_factory=dict)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows. Raises LostRange if some of them are gone by now."""
        splits = self.store.splits(self.begin, self.end)
        if self.begin < self.store.min_offset:
            self._lost()
        for split in splits:
            yield from read_split(split, columns)

    def _lost(self) -> None:
        store = self.store
        upto = min(store.min_offset, self.end)
        what = f"{store.path}: broker {store.broker}: offsets {self.begin} to {upto} were deleted before"
        if not is_lossy(self.more):
            raise LostRange(f"{what} they were read: {GO_ON}")
        _log.warning("%s they were read", what)


@dataclass(frozen=True)
class QueueTails:
    """Ranges of queues of a cluster."""

    source: Cluster
    ranges: tuple[QueueRange, ...]

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows."""
        with ClusterReader(self.source.reading().settings) as cluster:
            for each in self.ranges:
                yield from cluster.read(each, columns)


def is_lossy(more: Mapping[str, str]) -> bool:
    """Do options of a log's read allow that some of it is gone?"""
    return {name.lower(): value.lower() for name, value in more.items()}.get("failondataloss") == "false"


def log_source(log: Log, version: LandedVersion) -> Stores | Cluster:
    """What a caller calls the log: store folders, or name servers, of which then the table's topics are read.

    - log: as the caller has it
    - version: of the table
    """
    if isinstance(log, (Stores, Cluster)):
        return log
    if not isinstance(log, str) or os.path.exists(log) or not ADDRESS.fullmatch(log):
        return Stores([log] if isinstance(log, str) else list(log))
    topics = version.topics()
    if not topics:
        raise PipelineError("the table has no rows: which topics? Give Cluster(name_servers, topics)")
    return Cluster(log, sorted(topics))


def log_tail(version: LandedVersion, source: Stores | Cluster) -> list[StoreTail] | QueueTails:
    """What the log has and the table's version hasn't. Raises WrongStore and OffsetsGone if it's another log than
    the table's, LostRange and OffsetsGone for what is in neither.

    - version: of the table
    - source: the log
    """
    if isinstance(source, Stores):
        return _of_stores(version, source)
    return _of_queues(version, source)


def _of_stores(version: LandedVersion, source: Stores) -> list[StoreTail]:
    stores = source.stores()
    for broker in sorted(version.by_queue(stores)):
        raise PipelineError(
            f"{version.name}: was landed from a cluster, queue by queue, so {stores[broker].path} can't say what"
            " it lacks; give the name servers as the log"
        )
    tails = version.tails(stores)
    source.check(tails)
    lossy = is_lossy(source.more)
    found = []
    for broker, store in stores.items():
        begin, end = tails[broker].end if broker in tails else store.min_offset, store.end()
        if begin < store.min_offset:
            what = f"{store.path}: broker {broker}: offsets {begin} to {store.min_offset} were deleted before"
            if not lossy:
                raise LostRange(f"{what} they were landed: {GO_ON}")
            _log.warning("%s they were landed", what)
            begin = store.min_offset
        if begin < end:
            found.append(StoreTail(store, begin, end, source.more))
    return found


def _of_queues(version: LandedVersion, source: Cluster) -> QueueTails:
    reading = source.reading()

    def lost(what: str) -> None:
        if not reading.lossy:
            raise OffsetsGone(f"{what}: {GO_ON}")
        _log.warning("%s", what)

    with ClusterReader(reading.settings) as cluster:
        choose = reading.choice.queues_left if reading.lossy else reading.choice.queues
        queues = choose(cluster)
        brokers = {queue.broker_name for queue in queues} | version.former()
        landed = {queue: tail for queue, tail in version.queues(brokers).items() if reading.choice.has(queue)}
        for queue in sorted(landed.keys() - queues.keys())[:1]:
            lost(f"{queue_name(queue)}: no name server knows it any more")
        bounds = cluster.bounds(queues)
        starts = queue_starts(cluster, queues, bounds, landed, lost)
    ranges = []
    for queue, begin in starts.items():
        low, high = bounds[queue].low, bounds[queue].high
        if begin < low:
            gone = f"messages {begin} to {low - 1} were deleted before they were landed"
            lost(f"{queue_name(queue)}: {gone}")
        if max(begin, low) < high:
            ranges.append(QueueRange(queue, max(begin, low), high, queues[queue]))
    return QueueTails(source, tuple(ranges))
