"""Offsets of queues as Spark keeps them, and ranges of queues as tasks read them.

    {"Orders": {"broker-a": {"0": 1500, "1": 1498}, "broker-b": {"0": 3}}}

The same JSON is a stream's checkpoint (with more beside it, see `queueplaces`) and an option's value; an option
may say "earliest" or "latest" for a number, or -2 or -1 as for Kafka, or a time. Keys are sorted, since Spark
compares offsets as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from hatwisted.pipeline.remote.queuepull import QueueRange
from hatwisted.pipeline.spark.queuetimes import AtTime
from hatwisted.pipeline.spark.readoptions import OffsetBound, parse_time
from hatwisted.wire.messagequeue import MessageQueue

TASK_MESSAGES: Final = 20_000
"""Messages that are worth a task: shorter queues share one. A task costs some 20 ms."""

OTHER: Final = ":"
"""What begins so isn't a topic's name, and whatever it has isn't offsets: so a stream's place can be an option's
value."""

_BOUNDS: Final = {-2: OffsetBound.EARLIEST, -1: OffsetBound.LATEST}
"""As Spark's source for Kafka calls them."""

Offsets = dict[MessageQueue, int]


def offsets_json(offsets: Mapping[MessageQueue, Any]) -> dict[str, Any]:
    """By topic, broker and queue."""
    found: dict[str, Any] = {}
    for queue in sorted(offsets, key=queue_order):
        brokers = found.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return found


def by_queue(tree: Mapping[str, Any]) -> Iterator[tuple[MessageQueue, Any]]:
    """The reverse; ValueError if it has another shape."""
    for topic, brokers in tree.items():
        if topic.startswith(OTHER):
            continue
        for broker, queues in _mapping(brokers).items():
            for number, value in _mapping(queues).items():
                if not number.isdecimal():
                    raise ValueError(f"queue {number!r} of topic {topic} isn't a number")
                yield MessageQueue(topic=topic, broker_name=broker, queue_id=int(number)), value


def parse_offsets(tree: Mapping[str, Any]) -> dict[MessageQueue, int | OffsetBound | AtTime]:
    """Offsets as an option has them; ValueError if it can't be offsets."""
    return {queue: _offset(value) for queue, value in by_queue(tree)}


def stored_offsets(tree: Mapping[str, Any]) -> Offsets:
    """Offsets that a stream wrote itself."""
    return {queue: offset for queue, offset in parse_offsets(tree).items() if isinstance(offset, int)}


def queue_order(queue: MessageQueue) -> tuple[str, str, int]:
    """Sorts queues."""
    return queue.topic, queue.broker_name, queue.queue_id


def packed(ranges: Iterable[QueueRange], at_least: int | None = None) -> list[tuple[QueueRange, ...]]:
    """Ranges put together into tasks: in order, none empty. at_least: this many tasks, where there are as many
    messages; long ranges are cut for it."""
    wanted = [each for each in ranges if each.end > each.begin]
    total = sum(each.end - each.begin for each in wanted)
    if at_least is None:
        return list(_groups(wanted, TASK_MESSAGES))
    size = max(1, total // at_least)
    return list(_groups((piece for each in wanted for piece in _cut(each, size)), size))


def _cut(wanted: QueueRange, size: int) -> Iterator[QueueRange]:
    """Pieces of about `size` messages, none much smaller."""
    count = max(1, -(-(wanted.end - wanted.begin) // size))
    edges = [wanted.begin + (wanted.end - wanted.begin) * each // count for each in range(count + 1)]
    for begin, end in zip(edges, edges[1:], strict=False):
        yield replace(wanted, begin=begin, end=end)


def _groups(ranges: Iterable[QueueRange], size: int) -> Iterator[tuple[QueueRange, ...]]:
    group: list[QueueRange] = []
    held = 0
    for each in ranges:
        if group and held + each.end - each.begin > size:
            yield tuple(group)
            group, held = [], 0
        group.append(each)
        held += each.end - each.begin
    if group:
        yield tuple(group)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} isn't a JSON object")
    return value


def _offset(value: Any) -> int | OffsetBound | AtTime:
    if isinstance(value, AtTime):
        return value
    if isinstance(value, str):
        if value in ("earliest", "latest"):
            return OffsetBound(value)
        time = None if value.isdigit() else parse_time(value)
        if time is not None:
            return AtTime(time)
    if isinstance(value, bool) or not isinstance(value, int) or value < min(_BOUNDS):
        raise ValueError(f"{value!r} isn't an offset")
    return _BOUNDS.get(value, value)
