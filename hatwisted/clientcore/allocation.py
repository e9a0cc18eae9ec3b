"""Who of a consumer group reads which queues: RocketMQ's AllocateMessageQueueAveragely.

Every member computes it for itself from the same two sorted lists, so Java clients in the group must come to
the same result: contiguous runs, the first `queues mod members` members get one more.
"""

from __future__ import annotations

from collections.abc import Iterable

from hatwisted.wire.messagequeue import MessageQueue


def allocate(queues: Iterable[MessageQueue], members: Iterable[str], me: str) -> list[MessageQueue]:
    """The share of one member; nothing if it isn't among them.

    - queues: all of the topic
    - members: client ids of the group
    - me: which of them
    """
    ordered = sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
    ids = sorted(set(members))
    if me not in ids:
        return []
    place = ids.index(me)
    size, more = divmod(len(ordered), len(ids))
    start = place * size + min(place, more)
    return ordered[start : start + size + (place < more)]
