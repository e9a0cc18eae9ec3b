"""A client's heartbeat (34): the groups that it speaks for, checked and bounded."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hatwisted.broker.filter.subscriptiondata import Subscription, parse_subscription
from hatwisted.broker.requests import BadClientData
from hatwisted.wire.consumerdata import (
    CLUSTERING,
    CONSUME_FROM,
    CONSUME_FROM_LAST,
    CONSUME_PASSIVELY,
    CONSUME_TYPES,
    MESSAGE_MODELS,
)

MAX_GROUPS_PER_HEARTBEAT = 1024
"""Groups one heartbeat may name; real clients name one to a few dozen. More is refused."""

MAX_SUBSCRIPTIONS_PER_GROUP = 10_000
"""Topics one group may subscribe to; more in one heartbeat is refused."""

MAX_NAME = 1024
"""Characters of a client's or a group's name: real ones have up to 255. Longer ones are refused."""

MAX_WORD = 64
"""Characters that are kept of a language or one of RocketMQ's constants."""


class ConsumerData(msgspec.Struct, frozen=True):
    """One consumer group of a heartbeat."""

    group: str
    consume_type: str
    message_model: str
    consume_from: str
    unit_mode: bool
    subscriptions: tuple[Subscription, ...]


class Heartbeat(msgspec.Struct, frozen=True):
    """A client and the groups it speaks for."""

    client_id: str
    consumers: tuple[ConsumerData, ...]
    producers: tuple[str, ...]


def parse_heartbeat(data: object) -> Heartbeat:
    """The decoded JSON body of a heartbeat; both sets, types and versions may be missing or be numbers.

    Raises BadClientData if there is no client id, or more groups, topics or text than the limits allow.
    """
    if not isinstance(data, dict) or not isinstance(data.get("clientID"), str):
        raise BadClientData("a heartbeat needs a clientID")
    consumers = _objects(data.get("consumerDataSet"))
    producers = _objects(data.get("producerDataSet"))
    if len(consumers) + len(producers) > MAX_GROUPS_PER_HEARTBEAT:
        raise BadClientData(f"more than {MAX_GROUPS_PER_HEARTBEAT} groups in one heartbeat")
    names = tuple(name for name in (_text(item.get("groupName")) for item in producers) if name)
    every = (data["clientID"], *names, *(_text(item.get("groupName")) for item in consumers))
    if max(map(len, every)) > MAX_NAME:
        raise BadClientData(f"a name of more than {MAX_NAME} characters in a heartbeat")
    return Heartbeat(
        client_id=data["clientID"],
        consumers=tuple(_consumer(item) for item in consumers if _text(item.get("groupName"))),
        producers=names,
    )


def _consumer(item: dict[str, object]) -> ConsumerData:
    subscriptions = _objects(item.get("subscriptionDataSet"))
    if len(subscriptions) > MAX_SUBSCRIPTIONS_PER_GROUP:
        raise BadClientData(f"more than {MAX_SUBSCRIPTIONS_PER_GROUP} subscriptions in one group")
    return ConsumerData(
        group=_text(item.get("groupName")),
        consume_type=_enum(item.get("consumeType"), CONSUME_TYPES, CONSUME_PASSIVELY),
        message_model=_enum(item.get("messageModel"), MESSAGE_MODELS, CLUSTERING),
        consume_from=_enum(item.get("consumeFromWhere"), CONSUME_FROM, CONSUME_FROM_LAST),
        unit_mode=item.get("unitMode") is True,
        subscriptions=tuple(parse_subscription(subscription) for subscription in subscriptions),
    )


def _objects(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _enum(value: object, names: Mapping[int, str], default: str) -> str:
    """Java's enums travel by name, or by number from clients that aren't Java."""
    if isinstance(value, int):
        return names.get(value, default)
    return value if isinstance(value, str) and 0 < len(value) <= MAX_WORD else default
