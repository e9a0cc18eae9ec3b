"""Which offset a time means in each queue of a stream, asked once: the messages before and after it don't
change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.positions import Bounds
from hatwisted.pipeline.spark.queueoffsets import Offsets
from hatwisted.pipeline.spark.queuereads import milliseconds_up
from hatwisted.wire.messagequeue import MessageQueue


def _now() -> datetime:
    return datetime.now(UTC)


class TimeEdges:
    """Of one stream. now: what time it is."""

    def __init__(self, now: Callable[[], datetime] = _now) -> None:
        self._now = now
        self._known: dict[tuple[MessageQueue, int], int] = {}

    def forget(self) -> None:
        """A queue has other messages now."""
        self._known.clear()

    def at(
        self,
        cluster: ClusterReader,
        queues: Queues,
        bounds: Callable[[Queues], dict[MessageQueue, Bounds]],
        time: datetime,
    ) -> Offsets:
        """The first offset stored at `time` or later, of the queues of which that can be said now. Of a time to
        come nothing can.

        - cluster: is asked
        - queues: which
        - bounds: what queues hold, of those whose brokers answer
        - time: which
        """
        if time > self._now():
            return {}
        milliseconds = milliseconds_up(time)
        found = {
            queue: self._known[queue, milliseconds]
            for queue in queues
            if (queue, milliseconds) in self._known
        }
        unknown = {queue: replicas for queue, replicas in queues.items() if replicas and queue not in found}
        if unknown:
            held = bounds(unknown)
            asked = cluster.offsets_at({queue: unknown[queue] for queue in held}, held, milliseconds)
            found |= asked
            for queue, offset in asked.items():
                if offset < held[queue].high:
                    self._known[queue, milliseconds] = offset
        return found
