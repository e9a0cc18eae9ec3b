"""What the key index of a store must say: every item names a record with that key, and no promised message is left
out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hatwisted.sim.history import Seen, Sent, Violation
from hatwisted.sim.messageload import KEYS, TOPICS, key_of


class IndexedStore(Protocol):
    """A store whose index an inspector may ask."""

    @property
    def name(self) -> str:
        """The machine's."""

    def indexed(self, topic: str, key: str) -> dict[int, Seen | None] | None:
        """By log offset, the records that the index names; None without an index."""


def check_index(messages: Iterable[Sent], store: IndexedStore) -> Iterable[Violation]:
    """All keys of producers' messages. Only once the store has indexed all that it holds.

    - messages: that were sent
    - store: with an index or without
    """
    promised = [sent for sent in messages if store.name in sent.on and sent.place is not None]
    for topic in TOPICS:
        for key in KEYS:
            found = store.indexed(topic, key)
            if found is None:
                return
            for offset, seen in found.items():
                if seen is None or seen.place.topic != topic or key_of(int(seen.body[:8])) != key:
                    shown = (
                        "no record" if seen is None else f"message {int(seen.body[:8])} of {seen.place.topic}"
                    )
                    what = (
                        f"the index of {store.name} has {key} of {topic} at {offset}, where there is {shown}"
                    )
                    yield Violation("index", what)
            for sent in promised:
                place = sent.place
                if place is None or place.topic != topic or key_of(int(sent.body[:8])) != key:
                    continue
                if place.log_offset not in found:
                    yield Violation("index", f"message {sent.number} isn't in the index of {store.name}")
