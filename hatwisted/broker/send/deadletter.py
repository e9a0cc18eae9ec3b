"""Retries and dead letters: how often a group tries a message, and the topics for the next try and after the last.

The rules of RocketMQ 4.9.7's SendMessageProcessor.
"""

from __future__ import annotations

import msgspec

from hatwisted.broker.consumer.subscriptiongroup import GroupConfig
from hatwisted.broker.requests import Refusal
from hatwisted.broker.topic.topicconfig import TopicConfigTable, name_problem
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.registration import PERM_WRITE
from hatwisted.wire.topics import DLQ_PREFIX, RETRY_PREFIX

DLQ_QUEUES = 1
"""Queues of a group's dead-letter topic."""

MAX_TIMES_SINCE = 121
"""Version (V3_4_9) from which on a consumer's own maxReconsumeTimes counts; before, the group's does."""


def max_times(group: GroupConfig, version: int, asked: int | None) -> int:
    """How often a message is tried.

    - group: its consumers' settings
    - version: of its client; what an old one says doesn't count
    - asked: what the consumer says, None if nothing
    """
    return asked if asked is not None and version >= MAX_TIMES_SINCE else group.retry_max_times


def retry_topic(topics: TopicConfigTable, group: str, queues: int, sys_flag: int = 0) -> str | Refusal:
    """The topic of messages that a group is to try again; created on demand.

    - topics: the table
    - group: its name
    - queues: that it gets if it's made
    - sys_flag: that it gets if it's made
    """
    return _writable(topics, RETRY_PREFIX + group, queues, sys_flag)


def dead_letter_topic(topics: TopicConfigTable, group: str) -> str | Refusal:
    """The topic of messages that the group has failed to consume; created on demand."""
    return _writable(topics, DLQ_PREFIX + group, DLQ_QUEUES, 0)


def _writable(topics: TopicConfigTable, name: str, queues: int, sys_flag: int) -> str | Refusal:
    problem = name_problem(name)
    if problem is not None:
        return Refusal(ResponseCode.SYSTEM_ERROR, problem)
    config = topics.ensure(name, queues, sys_flag=sys_flag)
    if not config.perm & PERM_WRITE:
        return Refusal(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
    if config.read_queue_nums < 1:  # made while the group wanted no repetitions: nobody could read them
        topics.put(msgspec.structs.replace(config, read_queue_nums=queues, write_queue_nums=queues))
    return name


def unknown_group(group: str) -> Refusal:
    """No such group, and it may not be made."""
    return Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}")
