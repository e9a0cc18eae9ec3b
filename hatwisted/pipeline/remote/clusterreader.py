"""Reading a cluster: which queues there are, where they begin and end, and their messages.

    with ClusterReader(ClusterSettings(name_servers=("10.0.0.1:9876",))) as cluster:
        queues = cluster.queues(topics=["Orders"])
        bounds = cluster.bounds(queues)
        for queue, replicas in queues.items():
            wanted = QueueRange(queue, bounds[queue].low, bounds[queue].high, replicas)
            for batch in cluster.read(wanted, ["queue_offset", "body"]):
                ...

Reading joins no group and commits no offsets: consumers never notice. Answers are collected until decoding a batch
is worth its overhead; memory is that of a batch, whatever the range.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from hatwisted.blocking.closing import Closing
from hatwisted.blocking.connection import Clock
from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.routes import Routes, queues_to_read
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BrokerGone, NoRoute
from hatwisted.clientcore.rounds import pause_after
from hatwisted.clientcore.routes import Replicas, readable_queues, replicas_of
from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.decode import decode_batches
from hatwisted.pipeline.remote.groupquestions import Absent
from hatwisted.pipeline.remote.positions import Bounds, bounds_of, offsets_at
from hatwisted.pipeline.remote.queuepull import WHOLE, PullOptions, QueuePull, QueueRange, queue_name
from hatwisted.pipeline.remote.recordmarks import Mark, entries_at, marks_at
from hatwisted.wire.messagequeue import MessageQueue

DECODE_BYTES: Final = 4 * 1024 * 1024
"""Records decoded at once: 3,000 messages of 1 KiB. Less wastes the fixed cost of a batch, more memory."""

Queues = dict[MessageQueue, Replicas]
"""Queues in order, with the brokers that have them."""


class ClusterReader(Closing):
    """For one thread. Its methods raise BrokerGone, Refused, NoRoute and OffsetsGone.

    - settings: of the cluster
    - clock: seconds, monotonic
    - sleep: waits for some seconds
    """

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._driver = BlockingDriver(Links(settings, clock, sleep))
        self._routes = Routes(self._driver)
        self._routes_now = Routes(self._driver, retries=0)

    def close(self) -> None:
        """Close all connections."""
        self._driver.close()

    def pause(self, tried: int) -> None:
        """Wait after the round `tried` (from 0) of the settings' retries."""
        self._driver.pause(pause_after(tried))

    def queues(self, topics: Iterable[str] = (), pattern: str | None = None) -> Queues:
        """The readable queues of the named topics, and of all topics whose name matches; in order of topic,
        broker and number. NoRoute if a named topic doesn't exist, or none matches."""
        found: Queues = {}
        named = sorted(set(topics))
        for topic in named:
            queues = self._queues_of(topic)
            if queues is None:
                raise NoRoute(
                    topic,
                    "the name servers don't know it: there's no such topic, or no broker that has "
                    "it is alive (`hatwisted topic list` shows what there is)",
                )
            found |= queues
        if pattern is not None:
            matching = [topic for topic in self._routes.matching(pattern) if topic not in named]
            if not matching and not named:
                raise NoRoute(pattern, f"no topic's name matches {pattern!r}: see `hatwisted topic list`")
            for topic in matching:
                # Deleted since the list was made, perhaps.
                found |= self._queues_of(topic) or {}
        return found

    def queues_now(
        self, topics: Iterable[str] = (), pattern: str | None = None
    ) -> tuple[Queues, frozenset[str]]:
        """The same by one question, without a pause, and of what brokers that are alive have; and the named topics
        that no name server knows."""
        found: Queues = {}
        unknown = set()
        named = set(topics)
        matching = () if pattern is None else self._routes_now.matching(pattern)
        for topic in sorted(named.union(matching)):
            route = self._routes_now.route(topic)
            if route is None:
                unknown.add(topic)
                continue
            for queue in readable_queues(topic, route):
                if replicas := replicas_of(route, queue.broker_name):
                    found[queue] = replicas
        return found, frozenset(unknown & named)

    def broker_names(self) -> frozenset[str]:
        """The groups of which the name servers know a broker that is alive."""
        return self._routes_now.broker_names()

    def _queues_of(self, topic: str) -> Queues | None:
        route = self._routes.route(topic)
        if route is None:
            return None
        found: Queues = {}
        for queue in queues_to_read(topic, route):
            replicas = replicas_of(route, queue.broker_name)
            if not replicas:
                raise BrokerGone(
                    f"topic {topic}: no broker {queue.broker_name} is alive, and it has queues of it"
                )
            found[queue] = replicas
        return found

    def bounds(
        self, queues: Mapping[MessageQueue, Replicas], absent: Absent | None = None
    ) -> dict[MessageQueue, Bounds]:
        """Where each queue begins and ends now; absent: as `ask_groups` takes it, here and below."""
        return bounds_of(self._driver, queues, absent)

    def marks(
        self,
        queues: Mapping[MessageQueue, Replicas],
        offsets: Mapping[MessageQueue, int],
        absent: Absent | None = None,
    ) -> dict[MessageQueue, Mark | None]:
        """Which record is at an offset of each queue; None, where there's none.

        - queues: with their brokers
        - offsets: by queue
        - absent: told of groups that don't answer
        """
        return marks_at(self._driver, queues, offsets, absent)

    def sizes(
        self,
        queues: Mapping[MessageQueue, Replicas],
        spans: Mapping[MessageQueue, tuple[int, int]],
        absent: Absent | None = None,
    ) -> dict[MessageQueue, list[int] | None]:
        """Bytes of each record from an offset on; None, where the broker doesn't say it.

        - queues: with their brokers
        - spans: the first record's offset and how many, by queue
        - absent: told of groups that don't answer
        """
        found = entries_at(self._driver, queues, spans, absent)
        return {
            queue: None if entries is None else [each.physic_size for each in entries]
            for queue, entries in found.items()
        }

    def offsets_at(
        self,
        queues: Mapping[MessageQueue, Replicas],
        bounds: Mapping[MessageQueue, Bounds],
        milliseconds: int,
    ) -> dict[MessageQueue, int]:
        """Of each queue the first message stored at some time or later, or its end.

        - queues: which
        - bounds: what they hold
        - milliseconds: the time, since the epoch
        """
        return offsets_at(self._driver, queues, bounds, milliseconds)

    def records(self, wanted: QueueRange, how: PullOptions = WHOLE) -> Iterator[bytes | memoryview]:
        """The range's records as stored, several to a piece; an error unless all of them come."""
        return QueuePull(self._driver, wanted, how).chunks()

    def read(
        self,
        wanted: QueueRange,
        columns: Sequence[str] | None = None,
        *,
        where: Sequence[Condition] = (),
        how: PullOptions = WHOLE,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a range, in batches, in the queue's order.

        - wanted: the range
        - columns: which; None: all; `file` is null
        - where: conditions that rows must meet
        - how: what is said of deleted messages, and of brokers that are away
        """
        broker, place = wanted.queue.broker_name, queue_name(wanted.queue)
        for data in _joined(self.records(wanted, how), DECODE_BYTES):
            for batch in decode_batches(data, columns, broker=broker, file=place, where=where):
                yield _without_file(batch)


def _without_file(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The decoder names a file in its errors, and these records have none."""
    index = batch.schema.get_field_index("file")
    if index < 0:
        return batch
    return batch.set_column(index, batch.schema.field(index), pa.nulls(batch.num_rows, pa.string()))


def _joined(pieces: Iterable[bytes | memoryview], least: int) -> Iterator[bytes]:
    """The same bytes in pieces of at least `least`, but for the last; none if there are none."""
    held: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= least:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)
