"""How much of each queue one trigger takes.

Limits are shared by the queues that have something. How many bytes a queue has isn't said by any broker, but the
sizes of single records are: those of the first ones waiting stand for the rest. Where a broker doesn't say them
either, a record is pulled, and its size remembered for the next thousand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hatwisted.pipeline.remote.clusterreader import ClusterReader, Queues
from hatwisted.pipeline.remote.groupquestions import Absent
from hatwisted.pipeline.remote.queuepull import PullOptions, QueueRange
from hatwisted.pipeline.spark.logplaces import shares
from hatwisted.pipeline.spark.queueoffsets import Offsets
from hatwisted.pipeline.spark.readoptions import Limits
from hatwisted.wire.messagequeue import MessageQueue

SAMPLE: Final = 64
"""Records of a queue whose sizes are asked for: 5 KB of an answer. A trigger of fewer is limited exactly."""
REMEMBERED: Final = 1000
"""Messages for which the size of one that was pulled stands."""
ASSUMED: Final = 1024
"""Bytes of a record, where the queue has a hole."""


class TriggerLimits:
    """Of one stream, which remembers sizes.

    - limits: as given
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pulled: dict[MessageQueue, tuple[int, int]] = {}

    def applied(
        self, cluster: ClusterReader, queues: Queues, begins: Offsets, ends: Offsets, absent: Absent | None
    ) -> Offsets:
        """How far a trigger goes in each queue.

        - cluster: asked for sizes
        - queues: with their brokers
        - begins: where it begins
        - ends: how far it could go
        - absent: as `ask_groups` takes it
        """
        if self._limits.max_bytes is not None:
            ends = self._of_bytes(cluster, queues, begins, ends, absent)
        if self._limits.max_records is not None:
            backlog = {queue: ends[queue] - begins[queue] for queue in ends}
            ends = {
                queue: begins[queue] + part
                for queue, part in _shared(backlog, self._limits.max_records).items()
            }
        return ends

    def _of_bytes(
        self, cluster: ClusterReader, queues: Queues, begins: Offsets, ends: Offsets, absent: Absent | None
    ) -> Offsets:
        assert self._limits.max_bytes is not None
        waiting = {queue: ends[queue] - begins[queue] for queue in ends if ends[queue] > begins[queue]}
        spans = {queue: (begins[queue], min(count, SAMPLE)) for queue, count in waiting.items()}
        found = dict(ends)
        sizes: dict[MessageQueue, list[int]] = {}
        said = cluster.sizes(queues, spans, absent)
        for queue in waiting:
            if queue in said:
                sizes[queue] = said[queue] or [self._pulled_size(cluster, queues, queue, begins[queue])]
            else:
                del found[queue]
        backlog = {queue: _bytes_of(sizes[queue], waiting[queue]) for queue in sizes}
        for queue, part in _shared(backlog, self._limits.max_bytes).items():
            if part < backlog[queue]:
                found[queue] = begins[queue] + min(waiting[queue], max(1, _count_in(sizes[queue], part)))
        return found

    def _pulled_size(self, cluster: ClusterReader, queues: Queues, queue: MessageQueue, begin: int) -> int:
        at, size = self._pulled.get(queue, (-REMEMBERED, 0))
        if not at <= begin < at + REMEMBERED:
            first = QueueRange(queue, begin, begin + 1, queues[queue])
            size = sum(len(each) for each in cluster.records(first, PullOptions(fail_on_loss=False)))
            self._pulled[queue] = begin, size or ASSUMED
        return self._pulled[queue][1]


def _bytes_of(sizes: list[int], count: int) -> int:
    """Of so many records, of which the first have these sizes."""
    return sum(sizes[:count]) + max(0, count - len(sizes)) * sum(sizes) // len(sizes)


def _count_in(sizes: list[int], room: int) -> int:
    """How many such records, at most, have no more bytes than that."""
    for count, size in enumerate(sizes):
        if size > room:
            return count
        room -= size
    return len(sizes) + room * len(sizes) // max(1, sum(sizes))


def _shared(backlog: Mapping[MessageQueue, int], limit: int) -> dict[MessageQueue, int]:
    """Each queue's part; those that get none wait for a later trigger."""
    if sum(backlog.values()) <= limit:
        return dict(backlog)
    numbered = dict(enumerate(backlog))
    parts = shares({str(number): backlog[queue] for number, queue in numbered.items()}, limit)
    return {queue: parts.get(str(number), 0) for number, queue in numbered.items()}
