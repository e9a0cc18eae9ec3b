"""A producer whose answers the promises of the simulation are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hatwisted.sim.history import Place, Sent
from hatwisted.sim.promises import Promises, Terms
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from tests.support.producer import Flight, Producer

MOST_MESSAGES = 1_000_000
"""Of one producer: its seed and this make numbers that no other one gives."""


class Judges(NamedTuple):
    """What a producer's answers are told to, and what they mean. master, slave: names of the machines."""

    promises: Promises
    terms: Terms
    master: str
    slave: str


class JudgedProducer(Producer):
    """Sends as any Producer does.

    - port: the master's
    - seed: no other producer of these promises may have it
    - pace: requests a second at most
    - judges: who hear of messages and answers
    """

    def __init__(self, port: int, seed: int, pace: float, judges: Judges) -> None:
        super().__init__(port, seed, pace)
        self._judges = judges
        self._first = seed * MOST_MESSAGES
        self._sent: dict[bytes, Sent] = {}

    def sending(self, queue: MessageQueue, bodies: list[bytes]) -> None:
        """See Producer."""
        for body in bodies:
            number = self._first + len(self._sent)
            sent = Sent(number=number, topic=queue.topic, queue_id=queue.queue_id, body=body, sent_at=0.0)
            self._sent[body] = sent
            self._judges.promises.send(sent)

    def answered(self, flight: Flight, answer: RemotingCommand, offsets: list[int]) -> None:
        """See Producer."""
        super().answered(flight, answer, offsets)
        promises, terms, master, slave = self._judges
        first = _first_offset(answer.ext)
        for number, body in enumerate(flight.bodies):
            sent = self._sent[body]
            sent.code = answer.code
            if offsets:
                sent.place = Place(sent.topic, sent.queue_id, first + number, offsets[number])
            promises.answered(sent, master, slave, terms)


def _first_offset(ext: Mapping[str, str]) -> int:
    return int(ext.get("queueOffset", -1))
