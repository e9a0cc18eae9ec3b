"""Rates of reading and consuming, by topic, as operators' tools show them: of the last minute, failures of the
last hour."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

MINUTE: Final = 60.0
HOUR: Final = 3600.0
SLOTS: Final = 60
"""Parts of a window; what is older than the window by less than one part may still count."""


class Seconds(Protocol):
    """A clock."""

    def seconds(self) -> float:
        """Of any clock that goes forward."""


class Window:
    """Sums of numbers of the last `span` seconds, in SLOTS parts."""

    def __init__(self, clock: Seconds, span: float) -> None:
        self._clock = clock
        self._span = span
        self._slots: deque[tuple[int, int, float]] = deque()

    def add(self, count: int, amount: float = 0.0) -> None:
        """`count` events that came to `amount` together."""
        slot = self._slot()
        if self._slots and self._slots[-1][0] == slot:
            _, before, sum_before = self._slots.pop()
            count, amount = count + before, amount + sum_before
        self._slots.append((slot, count, amount))
        self._forget(slot)

    def sums(self) -> tuple[int, float]:
        """Events and their amounts."""
        self._forget(self._slot())
        return sum(count for _, count, _ in self._slots), sum(amount for _, _, amount in self._slots)

    def _slot(self) -> int:
        return int(self._clock.seconds() * SLOTS / self._span)

    def _forget(self, now: int) -> None:
        while self._slots and self._slots[0][0] <= now - SLOTS:
            self._slots.popleft()


class _Topic:
    def __init__(self, clock: Seconds) -> None:
        self.pulls, self.pulled, self.calls, self.failures = (Window(clock, MINUTE) for _ in range(4))
        self.failures_of_hour = Window(clock, HOUR)


class ConsumerStats:
    """Of one consumer; topics are those it subscribes to."""

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self._topics: dict[str, _Topic] = {}

    def pulled(self, topic: str, messages: int, seconds: float) -> None:
        """See PullStats."""
        found = self._of(topic)
        found.pulls.add(1, seconds)
        found.pulled.add(messages)

    def consumed(self, topic: str, messages: int, seconds: float) -> None:
        """See ConsumeCounts."""
        self._of(topic).calls.add(messages, seconds)

    def failed(self, topic: str, messages: int) -> None:
        """A call of the program with `messages` failed."""
        found = self._of(topic)
        found.failures.add(messages)
        found.failures_of_hour.add(messages)

    def status(self, topic: str) -> dict[str, object]:
        """As tools read it: times in ms, rates per second."""
        found = self._of(topic)
        pulls, pull_seconds = found.pulls.sums()
        consumed, consume_seconds = found.calls.sums()
        return {
            "consumeFailedMsgs": found.failures_of_hour.sums()[0],
            "consumeFailedTPS": found.failures.sums()[0] / MINUTE,
            "consumeOKTPS": consumed / MINUTE,
            "consumeRT": 1000 * consume_seconds / consumed if consumed else 0.0,
            "pullRT": 1000 * pull_seconds / pulls if pulls else 0.0,
            "pullTPS": found.pulled.sums()[0] / MINUTE,
        }

    def _of(self, topic: str) -> _Topic:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic(self._clock)
        return found
