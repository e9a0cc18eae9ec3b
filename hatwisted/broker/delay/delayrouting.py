"""Where a delayed message is stored: in the queue of its level, with its own topic and queue as properties.

The rule of RocketMQ 4.9.7's CommitLog, with one slip ruled out: a list without levels would send delayed
messages to queue -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hatwisted.wire.layout import PROPERTY_DELAY, SCHEDULE_TOPIC
from hatwisted.wire.properties import set_destination
from hatwisted.wire.requestheader import int_field


def route_delayed(
    properties: dict[str, str], topic: str, queue_id: int, levels: Sequence[int]
) -> tuple[str, int]:
    """Topic and queue to store a message in: those of its delay level if it has a DELAY above 0, else its own.

    properties: the message's; of a delayed one they are changed to name its own topic and queue.
    topic, queue_id: where it is sent to.
    levels: the broker's delay levels; a higher DELAY counts as the last one.

    Raises BadRequestField for a DELAY that is no number.
    """
    level = min(int_field(properties, PROPERTY_DELAY, 0), len(levels))
    if level <= 0:
        return topic, queue_id
    properties[PROPERTY_DELAY] = str(level)
    set_destination(properties, topic, queue_id)
    return SCHEDULE_TOPIC, level - 1


def without_delay(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with DELAY 0, as RocketMQ's dead letters have it: whatever the consumer's own properties say,
    a dead letter isn't delayed again."""
    return {**properties, PROPERTY_DELAY: "0"}
