"""What a consumer wants of a topic: all of it, some tags, or what an SQL92 expression chooses.

The broker filters tags by their hash; the text is compared here, so a collision is never seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.message import checked_topic
from hatwisted.wire.consumerdata import ALL_TAGS, SQL92, TAG
from hatwisted.wire.javahash import java_hash
from hatwisted.wire.layout import PROPERTY_TAGS


@dataclass(frozen=True, slots=True)
class Subscription:
    """topic; expression: "*", "a || b", or SQL92 text; kind: TAG or SQL92; version: ms when it was made."""

    topic: str
    expression: str
    kind: str
    version: int

    @property
    def tags(self) -> frozenset[str]:
        """The wanted tags; empty means all."""
        if self.kind != TAG or self.expression == ALL_TAGS:
            return frozenset()
        return frozenset(tag for each in self.expression.split("||") if (tag := each.strip()))

    def wants(self, properties: Mapping[str, str]) -> bool:
        """Is a message with these properties meant, and not just its tag's hash?"""
        tags = self.tags
        return not tags or properties.get(PROPERTY_TAGS) in tags

    def entry(self) -> dict[str, object]:
        """As heartbeats carry it."""
        tags = sorted(self.tags)
        return {
            "classFilterMode": False,
            "codeSet": [java_hash(tag) for tag in tags],
            "expressionType": self.kind,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": tags,
            "topic": self.topic,
        }


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL92 expression over properties, where a subscription is asked for: `{"Orders": Sql("price > 5")}`."""

    expression: str


def parse_subscription(topic: str, expression: str | Sql, version: int) -> Subscription:
    """What a group wants of a topic. BadMessage for a bad topic, BadSetting for what is no expression.

    - topic: its name
    - expression: "*", tags separated by "||", or Sql
    - version: rises with each change
    """
    if isinstance(expression, Sql):
        return Subscription(checked_topic(topic), expression.expression, SQL92, version)
    if not isinstance(expression, str):
        raise BadSetting(f"topic {topic!r}: a subscription is a string or Sql(...), not {expression!r}")
    return Subscription(checked_topic(topic), expression.strip() or ALL_TAGS, TAG, version)
