"""What a consumer wants of a topic: tags as text, matched in the queue by the Java hash of each tag.

The broker compares hashes only (a queue entry has no room for a tag's text); the client compares the text
again, so a collision costs a few bytes and is never seen. Parsing follows FilterAPI of RocketMQ 4.9.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from hatwisted.broker.namesizes import name_bytes
from hatwisted.broker.requests import BadClientData
from hatwisted.wire.consumerdata import ALL_TAGS, TAG
from hatwisted.wire.javahash import java_hash

TAGS_PER_PLACE: Final = 16
"""So many tags take about as much as a subscription without any."""

_INT64_END: Final = 1 << 63


class Subscription(msgspec.Struct, frozen=True):
    """A consumer group's subscription to one topic.

    tags_codes: int32 hashes of the wanted tags, None for all; version: the client's clock when it subscribed
    (ms), by which newer replaces older; class_filter: does the client say classFilterMode?
    """

    topic: str
    expression: str
    version: int
    tags_codes: frozenset[int] | None
    expression_type: str = TAG
    class_filter: bool = False

    @property
    def by_tag(self) -> bool:
        """Can it be decided on queue entries alone?"""
        return self.expression_type == TAG

    @property
    def size(self) -> int:
        """What it counts where there is room for so many: one, and another one for each KiB of text, and for each
        TAGS_PER_PLACE tags, of which short ones take twenty times their text."""
        text = sum(map(name_bytes, (self.topic, self.expression, self.expression_type)))
        return 1 + (text >> 10) + len(self.tags_codes or ()) // TAGS_PER_PLACE


def tags_codes(expression: str | None) -> frozenset[int] | None:
    """Hashes of the tags in `a || b`; None (all records) for "*", "" and None."""
    if not expression or expression == ALL_TAGS:
        return None
    tags = (tag.strip() for tag in expression.split("||"))
    return frozenset(java_hash(tag) for tag in tags if tag)


def subscribe(topic: str, expression: str | None, expression_type: str | None, version: int) -> Subscription:
    """The subscription a pull request carries itself (flag 4).

    - topic: of the queue
    - expression: tags, or SQL92; None: everything
    - expression_type: "TAG" or "SQL92"; None: tags
    - version: ms when it was made
    """
    kind = expression_type or TAG
    codes = tags_codes(expression) if kind == TAG else None
    return Subscription(topic, expression or ALL_TAGS, version, codes, kind)


def parse_subscription(data: Mapping[str, object]) -> Subscription:
    """One object of a heartbeat's `subscriptionDataSet`. Raises BadClientData if it names no topic.

    The hashes are made from the text: not every client library fills `codeSet`.
    """
    topic = data.get("topic")
    if not isinstance(topic, str) or not topic:
        raise BadClientData("a subscription without topic")
    expression = data.get("subString")
    text = expression if isinstance(expression, str) else _joined(data.get("tagsSet"))
    version = data.get("subVersion")
    kind = data.get("expressionType")
    wanted = subscribe(topic, text, kind if isinstance(kind, str) else None, _number(version))
    if data.get("classFilterMode") is True:
        wanted = msgspec.structs.replace(wanted, tags_codes=None, class_filter=True)
    return wanted


def _joined(tags: object) -> str | None:
    return "||".join(str(tag) for tag in tags) if isinstance(tags, list) else None


def _number(value: object) -> int:
    """An int64 that some clients write as a string; 0 if there is none."""
    try:
        number = int(value) if isinstance(value, (int, str)) else 0
    except ValueError:
        return 0
    return number if -_INT64_END <= number < _INT64_END else 0
