"""Names of topics that every party of the protocol knows; those of the log itself are in `layout`."""

from __future__ import annotations

from typing import Final

from hatwisted.wire.layout import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC

AUTO_CREATE_TOPIC: Final = "TBW102"
"""The topic whose settings new topics inherit when producers name it, as all do by default; its route says which
brokers create topics at the first message."""

SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
MAX_CHECKS_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Half messages that were checked too often."""

NOT_FOR_PRODUCERS: Final = frozenset(
    (SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, MAX_CHECKS_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC)
)
"""The broker writes these itself."""

RETRY_PREFIX: Final = "%RETRY%"
"""Prefix of a group's name: the topic of messages that the group is to try again."""
DLQ_PREFIX: Final = "%DLQ%"
"""Prefix of a group's name: the topic of messages that the group has failed to consume."""

SYSTEM_TOPICS: Final = NOT_FOR_PRODUCERS | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}
SYSTEM_PREFIX: Final = "rmq_sys_"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
"""Suffix of a cluster's name: the topic of replies to requests."""
