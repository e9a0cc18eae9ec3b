"""A shop's messages for some seconds, so that there is something to see: clicks in waves, orders, payments, and a
rush of orders at two thirds. The same in every run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from hatwisted.demo.inputs import Message, Source
from hatwisted.wire import layout
from hatwisted.wire.properties import encode_properties

SECONDS: Final = 20.0
TICK: Final = 0.1
"""s; what is due within one goes at once."""
RATE: Final = 400
"""Messages a second, on average; waves go from a fifth of it to almost twice as much."""
WAVE: Final = 7.0
"""s from one crest to the next."""
RUSH: Final = (0.62, 0.72)
"""Of the time: six times as many orders."""
KINDS: Final = {"ShopClicks": 0.70, "ShopOrders": 0.20, "ShopPayments": 0.10}
"""Topic -> share of the messages."""
PAGES: Final = ("home", "search", "product", "cart", "help")
GOODS: Final = ("lamp", "chair", "table", "kettle", "rug", "mirror", "shelf", "clock")


class Traffic:
    """A Source; messages are due at their time after the first. seconds: how long it lasts."""

    def __init__(self, seconds: float) -> None:
        self.name = f"{seconds:g} s of a shop's traffic"
        self.position = 0
        self._messages = list(_made(seconds))
        self.total = sum(len(each.body) for each in self._messages)

    def __iter__(self) -> Iterator[Message]:
        for message in self._messages:
            self.position += len(message.body)
            yield message


class Several:
    """One source after the other."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.name = ", then ".join(each.name for each in sources)
        self.total = sum(each.total for each in sources)
        self._sources = sources

    @property
    def position(self) -> int:
        """Of all of them."""
        return sum(each.position for each in self._sources)

    def __iter__(self) -> Iterator[Message]:
        for each in self._sources:
            yield from each


def _made(seconds: float) -> Iterator[Message]:
    chance = Random(907)
    number = 0
    for tick in range(round(seconds / TICK)):
        at = tick * TICK
        level = RATE * TICK * (1 + 0.8 * math.sin(2 * math.pi * at / WAVE))
        rush = RUSH[0] <= at / seconds < RUSH[1]
        for topic, share in KINDS.items():
            wanted = level * share * (6 if rush and topic == "ShopOrders" else 1)
            for _ in range(int(wanted) + (chance.random() < wanted % 1)):
                number += 1
                yield _message(topic, number, chance, at)


def _message(topic: str, number: int, chance: Random, due: float) -> Message:
    customer = f"c{int(chance.paretovariate(0.6)) % 5000}"
    body: dict[str, object] = {"customer": customer}
    if topic == "ShopClicks":
        key, tag = customer, chance.choice(PAGES)
        body |= {"page": tag, "ms": int(chance.lognormvariate(5, 0.7))}
    elif topic == "ShopOrders":
        key, tag = f"order-{number}", chance.choice(("new", "changed"))
        lines = [
            {"good": chance.choice(GOODS), "count": chance.randint(1, 4), "price": chance.randint(5, 400)}
            for _ in range(min(40, int(chance.paretovariate(1.2))))
        ]
        body |= {"order": key, "lines": lines, "note": "please ring twice" if chance.random() < 0.2 else ""}
    else:
        key, tag = f"order-{max(1, number - chance.randint(1, 50))}", chance.choice(("paid", "refused"))
        body |= {"order": key, "amount": chance.randint(5, 900), "currency": "EUR"}
    properties = encode_properties({layout.PROPERTY_KEYS: key, layout.PROPERTY_TAGS: tag})
    return Message(topic, json.dumps(body, separators=(",", ":")).encode(), properties, due=due)
