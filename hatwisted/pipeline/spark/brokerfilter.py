"""What brokers can filter by themselves, so that the other messages never leave them.

Brokers know two kinds of filters: tags, and SQL92 over a message's properties (where `enablePropertyFilter` is
on). A condition on tags becomes the first, and is checked again in the task, since brokers compare hashes; the
option `sql92` is the second, and what a broker says of it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hatwisted.clientcore.pullprogress import ALL_AT_ONCE, PullTerms
from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.wire.consumerdata import SQL92, TAG
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.topics import SYSTEM_PREFIX, SYSTEM_TOPICS

MAX_TAGS: Final = 100
"""Tags of one expression: more are left to the task, since it goes with each pull."""
_OR: Final = "||"


def broker_filter(queue: MessageQueue, where: Iterable[Condition], sql92: str | None) -> PullTerms:
    """What is said of a queue's messages to its brokers.

    - queue: which; in the brokers' own topics tags are something else
    - where: all conditions
    - sql92: an expression over properties
    """
    if sql92 is not None:
        return PullTerms(expression=sql92, expression_type=SQL92)
    if queue.topic in SYSTEM_TOPICS or queue.topic.startswith(SYSTEM_PREFIX):
        return ALL_AT_ONCE
    for condition in where:
        if condition.column == "tags" and condition.op in ("=", "in"):
            tags = condition.value if condition.op == "in" else (condition.value,)
            if 0 < len(tags) <= MAX_TAGS and all(map(_is_plain, tags)):
                return PullTerms(expression=f" {_OR} ".join(tags), expression_type=TAG)
    return ALL_AT_ONCE


def _is_plain(tag: object) -> bool:
    """Does an expression mean just this tag by it?"""
    return isinstance(tag, str) and tag == tag.strip() and tag not in ("", "*") and "|" not in tag
