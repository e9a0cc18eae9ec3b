"""What consumer groups were given, and what they must have been given by the end.

No I/O and no clock, as `promises`. A group sees every message that the master's queues hold, its retries among
them, at least once; an ordered group sees those of a queue in their order. A message that it has failed on comes
again, or is among its dead letters; what is delivered once more after it has gone well, with as many failures or
more before it, needn't: another member may have committed it. In an ordered group, whose members count failures by
themselves, it needn't in any case: locks of queues end with the master's process, and the next one may pass a
queue on while the former holder still works on a message.

Progress is a number, and knows of no history: where a promoted slave never had what a group has read, the group's
number stands for other messages than before, and those that come to stand below it may be left out, unless they
were put by a master that knew the group's progress at its start (`begun`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from hatwisted.sim.history import Seen, StoreView, Violation
from hatwisted.wire.topics import DLQ_PREFIX, RETRY_PREFIX

QueueKey = tuple[str, int]
"""Topic and queue."""


class GroupTerms(NamedTuple):
    """How a group consumes. ordered: takes a queue's messages one by one; most: failures until a message is a
    dead letter."""

    name: str
    ordered: bool
    most: int

    @property
    def retry_topic(self) -> str:
        """Where its failed messages come again."""
        return RETRY_PREFIX + self.name

    @property
    def dead_letters(self) -> str:
        """Where they end."""
        return DLQ_PREFIX + self.name


class Consumption:
    """What one group has consumed so far."""

    def __init__(self, terms: GroupTerms) -> None:
        self.terms = terms
        self.deliveries = 0
        """Messages given to it, repeated ones included."""
        self.begun: dict[QueueKey, int] = {}
        """Ends that queues had when a master began with less than there was, if it knew the group's progress: what
        it puts from there on it gives to the group."""
        self._given: set[tuple[str, int, bytes]] = set()
        """Topic, queue and body."""
        self._first: dict[tuple[str, int, int, bytes], int] = {}
        """The number of the delivery that brought a body at a queue offset for the first time."""
        self._at: defaultdict[QueueKey, dict[int, set[bytes]]] = defaultdict(lambda: defaultdict(set))
        """Bodies met at each queue offset."""
        self._failing: dict[bytes, int] = {}
        """Messages whose last delivery failed, and how many had before, at most."""
        self._consumed: dict[bytes, int] = {}
        """Messages of which a delivery went well, and how many had failed before, at most."""

    def delivered(self, seen: Seen, *, failed: bool, times: int = 0) -> None:
        """A member has worked on a message.

        - seen: where it read it
        - failed: will it have it again?
        - times: failures before
        """
        self.deliveries += 1
        topic, queue_id, offset, _ = seen.place
        self._given.add((topic, queue_id, seen.body))
        self._first.setdefault((topic, queue_id, offset, seen.body), self.deliveries)
        self._at[topic, queue_id][offset].add(seen.body)
        if not failed:
            self._failing.pop(seen.body, None)
            self._consumed[seen.body] = max(times, self._consumed.get(seen.body, 0))
        elif seen.body not in self._consumed or (
            not self.terms.ordered and times > self._consumed[seen.body]
        ):
            self._failing[seen.body] = max(times, self._failing.get(seen.body, 0))

    def missing(self, store: StoreView, topics: Iterable[QueueKey]) -> list[Violation]:
        """Messages of these queues, and of its retries, that it was never given."""
        keys = [*topics, (self.terms.retry_topic, 0)]
        return [violation for key in keys for violation in self._missing_in(store, *key)]

    def _missing_in(self, store: StoreView, topic: str, queue_id: int) -> Iterable[Violation]:
        first, messages = store.queue(topic, queue_id)
        lost = self._end_of_lost(topic, queue_id, first, messages)
        lost = min(lost, self.begun.get((topic, queue_id), lost))
        for offset, seen in enumerate(messages, first):
            if seen is not None and offset >= lost and (topic, queue_id, seen.body) not in self._given:
                where = f"{topic}/{queue_id} #{offset} of {store.name}"
                yield Violation("consumed", f"{self.terms.name} was never given the message at {where}")

    def _end_of_lost(self, topic: str, queue_id: int, first: int, messages: list[Seen | None]) -> int:
        """The offset after the last one at which the group was given a message that isn't there (any more)."""
        ends = [
            offset + 1
            for offset, bodies in self._at[topic, queue_id].items()
            if bodies - {_body_at(messages, offset - first)}
        ]
        return max(ends, default=0)

    def out_of_order(self, store: StoreView, topics: Iterable[QueueKey]) -> Iterable[Violation]:
        """Messages that an ordered group was given before one that stands earlier in the queue."""
        if not self.terms.ordered:
            return
        for topic, queue_id in topics:
            latest, after = 0, -1
            first, messages = store.queue(topic, queue_id)
            lost = self._end_of_lost(topic, queue_id, first, messages)
            for offset, seen in enumerate(messages, first):
                number = None if seen is None else self._first.get((topic, queue_id, offset, seen.body))
                if number is None or offset < lost:
                    continue
                if number < latest:
                    what = f"{self.terms.name} was given #{offset} of {topic}/{queue_id} before #{after}"
                    yield Violation("ordered", what)
                latest, after = number, offset

    def forgotten(self, store: StoreView) -> Iterable[Violation]:
        """Messages that it has failed on, and that neither came again nor are dead letters. Only of a group that
        has lost no log."""
        _, letters = store.queue(self.terms.dead_letters, 0)
        dead = {seen.body for seen in letters if seen is not None}
        for body, times in self._failing.items():
            told = f"{self.terms.name} failed {times + 1} times on message {body[:8].decode()}"
            if body not in dead:
                yield Violation("retried", f"{told}, which hasn't come again and is no dead letter")
            elif times + 1 < self.terms.most:
                # One may be missing: it is counted before for a copy that the member sends by itself.
                yield Violation("retried", f"{told}, which is a dead letter")


def _body_at(messages: list[Seen | None], index: int) -> bytes | None:
    """Of the message there; expired ones count as gone."""
    seen = messages[index] if 0 <= index < len(messages) else None
    return None if seen is None else seen.body
