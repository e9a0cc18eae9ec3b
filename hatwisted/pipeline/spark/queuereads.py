"""Reading a cluster's queues as a table: what every task needs to know, a batch read, and what options and
conditions mean in offsets. The source and its stream (`rocketmqsource`, `rocketmqstream`) build on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BadSetting
from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.positions import Bounds
from hatwisted.pipeline.remote.queuepull import PullOptions, QueueRange, queue_name
from hatwisted.pipeline.spark.brokerfilter import broker_filter
from hatwisted.pipeline.spark.filters import FilterPushdown, conditions, span, time_span
from hatwisted.pipeline.spark.kafkaschema import is_kafka, kafka_rows, kafka_wire_schema, needed_for
from hatwisted.pipeline.spark.queueoffsets import Offsets, packed, parse_offsets
from hatwisted.pipeline.spark.queuetimes import AtTime
from hatwisted.pipeline.spark.readoptions import OffsetBound, Options, Start
from hatwisted.pipeline.spark.rocketmqoptions import TopicChoice, cluster_settings, sql_expression
from hatwisted.pipeline.spark.sourcecolumns import shaped, wire_schema
from hatwisted.wire.messagequeue import MessageQueue

CLOCK_SLACK: Final = timedelta(minutes=1)
"""How far a broker's clock may have been set back. Store times ascend along a queue but for that, and a condition
on them leaves this much more of a queue's range."""


@dataclass(frozen=True, slots=True)
class QueuePartition(InputPartition):
    """What one task reads. patience: seconds beyond the retries for which it waits for brokers that are away."""

    ranges: tuple[QueueRange, ...]
    patience: float = 0.0


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What every task of a read needs to know. lossy: deleted messages are no error; kafka: as which rows they are
    given, if not as they are."""

    settings: ClusterSettings
    choice: TopicChoice
    schema: pa.Schema
    where: tuple[Condition, ...]
    min_partitions: int | None
    lossy: bool
    kafka: pa.Schema | None = None
    sql92: str | None = None

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one task."""
        if not isinstance(partition, QueuePartition):
            return  # Spark's stand-in for a plan of no partitions
        with ClusterReader(self.settings) as cluster:
            for wanted in partition.ranges:
                how = PullOptions(
                    fail_on_loss=not self.lossy,
                    patience=partition.patience,
                    terms=broker_filter(wanted.queue, self.where, self.sql92),
                )
                for batch in cluster.read(wanted, self.schema.names, where=self.where, how=how):
                    if self.kafka is None:
                        yield shaped(batch, self.schema)
                    else:
                        yield kafka_rows(batch, self.kafka)

    def tasks(self, ranges: Iterable[QueueRange], patience: float = 0.0) -> list[InputPartition]:
        """The ranges as partitions; patience: as QueuePartition has it."""
        return [QueuePartition(group, patience) for group in packed(ranges, self.min_partitions)]

    @classmethod
    def of(cls, options: Options, schema: StructType) -> ReadTask:
        """From the options and the columns wanted."""
        kafka = kafka_wire_schema(schema) if is_kafka(options) else None
        return cls(
            settings=cluster_settings(options),
            choice=TopicChoice.of(options),
            schema=wire_schema(schema) if kafka is None else needed_for(kafka.names),
            where=conditions(options),
            min_partitions=options.integer("minPartitions", least=1),
            lossy=not options.flag("failOnDataLoss", True),
            kafka=kafka,
            sql92=sql_expression(options),
        )


class QueueReader(DataSourceReader):
    """A batch read.

    - read_task: what each task needs
    - start: where it begins
    - end: where it ends
    """

    def __init__(self, read_task: ReadTask, start: Start, end: Start) -> None:
        self._read_task = read_task
        self._start = start
        self._end = end

    def partitions(self) -> list[InputPartition]:
        task = self._read_task
        with ClusterReader(task.settings) as cluster:
            queues = task.choice.queues(cluster)
            check_places(queues, self._start, "startingOffsets")
            check_places(queues, self._end, "endingOffsets")
            queues = {queue: at for queue, at in queues.items() if may_hold_rows(queue, task.where)}
            bounds = cluster.bounds(queues)
            begins = resolve(cluster, queues, bounds, self._start, OffsetBound.EARLIEST)
            ends = resolve(cluster, queues, bounds, self._end, OffsetBound.LATEST)
            check_within(begins, bounds, "startingOffsets")
            check_within(ends, bounds, "endingOffsets")
            begins, ends = narrowed(
                begins,
                ends,
                task.where,
                lambda time: cluster.offsets_at(queues, bounds, milliseconds_up(time)),
            )
        return task.tasks(QueueRange(each, begins[each], ends[each], queues[each]) for each in queues)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._read_task.rows(partition)


class PushingQueueReader(FilterPushdown, QueueReader):
    """The same with Spark's filters."""


# ---- places


def check_places(queues: Queues, place: Start, option: str) -> None:
    """Raises BadSetting if offsets are given for a queue that isn't read.

    - queues: that are read
    - place: what was given
    - option: its name, for the error
    """
    if isinstance(place, dict):
        for queue in parse_offsets(place).keys() - queues.keys():
            raise BadSetting(
                f"{option}: {queue_name(queue)} is none of the {len(queues)} queues that are read"
            )


def check_within(offsets: Offsets, bounds: Mapping[MessageQueue, Bounds], option: str) -> None:
    """Raises BadSetting for an offset after its queue's end, as far as a master knows it.

    - offsets: as given
    - bounds: what the queues hold
    - option: its name, for the error
    """
    for queue, offset in offsets.items():
        if offset > bounds[queue].high and bounds[queue].by_master:
            raise BadSetting(
                f"{option}: {queue_name(queue)} ends at {bounds[queue].high}, before {offset}: "
                "give an offset up to its end, or latest"
            )


def resolve(
    cluster: ClusterReader,
    queues: Queues,
    bounds: Mapping[MessageQueue, Bounds],
    place: Start,
    default: OffsetBound,
) -> Offsets:
    """The offset that a place means in each queue.

    - cluster: asked for offsets by time
    - queues: which
    - bounds: what they hold
    - place: an end, a time, or offsets by queue
    - default: for queues that it doesn't name
    """
    if isinstance(place, datetime):
        return cluster.offsets_at(queues, bounds, milliseconds_up(place))
    named = parse_offsets(place) if isinstance(place, dict) else dict.fromkeys(queues, place)
    found = _at_times(cluster, queues, bounds, named)
    for queue in queues:
        offset = named.get(queue, default)
        if isinstance(offset, AtTime):
            continue
        if isinstance(offset, OffsetBound):
            offset = bounds[queue].low if offset is OffsetBound.EARLIEST else bounds[queue].high
        found[queue] = offset
    return found


def _at_times(
    cluster: ClusterReader,
    queues: Queues,
    bounds: Mapping[MessageQueue, Bounds],
    named: Mapping[MessageQueue, int | OffsetBound | AtTime],
) -> Offsets:
    """Of the queues for which a time is given."""
    by_time: dict[AtTime, Queues] = {}
    for queue, replicas in queues.items():
        if isinstance(at := named.get(queue), AtTime):
            by_time.setdefault(at, {})[queue] = replicas
    found: Offsets = {}
    for at, some in by_time.items():
        found |= cluster.offsets_at(some, bounds, milliseconds_up(at.time))
        for queue in some:
            at.check(queue, found[queue], bounds[queue].high)
    return found


def milliseconds_up(time: datetime) -> int:
    """ms since the epoch; brokers have no smaller unit, so a fraction is rounded up."""
    seconds = time.replace(microsecond=0).timestamp()
    return int(seconds) * 1000 - (-time.microsecond // 1000)


# ---- what conditions exclude


def may_hold_rows(queue: MessageQueue, where: Iterable[Condition]) -> bool:
    """Can any row of this queue meet the conditions?"""
    known = {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}
    return all(_fulfils(known[each.column], each) for each in where if each.column in known)


def _fulfils(value: Any, condition: Condition) -> bool:
    match condition.op:
        case "=":
            return bool(value == condition.value)
        case "in":
            return value in condition.value
        case "<":
            return bool(value < condition.value)
        case "<=":
            return bool(value <= condition.value)
        case ">":
            return bool(value > condition.value)
    return bool(value >= condition.value)


def narrowed(
    begins: Offsets, ends: Offsets, where: Iterable[Condition], at_time: Callable[[datetime], Offsets]
) -> tuple[Offsets, Offsets]:
    """The ranges without what conditions on offset and store time leave out of them.

    - begins: of the ranges, by queue
    - ends: of the ranges, by queue
    - where: the conditions
    - at_time: the first offset stored at some time or later, of the queues of which that is known
    """
    for condition in where:
        if condition.column == "queue_offset":
            low, high = span(condition)
            begins = begins if low is None else {queue: max(at, low) for queue, at in begins.items()}
            ends = ends if high is None else {queue: min(at, high + 1) for queue, at in ends.items()}
        elif condition.column == "store_timestamp":
            earliest, latest = time_span(condition, CLOCK_SLACK)
            if earliest is not None:
                found = at_time(earliest)
                begins = {queue: max(at, found.get(queue, at)) for queue, at in begins.items()}
            if latest is not None:
                found = at_time(latest)
                ends = {queue: min(at, found.get(queue, at)) for queue, at in ends.items()}
    return begins, {queue: max(ends[queue], begins[queue]) for queue in ends}
