"""An operator who makes, changes and deletes topics and groups, one after the other, by mqadmin's requests; and
those whose messages make topics, or stand in one that is made again."""

from __future__ import annotations

from hatwisted.remoting.client import RemotingClient
from hatwisted.sim.firstmessages import FirstMessages
from hatwisted.sim.group import Group
from hatwisted.sim.messageload import TIMEOUT, LoadEvents, not_answered
from hatwisted.sim.promises import Promises
from hatwisted.sim.remadetopics import RemadeTopics
from hatwisted.sim.tablechanges import Key, change_request
from hatwisted.sim.tablepromises import TablePromises
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.registration import PERM_READ, PERM_WRITE
from hatwisted.wire.remoting import RemotingCommand

PAUSE = 2.0
"""Seconds between an answer and the next change, on average."""


class TableLoad:
    """One operator.

    - client: whose requests they are
    - group: to which they go
    - tables: told what was answered
    - promises: told which messages are deleted
    - events: called for those that are sent to a topic that is made again
    """

    def __init__(
        self,
        client: RemotingClient,
        group: Group,
        tables: TablePromises,
        promises: Promises,
        events: LoadEvents,
    ) -> None:
        self._client = client
        self._group = group
        self._random = group.random("tables")
        self._promises = tables
        self._running = False
        self._made = 0
        self._firsts = FirstMessages(client, group, group.random("first messages"), tables)
        self._remade = RemadeTopics(client, group, promises, events)

    def start(self) -> None:
        """Start making changes."""
        self._running = True
        self._firsts.start()
        self._remade.start()
        self._later()

    def stop(self) -> None:
        """Make no more."""
        self._running = False
        self._firsts.stop()
        self._remade.stop()

    def _later(self) -> None:
        self._group.clock.callLater(self._random.expovariate(1 / PAUSE), self._turn)

    def _turn(self) -> None:
        if not self._running:
            return
        group, told = self._group, self._promises.told
        known = sorted(told)
        if not known or self._random.random() < 0.5:
            self._made += 1
            key = Key(self._random.choice(("topic", "group")), f"made-{self._made}")
        else:
            key = self._random.choice(known)
        value = self._value(key, key in told)
        # Until it's answered nobody knows, and if it never is, nobody asks again.
        told.pop(key, None)
        master, link = group.master, group.common_link()
        call = self._client.call(group.master_address, change_request(key, value), TIMEOUT)
        call.addCallback(self._answered, key, value, master, link)
        call.addErrback(not_answered).addCallback(lambda _: self._later())

    def _value(self, key: Key, known: bool) -> int | None:
        if known and self._random.random() < 0.3:
            return None
        if key.kind == "topic":
            return self._random.choice((PERM_READ, PERM_READ | PERM_WRITE))
        return self._random.randrange(1, 17)

    def _answered(
        self, answer: RemotingCommand, key: Key, value: int | None, master: str, link: object
    ) -> None:
        """What a request has come to.

        - answer: the broker's
        - key, value: what was asked for
        - master, link: when it was asked. A change that was made while there was none speaks of no slave
        """
        group = self._group
        if answer.code != ResponseCode.SUCCESS or not group.serves(master) or group.master != master:
            return
        remark = answer.remark or ""
        if "file" not in remark:
            slaves = link is not None and link is group.common_link() and not remark
            self._promises.changed(key, value, slaves=slaves)
