"""How far behind a stream is, as its progress says it beside the places where queues or logs end.

A source in Python has no metrics in Spark's progress. So what Kafka's source tells there is in `latestOffset`, by
the same names, under one that isn't a topic's or a broker's; seconds are ours:

    ":lag": {"minOffsetsBehindLatest": 0, "avgOffsetsBehindLatest": 12.5, "maxOffsetsBehindLatest": 40,
             "estimatedTotalBytesBehindLatest": 52000,
             "avgSecondsBehindLatest": 0.8, "maxSecondsBehindLatest": 2.1}

Seconds are the age of the first message that the stream hasn't read when the trigger under way is done, by the
broker's clock and this one's. The age of the last one that it has read was rejected: a queue that gets a message a
day would always be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.spark.queueoffsets import Offsets
from hatwisted.pipeline.spark.triggerlimits import ASSUMED

LAG: Final = ":lag"
ASKED: Final = 256
"""Queues whose first waiting message is looked at, those with most of them: each costs two small answers."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What isn't read of a queue or log. size: bytes, about; since: when the first of it was stored, in ms; None:
    that isn't known."""

    offsets: int = 0
    size: int = 0
    since: int | None = None


def lag_of(waiting: Sequence[Waiting], now: float) -> dict[str, Any]:
    """The figures.

    - waiting: of each queue or log
    - now: seconds since 1970
    """
    offsets = [each.offsets for each in waiting] or [0]
    known = [each for each in waiting if not each.offsets or each.since is not None]
    ages = [0.0 if each.since is None else max(0.0, now - each.since / 1000) for each in known] or [0.0]
    return {
        LAG: {
            "minOffsetsBehindLatest": min(offsets),
            "avgOffsetsBehindLatest": round(sum(offsets) / len(offsets), 1),
            "maxOffsetsBehindLatest": max(offsets),
            "estimatedTotalBytesBehindLatest": sum(each.size for each in waiting),
            "avgSecondsBehindLatest": round(sum(ages) / len(ages), 3),
            "maxSecondsBehindLatest": round(max(ages), 3),
        }
    }


def queues_waiting(cluster: ClusterReader, queues: Queues, reached: Offsets, ends: Offsets) -> list[Waiting]:
    """Of each queue. That a group doesn't answer is the stream's to say: its messages are as large as others here.

    - cluster: asked about messages
    - queues: with their brokers
    - reached: where the stream will be
    - ends: where the queues end
    """
    left = {queue: max(0, ends[queue] - offset) for queue, offset in reached.items() if queue in ends}
    most = sorted((queue for queue in left if left[queue]), key=lambda queue: -left[queue])[:ASKED]
    placed = {queue: queues[queue] for queue in most}
    sizes = cluster.sizes(placed, {queue: (reached[queue], 1) for queue in most}, _nobody)
    marks = cluster.marks(placed, {queue: reached[queue] for queue in most}, _nobody)
    known = [said[0] for said in sizes.values() if said]
    usual = sum(known) // len(known) if known else ASSUMED
    found = []
    for queue, count in left.items():
        size, mark = (sizes.get(queue) or [usual])[0], marks.get(queue)
        found.append(Waiting(count, count * size, None if mark is None else mark.stored))
    return found


def _nobody(name: str, why: Exception) -> None:
    """A group that doesn't answer."""
