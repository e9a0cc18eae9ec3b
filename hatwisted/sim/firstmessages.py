"""Producers whose messages make their topics: once such a message is answered, its topic is kept as one that an
operator has made."""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

from hatwisted.broker.put.newtopics import KEEP_WAIT
from hatwisted.remoting.client import RemotingClient
from hatwisted.sim.group import Group
from hatwisted.sim.history import Sent
from hatwisted.sim.messageload import TIMEOUT, not_answered, request
from hatwisted.sim.tablechanges import Key
from hatwisted.sim.tablepromises import TablePromises
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.registration import PERM_READ, PERM_WRITE
from hatwisted.wire.remoting import RemotingCommand

PAUSE = 4.0
"""Seconds between an answer and the next message, on average."""

IN_TIME = KEEP_WAIT / 2
"""Seconds, by its producer's clock and by the master's, which may leap: an answer that took longer may have come
because the broker waited no longer."""


class _Moment(NamedTuple):
    """When something was sent or answered.

    - master: who was it
    - seconds, masters: what the producer's clock showed, and the master's
    - watched: see `_watched`; None: it didn't wait for that slave
    """

    master: str
    seconds: float
    masters: float
    watched: tuple[int, int] | None


class FirstMessages:
    """One producer, each of whose messages goes to a topic of its own.

    - client: whose requests they are
    - group: to which they go
    - random: draws when
    - promises: told of the topics
    """

    def __init__(self, client: RemotingClient, group: Group, random: Random, promises: TablePromises) -> None:
        self._client = client
        self._group = group
        self._random = random
        self._promises = promises
        self._running = False
        self._sent = 0

    def start(self) -> None:
        """Start sending."""
        self._running = True
        self._later()

    def stop(self) -> None:
        """Send no more."""
        self._running = False

    def _later(self) -> None:
        self._group.clock.callLater(self._random.expovariate(1 / PAUSE), self._turn)

    def _turn(self) -> None:
        if not self._running:
            return
        group = self._group
        self._sent += 1
        body = b"%08d of its topic" % self._sent
        topic, now = f"first-{self._sent}", group.clock.seconds()
        sent = Sent(number=self._sent, topic=topic, queue_id=0, body=body, sent_at=now)
        call = self._client.call(group.master_address, request(sent, group.clock), TIMEOUT)
        call.addCallback(self._answered, sent, self._now())
        call.addErrback(not_answered).addCallback(lambda _: self._later())

    def _answered(self, answer: RemotingCommand, sent: Sent, asked: _Moment) -> None:
        """What a request has come to.

        - answer: the broker's
        - sent: the message
        - asked: when it was sent
        """
        group, now = self._group, self._now()
        late = max(now.seconds - asked.seconds, now.masters - asked.masters) > IN_TIME
        if answer.code != ResponseCode.SUCCESS or late or not group.serves(asked.master):
            return
        if now.master != asked.master:
            return
        if not any(file.problem for file in group.machines[now.master].service.parts.tables.settings):
            slaves = asked.watched is not None and asked.watched == now.watched
            self._promises.changed(Key("topic", sent.topic), PERM_READ | PERM_WRITE, slaves=slaves)

    def _now(self) -> _Moment:
        group = self._group
        process = group.machines[group.master].process
        masters = -math.inf if process is None else process.seconds()
        return _Moment(group.master, group.clock.seconds(), masters, self._watched())

    def _watched(self) -> tuple[int, int] | None:
        """Waits for its slave's tables that the master has given up, and connections lost on which slaves
        watched: one that comes back isn't waited for meanwhile. None if it doesn't wait for that slave: while some
        limits are tight it may not, nor after a wait in vain."""
        group = self._group
        if group.setup.tight or not group.linked():
            return None
        parts = group.machines[group.master].service.parts  # a restart may have changed its role
        if not parts.role.sync_master or not parts.followers.waited_for:
            return None
        return parts.followers.given_up, parts.followers.left
