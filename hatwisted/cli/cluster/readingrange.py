"""`consume -o OFFSET -p QUEUE -e`: which queues are read, from where, and up to where.

Offsets that a queue doesn't have are moved to the nearest one that it has, and somebody is told: a broker would do
the same, silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from hatwisted.cli.errors import CannotRun
from hatwisted.cli.optionvalues import milliseconds
from hatwisted.client.admin import Admin
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.clientcore.routes import readable_queues
from hatwisted.wire.messagequeue import MessageQueue


class Kind(Enum):
    """How a place is meant: FIRST and LAST need no number."""

    FIRST = 1
    LAST = 2
    OFFSET = 3
    BACK = 4  # so many before the end
    TIME = 5  # ms since the epoch


class Place(NamedTuple):
    """One in each queue."""

    kind: Kind
    number: int = 0


_WORDS: Final = {
    "beginning": Place(Kind.FIRST),
    "first": Place(Kind.FIRST),
    "end": Place(Kind.LAST),
    "last": Place(Kind.LAST),
}
_OFFSET: Final = re.compile(r"-?[0-9]{1,19}")
_EPOCH: Final = re.compile(r"[0-9]{11,}")
"""Digits of ms since the epoch, as kcat takes a time."""
_QUEUE: Final = re.compile(r"(?:(.+)/)?([0-9]{1,9})")


class Offsets(NamedTuple):
    """What -o says: where to begin, None if it doesn't say so; and where to end."""

    begin: Place | None = None
    end: Place | None = None


def parse_offsets(texts: Iterable[str]) -> Offsets:
    """From all -o together. Raises ValueError."""
    found: dict[str, Place] = {}
    for text in texts:
        which = "end" if text.startswith("e@") else "begin"
        if which in found:
            raise ValueError(f"two {which}s are given")
        found[which] = _place(text)
    return Offsets(**found)


def _place(text: str) -> Place:
    if text in _WORDS:
        return _WORDS[text]
    if _OFFSET.fullmatch(text):
        return Place(Kind.BACK, -int(text)) if text.startswith("-") else Place(Kind.OFFSET, int(text))
    if text[:2] in ("s@", "e@"):
        time = text[2:]
        return Place(Kind.TIME, int(time) if _EPOCH.fullmatch(time) else milliseconds(time))
    if text == "stored":
        raise ValueError("without a group nothing is stored: with --group it's where one begins anyway")
    raise ValueError(f"{text!r} isn't beginning, end, OFFSET, -COUNT, s@TIME or e@TIME")


def place_of(begin: tuple[ConsumeFrom, int]) -> Place:
    """That of --from."""
    where, timestamp = begin
    if where is ConsumeFrom.TIMESTAMP:
        return Place(Kind.TIME, timestamp)
    return Place(Kind.FIRST if where is ConsumeFrom.FIRST else Kind.LAST)


class QueueChoice(NamedTuple):
    """What -p says: a queue of one broker, or, with None, of each."""

    broker: str | None
    number: int

    def matches(self, queue: MessageQueue) -> bool:
        """Is it one of these?"""
        return queue.queue_id == self.number and self.broker in (None, queue.broker_name)


def parse_queue(text: str) -> QueueChoice:
    """From one -p. Raises ValueError."""
    found = _QUEUE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} isn't the number of a queue, or BROKER/NUMBER")
    return QueueChoice(found[1], int(found[2]))


class Range(NamedTuple):
    """Of a topic's queues: from where each is read, and which offset isn't read any more."""

    begin: Mapping[MessageQueue, int]
    end: Mapping[MessageQueue, int]


async def range_of(
    admin: Admin,
    topic: str,
    choices: Iterable[QueueChoice],
    offsets: Offsets,
    warn: Callable[[str], object],
) -> Range:
    """Ask the brokers.

    - admin: asks them
    - topic: of the queues
    - choices: which ones; none: all
    - offsets: begin, at the end if it doesn't say; end, what is the end now if it doesn't
    - warn: is told where a queue hasn't such an offset
    """
    choices = list(choices)
    readable = set(readable_queues(topic, await admin.route(topic)))
    known = {
        queue: bounds for queue, bounds in (await admin.topic_offsets(topic)).items() if queue in readable
    }
    chosen = {
        queue: bounds
        for queue, bounds in known.items()
        if not choices or any(each.matches(queue) for each in choices)
    }
    for choice in choices:
        if not any(choice.matches(queue) for queue in known):
            there = ", ".join(f"{each.broker_name}/{each.queue_id}" for each in sorted(known)) or "none"
            named = f"{choice.broker}/{choice.number}" if choice.broker else str(choice.number)
            raise CannotRun(f"topic {topic} has no queue {named}; there are: {there}")
    begin, end = {}, {}
    for queue, bounds in chosen.items():
        begin[queue] = await _resolved(admin, queue, bounds, offsets.begin or Place(Kind.LAST), warn)
        end[queue] = await _resolved(admin, queue, bounds, offsets.end or Place(Kind.LAST), warn)
    return Range(begin, end)


async def _resolved(
    admin: Admin, queue: MessageQueue, bounds: tuple[int, int], place: Place, warn: Callable[[str], object]
) -> int:
    low, high = bounds
    if place.kind is Kind.TIME:
        return await _first_since(admin, queue, bounds, place.number)
    if place.kind is Kind.OFFSET:
        found = min(max(place.number, low), high)
        if found != place.number:
            name = f"queue {queue.queue_id} of {queue.broker_name}"
            warn(f"{name} has offsets {low} to {high}: reading from {found}, not from {place.number}")
        return found
    if place.kind is Kind.BACK:
        return max(low, high - place.number)
    return low if place.kind is Kind.FIRST else high


async def _first_since(admin: Admin, queue: MessageQueue, bounds: tuple[int, int], time: int) -> int:
    """The offset of the first message not older than a time. A broker names the last message where all are older,
    and RocketMQ's the nearest one, which may be the older of two."""
    asked: Any = await admin.offset_at(queue, time)
    found = min(max(int(asked), bounds[0]), bounds[1])
    if found < bounds[1]:
        there: Any = await admin.messages_at(queue.topic, queue.queue_id, found)
        found += any(
            each.queue.broker_name == queue.broker_name and each.store_timestamp < time for each in there
        )
    return found
