"""What must hold whatever happens, checked against stores and the history of answers.

No I/O and no clock: it sees answers and machines that lost their power, asked after every restart and promotion
and at the end.

A promise follows an answer. SEND_OK puts a message on the master that answered; of a SYNC_MASTER also on its
slave. A machine keeps what it promised through the death of its process; through a failure of its power only
what was promised to be durable: under SYNC_FLUSH on the master, with `haAck=durable` on the slave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from hatwisted.sim.history import NOT_STORED, STORED, Seen, Sent, StoreView, Violation
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.layout import HALF_TOPIC, SCHEDULE_TOPIC

BROKER_TOPICS = frozenset((SCHEDULE_TOPIC, HALF_TOPIC))
"""A broker may put a message there more than once."""


class Terms(NamedTuple):
    """How a broker answers. sync_slaves: SEND_OK says that a slave has it; sync_flush: that the master's disk
    has it; durable_acks: a slave says that it has what its disk has."""

    sync_slaves: bool
    sync_flush: bool
    durable_acks: bool


class Wrong(Protocol):
    """Bits that have changed at rest; see `decay`. in_log: is one of a log wrong?"""

    @property
    def in_log(self) -> bool: ...

    def touches(self, name: str, sent: Sent) -> bool:
        """Is something wrong with a message on this machine?"""

    def queues(self, name: str) -> Collection[tuple[str, int]]:
        """Queues of this machine that are wrong: topic and queue id."""


class _NothingWrong:
    in_log = False

    def touches(self, name: str, sent: Sent) -> bool:
        return False

    def queues(self, name: str) -> Collection[tuple[str, int]]:
        return ()


NOTHING_WRONG: Wrong = _NothingWrong()


class Promises:
    """What was promised so far, and who must keep it."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self._bodies: dict[bytes, Sent] = {}
        self._displaced: set[tuple[str, int]] = set()
        """Machines and messages of theirs that have lost their places in queues."""
        self._deleted: set[tuple[str, int]] = set()
        """Masters and messages whose topics they have deleted."""
        self.wrong: Wrong = NOTHING_WRONG
        """Bits that have changed at rest."""

    # -- what happens ----------------------------------------------------------------------------------------

    def send(self, sent: Sent) -> None:
        """A producer sends a message."""
        self.sent[sent.number] = sent
        self._bodies[sent.body] = sent

    def answered(self, sent: Sent, master: str, slave: str, terms: Terms, lost: Collection[str] = ()) -> None:
        """An answer came.

        - sent: what was sent, with its answer
        - master, slave: machines that were so when it was sent
        - terms: what the answer means
        - lost: machines whose power has failed since it was sent
        """
        if sent.code not in STORED:
            return
        sent.on.add(master)
        if sent.code != ResponseCode.SUCCESS:
            sent.on.difference_update(lost)
            return
        if terms.sync_flush:
            sent.durable_on.add(master)
        if terms.sync_slaves:
            sent.on.add(slave)
            if terms.durable_acks:
                sent.durable_on.add(slave)
        sent.on.difference_update(set(lost) - sent.durable_on)

    def power_lost(self, machine: str) -> None:
        """Its page cache is gone."""
        for sent in self.sent.values():
            if machine not in sent.durable_on:
                sent.on.discard(machine)

    def emptied(self, machine: str) -> None:
        """An operator has emptied its store, or cut from it."""
        for lost in (self._displaced, self._deleted):
            lost -= {(name, number) for name, number in lost if name == machine}
        for sent in self.sent.values():
            sent.on.discard(machine)
            sent.durable_on.discard(machine)

    def renumbered(self, machine: str, below: int) -> None:
        """A slave was promoted in place of this machine that didn't know the numbers of queues whose messages all
        lie below this log offset. It numbers them from 0 again, and the machine, back as its slave, takes that
        for queues that begin anew."""
        self._displaced |= {
            (machine, sent.number)
            for sent in self.sent.values()
            if machine in sent.on and sent.place is not None and sent.place.log_offset < below
        }

    def deleting(self, topic: str) -> None:
        """A master is asked to delete this topic."""
        self._displaced |= {
            (machine, number)
            for number, sent in self.sent.items()
            if sent.topic == topic
            for machine in sent.on
        }

    def deleted(self, topic: str, master: str, ends: Sequence[int]) -> None:
        """It has done so; nothing was sent there meanwhile.

        - topic: which it was
        - master: the machine
        - ends: of its queues, which were deleted
        """
        self._deleted |= {
            (master, number)
            for number, sent in self.sent.items()
            if sent.topic == topic
            and sent.code in STORED
            and sent.place is not None
            and sent.place.queue_offset < ends[sent.queue_id]
        }

    def promoted(self) -> None:
        """There's another master, which may not have heard of all deletions."""
        self._deleted.clear()

    # -- what must hold --------------------------------------------------------------------------------------

    def check_stored(self, sent: Sent, store: StoreView) -> Violation | None:
        """The message stands where the answer says."""
        place = sent.place
        assert place is not None
        start, end = store.log_range()
        if start <= place.log_offset < end:
            seen = store.record_at(place.log_offset)
            if seen is not None and seen.body == sent.body and seen.place == place:
                return None
            return Violation("stored", f"{_told(sent)}, but {store.name} holds {_shown(seen)} there")
        return Violation("stored", f"{_told(sent)}, but the log of {store.name} runs from {start} to {end}")

    def check_all_stored(self, store: StoreView) -> Iterable[Violation]:
        """All that this machine promises to have is in its log."""
        for sent in self._promised(store):
            violation = self.check_stored(sent, store)
            if violation is not None:
                yield violation

    def check_readable(self, store: StoreView, queues: Iterable[tuple[str, int]]) -> Iterable[Violation]:
        """All that this machine promises to have is found at its queue offset, and what stands in the queues is
        what was sent to them, once, and not what was refused."""
        at: dict[tuple[str, int, int], Seen | None] = {}
        for topic, queue_id in queues:
            first, messages = store.queue(topic, queue_id)
            yield from self._check_queue(store, topic, queue_id, first, messages)
            at |= {(topic, queue_id, first + number): seen for number, seen in enumerate(messages)}
        for sent in self._promised(store):
            place = sent.place
            assert place is not None
            seen = at.get((place.topic, place.queue_id, place.queue_offset))
            if (store.name, sent.number) not in self._displaced and (seen is None or seen.body != sent.body):
                yield Violation(
                    "readable",
                    f"{_told(sent)}, but a reader of {store.name} gets {_shown(seen)} at this queue offset",
                )

    def _check_queue(
        self, store: StoreView, topic: str, queue_id: int, first: int, messages: Sequence[Seen | None]
    ) -> Iterable[Violation]:
        here = f"{store.name} {topic}/{queue_id}"
        met: dict[bytes, int] = {}
        wrong = (topic, queue_id) in self.wrong.queues(store.name)
        for offset, seen in enumerate(messages, first):
            if seen is None:
                if not wrong and not self.wrong.in_log:
                    yield Violation("entries", f"{here} #{offset} gives no message")
                continue
            if (seen.place.topic, seen.place.queue_id, seen.place.queue_offset) != (topic, queue_id, offset):
                yield Violation("entries", f"{here} #{offset} gives {_shown(seen)}")
            sent = self._bodies.get(seen.body)
            if sent is None and self.wrong.in_log:
                continue
            if sent is None:
                yield Violation("entries", f"{here} #{offset} gives {_shown(seen)}, which nobody has sent")
            elif sent.code in NOT_STORED:
                yield Violation("refused", f"{_told(sent)}, but {here} #{offset} gives it")
            elif (store.name, sent.number) in self._deleted:
                yield Violation("deleted", f"{_told(sent)}, which was deleted, but {here} #{offset} gives it")
            if seen.body in met and not (topic in BROKER_TOPICS or (sent is not None and sent.comes_later)):
                yield Violation("once", f"{here} gives message at #{met[seen.body]} and #{offset} again")
            met[seen.body] = offset

    def _promised(self, store: StoreView) -> Iterable[Sent]:
        name = store.name
        return (sent for sent in self.sent.values() if name in sent.on and not self.wrong.touches(name, sent))

    @staticmethod
    def check_equal(one: StoreView, other: StoreView) -> Violation | None:
        """Linked means equal logs, as far as both have them."""
        (a, b), (c, d) = one.log_range(), other.log_range()
        start, end = max(a, c), min(b, d)
        if start >= end:
            return None
        here, there = one.log_bytes(start, end), other.log_bytes(start, end)
        if here == there:
            return None
        at = int(np.argmax(np.frombuffer(here, np.uint8) != np.frombuffer(there, np.uint8)))
        what = (
            f"{one.name} and {other.name} are linked, but differ from {start + at} on (of {start} to {end})"
        )
        return Violation("equal", what)


def _told(sent: Sent) -> str:
    """The message and its answer."""
    where = ""
    if sent.place is not None:
        place = sent.place
        where = f" at {place.topic}/{place.queue_id} #{place.queue_offset}, log offset {place.log_offset}"
    name = "no answer" if sent.code is None else ResponseCode(sent.code).name
    return f"message {sent.number} got {name}{where}"


def _shown(seen: Seen | None) -> str:
    if seen is None:
        return "nothing"
    place = seen.place
    return (
        f"the message of {place.topic}/{place.queue_id} #{place.queue_offset}, log offset {place.log_offset}"
    )
