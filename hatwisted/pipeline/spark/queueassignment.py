"""`assign`: single queues instead of all of a topic's.

    {"Orders": {"broker-a": [0, 1]}, "Payments": [3]}

Numbers without a broker's name, as Spark's source for Kafka takes them, mean these queues of all brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hatwisted.clientcore.errors import BadSetting
from hatwisted.pipeline.spark.readoptions import Options
from hatwisted.wire.messagequeue import MessageQueue

ASSIGN: Final = "assign"
_Named = tuple[str, str | None, int]
"""Topic, broker (None: all) and number."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The queues that were named."""

    named: frozenset[_Named]

    @property
    def topics(self) -> tuple[str, ...]:
        """Their topics."""
        return tuple(sorted({topic for topic, _, _ in self.named}))

    def has(self, queue: MessageQueue) -> bool:
        """Is it one of them?"""
        return any(name in self.named for name in _names(queue))

    def check(self, queues: Collection[MessageQueue]) -> None:
        """Raises BadSetting if one that was named isn't among those that there are."""
        missing = self.named.difference(name for queue in queues for name in _names(queue))
        for topic, broker, number in sorted(missing, key=str):
            where = "" if broker is None else f" of {broker}"
            raise BadSetting(
                f"{ASSIGN}: topic {topic} has no queue {number}{where} that can be read: "
                "`hatwisted topic list` shows what there is"
            )


def assignment(options: Options) -> Assignment | None:
    """From the options; None if it isn't given. Raises BadOption."""
    tree = options.mapping(ASSIGN)
    if tree is None:
        return None
    try:
        named = frozenset(_parsed(tree))
    except (AttributeError, TypeError, ValueError):
        named = frozenset()
    if not named:
        raise options.wrong(
            ASSIGN, 'queues by topic and broker, as {"T": {"broker-a": [0, 1]}} or {"T": [0, 1]}'
        )
    return Assignment(named)


def _parsed(tree: Mapping[str, Any]) -> list[_Named]:
    found: list[_Named] = []
    for topic, brokers in tree.items():
        if isinstance(brokers, list):
            found += [(topic, None, _number(each)) for each in brokers]
        else:
            found += [(topic, name, _number(each)) for name, numbers in brokers.items() for each in numbers]
    return found


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def _names(queue: MessageQueue) -> tuple[_Named, _Named]:
    return (
        (queue.topic, queue.broker_name, queue.queue_id),
        (queue.topic, None, queue.queue_id),
    )
