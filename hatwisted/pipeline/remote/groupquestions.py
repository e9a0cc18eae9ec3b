"""Small questions about many queues, to the brokers that have them.

The master is asked, since a slave lags a moment; if it's down, a slave is. These are small requests, many of
them under way at once, and no load for a master.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.clientcore.errors import BadAnswer, BrokerGone, Refused
from hatwisted.clientcore.rounds import Rounds
from hatwisted.clientcore.routes import Replicas
from hatwisted.pipeline.remote.queuepull import queue_name
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.registration import MASTER_ID
from hatwisted.wire.remoting import RemotingCommand

T = TypeVar("T")

Placed = Mapping[MessageQueue, Replicas]
"""Queues and the brokers of their groups."""
Absent = Callable[[str, BrokerGone], object]
"""Called with the name of a group of which no broker answers, and why."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """What is asked about each queue.

    - what: in words, for errors
    - ask: the requests about a queue
    - read: what an answer says, of the broker at an address, about a queue; BadAnswer and Refused turn to the next
      broker
    """

    what: str
    ask: Callable[[MessageQueue], list[RemotingCommand]]
    read: Callable[[str, MessageQueue, RemotingCommand], T]


@dataclass(frozen=True, slots=True)
class GroupAnswer(Generic[T]):
    """What is said about a queue, one value for each request."""

    said: tuple[T, ...]
    by_master: bool


def ask_groups(
    driver: BlockingDriver, queues: Placed, question: Question[T], absent: Absent | None = None
) -> dict[MessageQueue, GroupAnswer[T]]:
    """What the brokers say about each queue. BrokerGone if no broker of a group answers, Refused if all refuse.

    - driver: asks the cluster
    - queues: which
    - question: about each
    - absent: told of groups that don't answer at once, whose queues are then left out; None: they are waited for
    """
    groups: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        groups[queue.broker_name].append(queue)
    found: dict[MessageQueue, GroupAnswer[T]] = {}
    for name, group in groups.items():
        replicas = {number: address for queue in group for number, address in queues[queue].items()}
        asked = _Group(driver, name, replicas, group)
        try:
            found |= asked.answers(question, driver.settings.retries if absent is None else 0)
        except BrokerGone as error:
            if absent is None:
                raise
            absent(name, error)
        except Refused:
            if absent is None:
                raise
            # Its brokers are there, and a pause may help.
            found |= asked.answers(question, driver.settings.retries)
    return {queue: found[queue] for queue in queues if queue in found}


@dataclass(frozen=True, slots=True)
class _Group:
    """One group's brokers and those of its queues that are asked about."""

    driver: BlockingDriver
    name: str
    replicas: Replicas
    queues: Sequence[MessageQueue]

    def answers(self, question: Question[T], retries: int) -> dict[MessageQueue, GroupAnswer[T]]:
        """From the master, or from a slave if the master is down; several rounds, as with reading."""
        order = sorted(self.replicas, key=lambda number: (number != MASTER_ID, number))
        numbers = {self.replicas[number]: number for number in order}
        rounds = Rounds(retries)
        while True:
            address = rounds.first_of(sorted(numbers, key=self.driver.is_dead))
            if address is None:
                pause = rounds.pause()
                if pause is None:
                    details = "; ".join(map(str, rounds.failures.values()))
                    details = details or "the name servers have no address for it"
                    text = f"broker {self.name}: no broker of its group answers: {details}"
                    raise rounds.error(text, f"{question.what} of {queue_name(self.queues[0])}: {details}")
                self.driver.pause(pause)
                continue
            try:
                return self._ask(address, question, numbers[address] == MASTER_ID)
            except (BrokerGone, BadAnswer, Refused) as failure:
                rounds.failed(address, failure)

    def _ask(
        self, address: str, question: Question[T], by_master: bool
    ) -> dict[MessageQueue, GroupAnswer[T]]:
        requests = [question.ask(queue) for queue in self.queues]
        answers = iter(self.driver.ask_all(address, (each for one in requests for each in one)))
        return {
            queue: GroupAnswer(
                tuple(question.read(address, queue, next(answers)) for _ in requests[at]), by_master
            )
            for at, queue in enumerate(self.queues)
        }
