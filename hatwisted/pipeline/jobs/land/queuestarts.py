"""Where each queue of a cluster goes on after what a table has of it, and whether it's the queue that was landed.

A queue that ends before its last landed message, or has another record in its place, is one of a topic that was
deleted and created again, or of a master that was replaced by one that lacks messages. It's the same question as
a stream's of its checkpoint; here the table answers, which outranks every checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hatwisted.pipeline.delta.queuetails import QueueTails
from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.groupquestions import Absent
from hatwisted.pipeline.remote.positions import Bounds
from hatwisted.pipeline.remote.queuepull import queue_name
from hatwisted.pipeline.remote.recordmarks import Mark
from hatwisted.wire.messagequeue import MessageQueue

ANOTHER: Final = "the topic was deleted and created again, or the master replaced by one that lacks messages"

Lost = Callable[[str], object]
"""Called with what is lost: raises, or reports it and goes on."""


def queue_starts(
    cluster: ClusterReader,
    queues: Queues,
    bounds: Mapping[MessageQueue, Bounds],
    tails: QueueTails,
    lost: Lost,
    absent: Absent | None = None,
) -> dict[MessageQueue, int]:
    """The offset at which each queue goes on: a new one at its first message, one that isn't the landed one any
    more likewise, once that is told.

    - cluster: asked for records
    - queues: with their brokers
    - bounds: what they hold; those without are left out
    - tails: what has landed
    - lost: told of queues that aren't the landed ones
    - absent: told of groups that don't answer, whose queues are then left out; None: they are waited for
    """
    asked = {
        queue: tails[queue].end - 1
        for queue, each in bounds.items()
        if queue in tails and each.low < tails[queue].end <= each.high
    }
    marks = cluster.marks({queue: queues[queue] for queue in asked}, asked, absent)
    found = {}
    for queue, each in bounds.items():
        tail = tails.get(queue)
        if tail is None:
            found[queue] = each.low
            continue
        if queue in asked and queue not in marks:
            continue  # its brokers went away just now
        mark = marks.get(queue)
        if tail.end > each.high and each.by_master:
            what = f"ends at {each.high}, before {tail.end}, up to which the table has it"
        elif mark is not None and not mark.is_same(Mark(tail.physical, tail.stored)):
            what = f"has another message at {tail.end - 1} than the table"
        else:
            found[queue] = tail.end
            continue
        lost(f"{queue_name(queue)} {what}: {ANOTHER}")
        found[queue] = each.low
    return found
