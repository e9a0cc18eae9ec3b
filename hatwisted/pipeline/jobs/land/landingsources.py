"""What is landed: store folders, or a cluster found through its name servers. And is it the log that the table
began with?

Both are streams of the same columns; they differ in Spark's name for them, in how they resume without a
checkpoint, and in how much of the log they can show for comparison.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import OffsetsGone
from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.delta.tails import COLUMNS as TAIL_COLUMNS
from hatwisted.pipeline.delta.tails import Tail, plain_rows
from hatwisted.pipeline.errors import DamagedLogRange, PipelineError
from hatwisted.pipeline.jobs.land.queuestarts import queue_starts
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.spark.queueoffsets import offsets_json, stored_offsets
from hatwisted.pipeline.spark.readoptions import Options
from hatwisted.pipeline.spark.rocketmqoptions import (
    TopicChoice,
    broker_away,
    cluster_settings,
    rocketmq_options,
)
from hatwisted.pipeline.spark.storelist import StoreList

TASK_BYTES: Final = 256 << 20
"""Of log, at least, by default: each task writes a file for every partition of the table that it has rows of."""
TASKS_PER_CORE: Final = 2
"""Per core, of a full trigger: few large files, and still work for a core that finishes early."""
MESSAGE_BYTES: Final = 1 << 10
"""Of a message, about, where only their number is known."""

_log = logging.getLogger(__name__)


LandedQueues = Callable[[Collection[str]], QueueTails]
"""Called with brokers' names: where each of their queues ends in a table."""


class WrongStore(PipelineError):
    """The store isn't the log whose records the table has under its broker's name."""


class LandingSource(Protocol):
    """A stream of messages that can be landed."""

    @property
    def format(self) -> str:
        """Spark's name of the source."""

    def writer(self) -> Writer:
        """The brokers whose logs it reads now."""

    def identity(self) -> Writer:
        """What a checkpoint belongs to."""

    @property
    def more(self) -> Mapping[str, str]:
        """Further options of the read, as the user gave them."""

    @property
    def by_queue(self) -> bool:
        """Do its rows come by queue, so that a queue's last row says where it goes on?"""

    def check(self, tails: Mapping[str, Tail]) -> None:
        """Raises WrongStore if a broker's log doesn't hold the table's last record of it."""

    def backlog(self, tails: Mapping[str, Tail], queues: LandedQueues | None = None) -> int:
        """About how many bytes of log there are to land now; 0 if that isn't known.

        - tails: the table's last records
        - queues: where queues end there; None: that isn't asked
        """

    def options(self) -> dict[str, str]:
        """Options of the read."""

    def tasks(self, max_bytes: int, partitions: int | None, cores: int) -> dict[str, str]:
        """Options that cut a trigger into tasks.

        - max_bytes: of log in a trigger
        - partitions: tasks; None: by size and cores
        - cores: of the session
        """

    def resume(self, tails: Mapping[str, Tail], queues: LandedQueues) -> dict[str, str]:
        """Options by which a new checkpoint continues after the table's last records.

        - tails: those
        - queues: where queues end there
        """

    def is_beyond(self, reached: Mapping[str, Any], tails: Mapping[str, Tail], queues: LandedQueues) -> bool:
        """Has the table rows of beyond these offsets?

        - reached: as the source writes them
        - tails: its last records
        - queues: where queues end there
        """


@dataclass(frozen=True)
class Stores:
    """Store folders or patterns of them, one per broker; `more` are further options of the source `commitlog`."""

    paths: Sequence[str]
    more: Mapping[str, str] = field(default_factory=dict)
    format: str = "commitlog"
    by_queue: bool = False

    def writer(self) -> Writer:
        return Writer.of(self.stores())

    def identity(self) -> Writer:
        return self.writer()

    def stores(self) -> dict[str, LogStore]:
        """The stores there are, by broker."""
        options = Options(self.format, self.options(), (*self.more, "paths"))
        return StoreList(tuple(self.paths), options.items("broker")).stores()

    def check(self, tails: Mapping[str, Tail]) -> None:
        for broker, store in self.stores().items():
            if broker in tails:
                _check_store(store, tails[broker])

    def backlog(self, tails: Mapping[str, Tail], queues: LandedQueues | None = None) -> int:
        begins = {broker: tail.end for broker, tail in tails.items()}
        stores = self.stores().items()
        return sum(max(0, store.end() - begins.get(broker, store.min_offset)) for broker, store in stores)

    def options(self) -> dict[str, str]:
        return {**self.more, "paths": json.dumps(list(self.paths))}

    def tasks(self, max_bytes: int, partitions: int | None, cores: int) -> dict[str, str]:
        return {"splitBytes": str(self.split_bytes(max_bytes, partitions, cores))}

    def split_bytes(self, max_bytes: int, partitions: int | None, cores: int) -> int:
        """Bytes of a task.

        - max_bytes: of log in a trigger
        - partitions: tasks; None: by size and cores
        - cores: of the session
        """
        size = max(1, -(-max_bytes // (partitions or TASKS_PER_CORE * cores)))
        return max(size, TASK_BYTES) if partitions is None else size

    def resume(self, tails: Mapping[str, Tail], queues: LandedQueues) -> dict[str, str]:
        ends = {broker: tail.end for broker, tail in tails.items()}
        return {"startingOffsets": json.dumps(ends)} if ends else {}

    def is_beyond(self, reached: Mapping[str, Any], tails: Mapping[str, Tail], queues: LandedQueues) -> bool:
        return any(tail.end > reached.get(broker, 0) for broker, tail in tails.items())


@dataclass(frozen=True, slots=True)
class Reading:
    """What a cluster's options say. lossy: deleted messages are no error; patience: seconds for which a group of
    brokers may be away."""

    settings: ClusterSettings
    choice: TopicChoice
    lossy: bool
    patience: float


@dataclass(frozen=True)
class Cluster:
    """Topics of a cluster, read over the network: `topics` or a regular expression of their names.

    `more` are further options of the source `rocketmq`. A checkpoint belongs to the name servers and topics; where
    the table ends in each queue outranks it. That a queue is the one that was landed is known by its last landed
    record.
    """

    name_servers: str
    topics: Sequence[str] = ()
    pattern: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    format: str = "rocketmq"
    by_queue: bool = True

    def writer(self) -> Writer:
        reading = self.reading()
        with ClusterReader(reading.settings) as cluster:
            return Writer.of(queue.broker_name for queue in _queues(cluster, reading))

    def identity(self) -> Writer:
        return Writer.of([self.name_servers, *self.topics, *([self.pattern] if self.pattern else [])])

    def reading(self) -> Reading:
        """The options, understood."""
        options = rocketmq_options(self.options())
        lossy = not options.flag("failOnDataLoss", True)
        return Reading(cluster_settings(options), TopicChoice.of(options), lossy, broker_away(options))

    def check(self, tails: Mapping[str, Tail]) -> None:
        pass

    def backlog(self, tails: Mapping[str, Tail], queues: LandedQueues | None = None) -> int:
        if queues is None:
            return 0
        reading = self.reading()
        with ClusterReader(reading.settings) as cluster:
            there = _queues(cluster, reading)
            bounds = cluster.bounds(there)
        landed = _landed(queues, there)
        ends = {queue: tail.end for queue, tail in landed.items()}
        return MESSAGE_BYTES * sum(
            max(0, each.high - max(each.low, ends.get(queue, 0))) for queue, each in bounds.items()
        )

    def options(self) -> dict[str, str]:
        chosen = {"topics": json.dumps(list(self.topics))} if self.topics else {}
        if self.pattern is not None:
            chosen["topicsPattern"] = self.pattern
        return {**self.more, **chosen, "namesrvAddr": self.name_servers}

    def tasks(self, max_bytes: int, partitions: int | None, cores: int) -> dict[str, str]:
        return {} if partitions is None else {"minPartitions": str(partitions)}

    def resume(self, tails: Mapping[str, Tail], queues: LandedQueues) -> dict[str, str]:
        reading = self.reading()

        def lost(what: str) -> None:
            if not reading.lossy:
                raise OffsetsGone(f"{what}: set failOnDataLoss=false to continue with what is left")
            _log.warning("%s", what)

        with ClusterReader(reading.settings) as cluster:
            there = _queues(cluster, reading)
            landed = _landed(queues, there)
            known = {queue: at for queue, at in there.items() if queue in landed}
            starts = queue_starts(cluster, known, cluster.bounds(known), landed, lost)
        return {"startingOffsets": json.dumps(offsets_json(starts))} if starts else {}

    def is_beyond(self, reached: Mapping[str, Any], tails: Mapping[str, Tail], queues: LandedQueues) -> bool:
        reading = self.reading()
        with ClusterReader(reading.settings) as cluster:
            there = _queues(cluster, reading)
        offsets = stored_offsets(reached)
        landed = _landed(queues, there)
        return any(tail.end > offsets.get(queue, 0) for queue, tail in landed.items() if queue in there)


def _queues(cluster: ClusterReader, reading: Reading) -> Queues:
    choice = reading.choice
    return choice.queues_left(cluster) if reading.lossy else choice.queues(cluster)


def _landed(queues: LandedQueues, there: Queues) -> QueueTails:
    return queues({queue.broker_name for queue in there})


def _check_store(store: LogStore, tail: Tail) -> None:
    at = f"{store.path}: broker {store.broker}, offset {tail.physical_offset}"
    if store.end() < tail.end:
        raise WrongStore(
            f"{at}: the log ends at {store.end()}, before the last record in the table;"
            " it's another log, or a slave that lags: wait for it, or land into another table"
        )
    if store.min_offset > tail.physical_offset:
        return  # deleted by the broker's retention since; the checkpoint knows the place
    found = _record_at(store, tail)
    if tail.is_damage and not found:
        return
    # The broker's name isn't in its log: tail and store have been paired by it, whatever the folder is called.
    wanted = {name: getattr(tail, name) for name in TAIL_COLUMNS if name != "broker"}
    if any(value is not None and found.get(name) != value for name, value in wanted.items()):
        raise WrongStore(
            f"{at}: the table has another record there, so this isn't the log it was landed from;"
            " land into another table"
        )


def _record_at(store: LogStore, tail: Tail) -> dict[str, Any]:
    """The record that starts at the tail's offset; empty if none does."""
    begin = tail.physical_offset
    try:
        rows = read_arrow([store.path], TAIL_COLUMNS, begin=begin, end=begin + 1).read_all()
    except DamagedLogRange:
        return {}
    return plain_rows(rows).to_pylist()[0] if rows.num_rows else {}
