"""A topic that is deleted and made again, by an operator or by its producer's next message: what was sent since
is kept at its place in the new queues, whatever else happens, and what was deleted stays away.

A deletion that isn't answered may come late, and take messages with it that were sent since. So the topic is left
then, and another one begun.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hatwisted.remoting.client import RemotingClient
from hatwisted.sim.group import Group
from hatwisted.sim.history import Sent
from hatwisted.sim.messageload import QUEUES, TIMEOUT, LoadEvents, not_answered, request, take_answer
from hatwisted.sim.promises import Promises
from hatwisted.sim.tablechanges import Key, change_request
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.registration import PERM_READ, PERM_WRITE
from hatwisted.wire.remoting import RemotingCommand

PAUSE = 2.0
"""Seconds between an answer and what follows, on average."""

DELETED, MADE = 0.15, 0.1
"""Shares of deletions, and of an operator who makes the topic, if it's there or not. The others are messages."""

FIRST_NUMBER = 70_000_000
"""Of messages, above those of all others."""


class RemadeTopics:
    """Its producer and operator, one request after the other.

    - client: whose requests they are
    - group: to which they go
    - promises: told what is deleted
    - events: called for each message
    """

    def __init__(self, client: RemotingClient, group: Group, promises: Promises, events: LoadEvents) -> None:
        self._client = client
        self._group = group
        self._random = group.random("remade topics")
        self._promises = promises
        self._events = events
        self._running = False
        self._topics = 1
        self._number = FIRST_NUMBER

    def start(self) -> None:
        """Start sending."""
        self._running = True
        self._later()

    def stop(self) -> None:
        """Send no more."""
        self._running = False

    @property
    def _key(self) -> Key:
        return Key("topic", f"again-{self._topics}")

    def _later(self, _: object = None) -> None:
        self._group.clock.callLater(self._random.expovariate(1 / PAUSE), self._turn)

    def _turn(self) -> None:
        if not self._running:
            return
        draw = self._random.random()
        if draw < DELETED:
            self._delete()
        elif draw < DELETED + MADE:
            change = change_request(self._key, PERM_READ | PERM_WRITE)
            self._call(change).addErrback(not_answered).addCallback(self._later)
        else:
            self._send()

    def _call(self, command: RemotingCommand) -> Deferred[RemotingCommand]:
        return self._client.call(self._group.master_address, command, TIMEOUT)

    def _delete(self) -> None:
        topic, master = self._key.name, self._group.master
        self._promises.deleting(topic)
        ends = self._ends(topic, master)
        call = self._call(change_request(self._key, None))
        call.addCallbacks(self._deleted, self._not_deleted, callbackArgs=(topic, master, ends))
        call.addCallback(self._later)

    def _ends(self, topic: str, master: str) -> list[int]:
        """Where its queues end. What a full disk has kept out of them isn't deleted with them: it comes when there
        is room, after the deletion."""
        if not self._group.serves(master):
            return []
        store = self._group.store(master)
        return [store.queue_end(topic, queue_id) for queue_id in range(QUEUES)]

    def _deleted(self, answer: RemotingCommand, topic: str, master: str, ends: list[int]) -> None:
        remark = answer.remark or ""
        if answer.code != ResponseCode.SUCCESS:
            self._topics += 1
        elif ends and self._group.master == master and "file" not in remark and "can't be" not in remark:
            self._promises.deleted(topic, master, ends)

    def _not_deleted(self, failure: Failure) -> None:
        not_answered(failure)
        self._topics += 1

    def _send(self) -> None:
        self._number += 1
        sent = Sent(
            number=self._number,
            topic=self._key.name,
            queue_id=self._random.randrange(QUEUES),
            body=b"%08d" % self._number,
            sent_at=self._group.clock.seconds(),
        )
        self._events.sent(sent, self._group.master_address)
        call = self._call(request(sent, self._group.clock))
        call.addCallback(self._answered, sent).addErrback(not_answered)
        call.addCallback(lambda _: self._events.answered(sent)).addCallback(self._later)

    def _answered(self, answer: RemotingCommand, sent: Sent) -> None:
        take_answer(sent, (sent.topic, sent.queue_id), answer)
