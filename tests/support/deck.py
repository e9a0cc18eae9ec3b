"""Draws in which nothing stays away for long."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Generic, TypeVar

Card = TypeVar("Card")


class Deck(Generic[Card]):
    """Cards, which are shuffled and dealt, all of them before one comes again.

    - cards: in any number of each
    - chance: what shuffles
    """

    def __init__(self, cards: Sequence[Card], chance: random.Random) -> None:
        self._cards = cards
        self._chance = chance
        self._left: list[Card] = []

    def deal(self) -> Card:
        """The next one."""
        if not self._left:
            self._left = self._chance.sample(self._cards, len(self._cards))
        return self._left.pop()
