"""Which queue gets the next message: round robin over all masters, around brokers that are slow or gone.

A broker that answered slowly is avoided for a time that grows with its latency, in RocketMQ's steps. One
that failed is avoided for FAILURE_PAUSE, doubled with each failure in a row; the first success forgives
all. When every broker is to be avoided, round robin goes on over all of them: a guess is better than an error.

Rejected: RocketMQ's ten minutes after a single failure. A broker restarts within seconds, and its share of the
queues would lie idle for the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from hatwisted.timing.pauses import doubled
from hatwisted.wire.messagequeue import MessageQueue

LATENCY_STEPS: Final = (
    (15.0, 600.0),
    (3.0, 180.0),
    (2.0, 120.0),
    (1.0, 60.0),
    (0.55, 30.0),
)
"""(seconds an answer took at least, seconds the broker is then avoided), slowest first; as in 4.9.7."""
FAILURE_PAUSE: Final = 30.0
MAX_PAUSE: Final = 600.0
"""Seconds."""


class BrokerFaults:
    """How the brokers of a producer have fared. Times in seconds of one clock."""

    def __init__(self) -> None:
        self._avoid_until: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def answered(self, broker: str, latency: float, now: float) -> None:
        """A broker has stored something.

        - broker: its name
        - latency: seconds it took
        - now: seconds
        """
        self._failures.pop(broker, None)
        pause = next((pause for step, pause in LATENCY_STEPS if latency >= step), 0.0)
        if pause:
            self._avoid_until[broker] = now + pause
        else:
            self._avoid_until.pop(broker, None)

    def failed(self, broker: str, now: float) -> None:
        """It couldn't be reached, or said no."""
        failures = self._failures[broker] = self._failures.get(broker, 0) + 1
        self._avoid_until[broker] = now + doubled(FAILURE_PAUSE, failures - 1, MAX_PAUSE)

    def avoided(self, broker: str, now: float) -> bool:
        """Should another broker get the next message?"""
        return self._avoid_until.get(broker, 0.0) > now


class RoundRobin:
    """The order of one topic's queues: all masters' first queues, then their second ones, and so on, so that
    few messages are spread over many brokers."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def choose(
        self, queues: Sequence[MessageQueue], faults: BrokerFaults, now: float, tried: Collection[str] = ()
    ) -> MessageQueue:
        """The queue for a message.

        - queues: to choose from, not empty
        - faults: brokers better left alone
        - now: seconds
        - tried: brokers that have just failed this very message
        """
        first = self._next % len(queues)
        order = [*queues[first:], *queues[:first]]
        self._next += 1
        for queue in order:
            if queue.broker_name not in tried and not faults.avoided(queue.broker_name, now):
                return queue
        return next((queue for queue in order if queue.broker_name not in tried), order[0])


def interleaved(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """By queue id, then by broker."""
    return sorted(queues, key=lambda queue: (queue.queue_id, queue.broker_name))
