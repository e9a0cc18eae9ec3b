"""Producers of a simulation: each message once, to the broker that the operator calls the master, never
repeated.

Messages cost most of a run's time, and tell most where something breaks or is mended: producers are busy then
(`hurry`), and send now and then in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from hatwisted.clientcore.errors import CallFailed
from hatwisted.remoting.client import RemotingClient
from hatwisted.sim.history import Place, Sent
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.layout import SCHEDULE_TOPIC
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import AUTO_CREATE_TOPIC

TIMEOUT = 8.0
"""Seconds for an answer: longer than a put waits for its slave."""

REST = 6
"""Times a busy producer's pause are one's at rest."""

TOPICS = ("T", "U")
QUEUES = 2

KEYS = tuple(f"k{number}" for number in range(7))


class LoadPattern(NamedTuple):
    """What is sent.

    - pause: seconds between two sends of busy producers, on average
    - sizes: of bodies, in bytes
    - delayed: share of messages with a delay level
    - delays: seconds of the broker's delay levels
    """

    pause: float
    sizes: tuple[int, ...]
    delayed: float = 0.0
    delays: Sequence[int] = ()


class LoadEvents(NamedTuple):
    """sent: with the broker's address; answered: with its `code` set, or without if there was no answer."""

    sent: Callable[[Sent, str], None]
    answered: Callable[[Sent], None]


class Load:
    """Sends at random intervals.

    - client: whose requests they are
    - clock: times them
    - random: draws when, where and what
    - pattern: how much and how often
    - target: address of the present master; None: there is none
    - events: called for each message
    """

    def __init__(
        self,
        client: RemotingClient,
        clock: IReactorTime,
        random: Random,
        pattern: LoadPattern,
        target: Callable[[], str | None],
        events: LoadEvents,
    ) -> None:
        self.running = False
        self.waiting = 0
        """Messages neither answered nor given up so far."""
        self._client = client
        self._clock = clock
        self._random = random
        self.pause = pattern.pause * REST
        """Seconds between two sends at rest, on average."""
        self._busy_until = 0.0
        self._next: IDelayedCall | None = None
        self._pattern = pattern
        self._target = target
        self._events = events
        self._number = 0

    def start(self) -> None:
        """Start sending."""
        self.running = True
        self._later()

    def stop(self) -> None:
        """Stop sending."""
        self.running = False

    def hurry(self, seconds: float) -> None:
        """Be busy from now on, for so long at least."""
        now = self._clock.seconds()
        rested = self._busy_until <= now
        self._busy_until = max(self._busy_until, now + seconds)
        if rested and self._next is not None and self._next.active():
            self._next.cancel()
            self._later()

    def _later(self) -> None:
        busy = self._clock.seconds() < self._busy_until
        pause = min(self._pattern.pause, self.pause) if busy else self.pause
        self._next = self._clock.callLater(self._random.expovariate(1 / pause), self._turn)

    def _turn(self) -> None:
        if not self.running:
            return
        target = self._target()
        if target is not None:
            for _ in range(self._random.choice((1, 1, 1, 4))):
                self.send(target)
        self._later()

    def send(self, target: str) -> Sent:
        """One message to a broker at "host:port"."""
        self._number += 1
        size = self._random.choice(self._pattern.sizes)
        body = b"%08d" % self._number + bytes((self._number % 251,)) * size
        topic, queue_id = self._random.choice(TOPICS), self._random.randrange(QUEUES)
        sent = Sent(
            number=self._number, topic=topic, queue_id=queue_id, body=body, sent_at=self._clock.seconds()
        )
        level = self._delay_level()
        queue, properties = (topic, queue_id), ""
        if level:
            sent.delay = self._pattern.delays[level - 1]
            queue, properties = (SCHEDULE_TOPIC, level - 1), f"DELAY\1{level}\2"
        self._events.sent(sent, target)
        self.waiting += 1
        answer = self._client.call(target, request(sent, self._clock, properties=properties), TIMEOUT)
        answer.addCallbacks(self._take, self._lost, callbackArgs=(sent, queue), errbackArgs=(sent,))
        return sent

    def _delay_level(self) -> int:
        """Of the next message, from 1; 0: none."""
        delayed = self._pattern.delayed
        if not delayed or self._random.random() >= delayed:
            return 0
        return self._random.randrange(len(self._pattern.delays)) + 1

    def _take(self, answer: RemotingCommand, sent: Sent, queue: tuple[str, int]) -> None:
        self.waiting -= 1
        take_answer(sent, queue, answer)
        self._events.answered(sent)

    def _lost(self, failure: Failure, sent: Sent) -> None:
        self.waiting -= 1
        not_answered(failure)
        self._events.answered(sent)


def not_answered(failure: Failure) -> None:
    """No answer has come, for whatever reason a network or a host may have."""
    failure.trap(CallFailed)


def key_of(number: int) -> str:
    """The key of that message."""
    return KEYS[number % len(KEYS)]


def take_answer(sent: Sent, queue: tuple[str, int], answer: RemotingCommand) -> None:
    """A send was answered.

    - sent: what was sent
    - queue: topic and queue in which the broker stores it
    - answer: the broker's
    """
    sent.code = answer.code
    if "queueOffset" in answer.ext:
        log_offset = int(answer.ext["msgId"][-16:], 16)
        sent.place = Place(*queue, int(answer.ext["queueOffset"]), log_offset)


def request(
    sent: Sent, clock: IReactorTime, *, group: str = "producers", properties: str = "", flags: int = 0
) -> RemotingCommand:
    """A send.

    - sent: what is sent
    - clock: dates it
    - group: the producer's
    - properties: as they are sent, beside its key
    - flags: sysFlag
    """
    fields: dict[str, object] = {
        "a": group,
        "b": sent.topic,
        "c": AUTO_CREATE_TOPIC,
        "d": QUEUES,
        "e": sent.queue_id,
        "f": flags,
        "g": int(clock.seconds() * 1000),
        "h": 0,
        "i": f"KEYS\1{key_of(int(sent.body[:8]))}\2{properties}",
        "j": 0,
        "k": "false",
        "m": "false",
    }
    texts = {name: str(value) for name, value in fields.items()}
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext=texts, body=sent.body)
