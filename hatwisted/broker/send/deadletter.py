"""Where a message is stored instead of the queue it is meant for: a delayed one with its level, one that has
been tried too often with the dead letters of its group.

The rules of RocketMQ 4.9.7's CommitLog and SendMessageProcessor, with two of its slips ruled out: a list without
levels would send delayed messages to queue -1, and a copy for the dead letters would be delayed once more if
the consumer's own properties say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.broker.topic.topicconfig import Refusal, TopicConfigTable, name_problem
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.layout import (
    PROPERTY_DELAY,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    SCHEDULE_TOPIC,
)
from hatwisted.wire.registration import PERM_WRITE
from hatwisted.wire.requestheader import int_field
from hatwisted.wire.topics import DLQ_PREFIX, RETRY_PREFIX

DLQ_QUEUES = 1
"""Queues of a group's dead-letter topic."""

MAX_TIMES_SINCE = 121
"""Version (V3_4_9) from which on a consumer's own maxReconsumeTimes counts; before, the group's does."""


def postpone(properties: dict[str, str], topic: str, queue_id: int, levels: Sequence[int]) -> tuple[str, int]:
    """Topic and queue to store a message under: its own, or those of its delay level if it has a DELAY above
    0. `properties` are made to say then where it belongs. BadRequestField for a DELAY that is no number."""
    level = min(int_field(properties, PROPERTY_DELAY, 0), len(levels))
    if level <= 0:
        return topic, queue_id
    properties[PROPERTY_DELAY] = str(level)
    properties[PROPERTY_REAL_TOPIC] = topic
    properties[PROPERTY_REAL_QUEUE_ID] = str(queue_id)
    return SCHEDULE_TOPIC, level - 1


def max_times(group: GroupConfig, version: int, asked: int | None) -> int:
    """How often a message of `group` is tried; asked: what the consumer says, None if nothing."""
    return asked if asked is not None and version >= MAX_TIMES_SINCE else group.retry_max_times


def retry_topic(topics: TopicConfigTable, group: str, queues: int, sys_flag: int = 0) -> str | Refusal:
    """The topic of what the group is to try again; made on demand."""
    return _writable(topics, RETRY_PREFIX + group, queues, sys_flag)


def dead_letter_topic(topics: TopicConfigTable, group: str) -> str | Refusal:
    """The topic of what the group has tried in vain; made on demand."""
    return _writable(topics, DLQ_PREFIX + group, DLQ_QUEUES, 0)


def _writable(topics: TopicConfigTable, name: str, queues: int, sys_flag: int) -> str | Refusal:
    problem = name_problem(name)
    if problem is not None:
        return Refusal(ResponseCode.SYSTEM_ERROR, problem)
    config = topics.ensure(name, queues, sys_flag=sys_flag)
    if not config.perm & PERM_WRITE:
        return Refusal(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
    return name


def unknown_group(group: str) -> Refusal:
    """No such group, and it may not be made."""
    return Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}")


def without_delay(properties: Mapping[str, str]) -> dict[str, str]:
    """What a dead letter says of itself: DELAY 0, as RocketMQ's do."""
    return {**properties, PROPERTY_DELAY: "0"}
