"""Times as places in queues: an offset that is a time, and what `startingOffsetsByTimestamp` gives, or
`startingTimestamp` for all of them.

{"Orders": {"broker-a": {"0": 1769860800000, "1": "2026-01-31T12:00:00Z"}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hatwisted.clientcore.errors import BadSetting
from hatwisted.pipeline.remote.queuepull import queue_name
from hatwisted.pipeline.spark.readoptions import Options, parse_time
from hatwisted.wire.messagequeue import MessageQueue

BY_TIMESTAMP: Final = "ByTimestamp"
STRATEGY: Final = "startingOffsetsByTimestampStrategy"
STRATEGIES: Final = ("error", "latest")


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message stored then or later. strict: it's an error if there's none; else it's the queue's end."""

    time: datetime
    strict: bool = False

    def check(self, queue: MessageQueue, offset: int, end: int) -> None:
        """Raises BadSetting if no message is there and one has to be.

        - queue: which
        - offset: that was found
        - end: of the queue
        """
        if self.strict and offset >= end:
            raise BadSetting(
                f"{queue_name(queue)} has no message stored at {self.time.isoformat()} or later: give an earlier "
                f"time, or {STRATEGY}=latest to begin at its end"
            )


def time_of_all(options: Options, name: str) -> AtTime | None:
    """The time that stands for offsets of every queue; None if none is given. Raises BadOption.

    - options: of the read
    - name: of the option of offsets
    """
    full = f"{name.removesuffix('Offsets')}Timestamp"
    time = options.instant(full)
    if time is None:
        return None
    for other in (name, name + BY_TIMESTAMP):
        if options.text(other) is not None:
            raise options.wrong(full, f"left out, or {other}: both say where to begin or end")
    return AtTime(time, _is_strict(options, name))


def places_by_time(options: Options, name: str) -> dict[str, Any] | None:
    """The option `name` with ByTimestamp, as offsets that are times; None if it isn't given. Raises BadOption."""
    full = name + BY_TIMESTAMP
    tree = options.mapping(full)
    if tree is None:
        return None
    if options.text(name) is not None:
        raise options.wrong(full, f"left out, or {name}: both say where to begin or end")
    strict = _is_strict(options, name)
    try:
        return {topic: _by_broker(brokers, strict) for topic, brokers in tree.items()}
    except (AttributeError, ValueError):
        raise options.wrong(
            full, 'times by topic, broker and queue, as {"T": {"broker-a": {"0": 1769860800000}}}'
        ) from None


def _is_strict(options: Options, name: str) -> bool:
    return name.startswith("starting") and options.choice(STRATEGY, STRATEGIES, "error") == "error"


def _by_broker(brokers: Mapping[str, Mapping[str, Any]], strict: bool) -> dict[str, Any]:
    return {
        broker: {number: _at(value, strict) for number, value in queues.items()}
        for broker, queues in brokers.items()
    }


def _at(value: Any, strict: bool) -> AtTime:
    time = parse_time(str(value))
    if time is None:
        raise ValueError(value)
    return AtTime(time, strict)
