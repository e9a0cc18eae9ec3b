"""Topics that a message has made a moment ago, and answers that wait until they're kept.

A topic comes into being with its first message, and its table is written by a worker, and copied by slaves. Killed
meanwhile, a broker comes back with the message and without its topic: nobody can read it until the topic is made
again. So answers about messages to a new topic wait until it is where its messages are promised to be: in the
broker's file, and, where puts wait for slaves, in those of the slaves that watch its tables. That takes as long as
a few syncs, once in a topic's life; no other put waits, or costs more than one look at an empty table. Nobody is
waited for longer than KEEP_WAIT: the answer then says what it would have said at once. The log names slaves that
lack a table, and files that can't be written.

Rejected: writing the file in the middle of the send, as RocketMQ does (all clients would wait for the disk).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from hatwisted.broker.put.telling import Settled, tell_of
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.store.log.put import Put
from hatwisted.wire.layout import HALF_TOPIC, SCHEDULE_TOPIC

KEEP_WAIT = 1.0
"""Seconds that answers wait: producers wait 3 s for them."""

MAX_NEW_TOPICS = 1024
"""New topics waited for at a time; puts to further ones are answered at once."""

MAX_HELD_PUTS = 100_000
"""Puts whose answers wait (80 bytes each where the kernel is compiled); further ones are answered at once."""

_TOPICS_OF_OTHERS = frozenset((SCHEDULE_TOPIC, HALF_TOPIC))
"""Messages to any topic may lie there until they are due."""

Token = TypeVar("Token")


class _New:
    """A topic that isn't known to be kept. tell: calls for when it is."""

    def __init__(self, late: IDelayedCall) -> None:
        self.late = late
        self.tell: list[Callable[[], None]] = []


class NewTopics:
    """Those of one master, between `start` and `stop`.

    - clock: bounds the waits
    - topics: says what is made
    - kept: fires once topics, as they are when it's called, are kept; doesn't fail
    """

    def __init__(
        self, clock: IReactorTime, topics: TopicConfigTable, kept: Callable[[], Deferred[object]]
    ) -> None:
        self._clock = clock
        self._kept = kept
        self._running = False
        self._new: dict[str, _New] = {}
        self.held = 0
        """Puts whose answers wait."""
        topics.on_made(self._made)

    @property
    def some(self) -> bool:
        """Is there a topic that may not be kept yet?"""
        return bool(self._new)

    def start(self) -> None:
        """Hold answers from now on."""
        self._running = True

    def stop(self) -> None:
        """Hold none any more."""
        self._running = False
        for topic, new in list(self._new.items()):
            self._end(topic, new)

    def _made(self, topic: str) -> None:
        if not self._running or len(self._new) >= MAX_NEW_TOPICS or topic in self._new:
            return
        new = self._new[topic] = _New(self._clock.callLater(KEEP_WAIT, lambda: self._end(topic, new)))
        self._kept().addCallback(lambda _: self._end(topic, new))

    def _end(self, topic: str, new: _New) -> None:
        if self._new.get(topic) is not new:
            return
        del self._new[topic]
        if new.late.active():
            new.late.cancel()
        for tell in new.tell:
            tell()

    def after(self, settled: Settled[Token]) -> Settled[Token]:
        """`settled`, called later with puts to topics that are new by then."""

        def tell(puts: Sequence[Put[Token]]) -> None:
            held: dict[str, list[Put[Token]]] = {}
            known = []
            for put in puts:
                topic = self._new_topic_of(put)
                if topic is None:
                    known.append(put)
                else:
                    held.setdefault(topic, []).append(put)
            if known:
                tell_of(known, settled)
            for topic, some in held.items():
                self._hold(self._new[topic], settled, some)

        return tell

    def _new_topic_of(self, put: Put[Token]) -> str | None:
        if self.held >= MAX_HELD_PUTS or not self._new:
            return None
        if put.topic in _TOPICS_OF_OTHERS:
            return next(reversed(self._new))  # kept later than those before it
        return put.topic if put.topic in self._new else None

    def _hold(self, new: _New, settled: Settled[Token], puts: list[Put[Token]]) -> None:
        def tell() -> None:
            self.held -= len(puts)
            tell_of(puts, settled)

        self.held += len(puts)
        new.tell.append(tell)
