"""What an operator was told is made, changed or deleted, topics and groups, and who must have it from then on.

A master has it on its disk when it says so, and so have its linked slaves unless the answer names them. A slave
that hears of it later has it in memory, and on its disk a while after that, if the disk lets it. Whoever is
promoted while it has a change keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from hatwisted.broker.consumer.subscriptiongroup import SubscriptionGroupTable
from hatwisted.broker.node.tabledoubt import DoubtfulTable, believe
from hatwisted.broker.node.tablewatch import RETRY
from hatwisted.broker.tables import BrokerTables
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.sim.faultplan import HOSTS
from hatwisted.sim.group import Group
from hatwisted.sim.history import Violation
from hatwisted.sim.tablechanges import Key
from hatwisted.wire.registration import DataVersion

SAVING = 15.0
"""Seconds in which a slave brings a change to its disk that nobody has confirmed for it: one that refused it is
tried again every five."""

ASKED_AGAIN = RETRY + 2.0
"""Seconds within which a slave that hasn't believed its master has asked it again."""

ON_DISK = float("-inf")
"""When a slave has got what was confirmed for it: it needs no time to bring it to its disk."""

HEALTHY_DELAY = 0.01
"""Seconds of a blocking call, at most, on a disk that isn't slow."""


class Told(NamedTuple):
    """What an operator knows. value: permission or retries; None: deleted; since: when each machine had it, or
    ON_DISK."""

    value: int | None
    since: dict[str, float]


class TablePromises:
    """Of one run's `group`; what was broken is added to `violations`."""

    def __init__(self, group: Group, violations: list[Violation]) -> None:
        self.told: dict[Key, Told] = {}
        """Without keys whose last change nobody has heard of again."""
        self.clocks_leapt: Callable[[], bool] = lambda: False
        """Has any by now?"""
        self._group = group
        self._violations = violations
        self._doubted_at = float("-inf")
        """Clock seconds of the last look at which the slave didn't believe its master."""

    def changed(self, key: Key, value: int | None, *, slaves: bool) -> None:
        """The master has confirmed a change.

        - key, value: what is so now
        - slaves: has it confirmed it for all linked ones?
        """
        group = self._group
        now = group.clock.seconds()
        self.told[key] = Told(value, {group.master: now})
        if slaves and self._shown(group.slave, key) == value:
            self.told[key].since[group.slave] = ON_DISK
        elif slaves:
            told = f"{_words(key, value)}, for all slaves too, but {group.slave} has"
            self._violations.append(Violation("tables", f"{told} {self._shown(group.slave, key)}"))
        self.look()

    def look(self) -> None:
        """A linked slave that has a change keeps it from now on."""
        group = self._group
        now, slave = group.clock.seconds(), group.slave
        linked, healthy = group.linked(), self._healthy(slave)
        if linked and self._doubted():
            self._doubted_at = now
        for key, (value, since) in self.told.items():
            if slave not in since:
                if linked and self._has_heard(slave, key, value):
                    since[slave] = now
            elif not healthy and now - since[slave] < SAVING:
                since[slave] = now  # linked or not: it can't have written it

    def check(self, name: str) -> None:
        """A machine has started, or is looked at: has it all that it must have?"""
        ended = self._group.machines[name].ended_at
        for key, (value, since) in self.told.items():
            if name not in since:
                continue
            if name != self._group.master and since[name] > ended - SAVING:
                del since[name]
            elif self._shown(name, key) != value and not (value is None and self._may_be_back(key)):
                told = f"{_words(key, value)}, but {name} has {self._shown(name, key)}"
                self._violations.append(Violation("tables", told))

    def _may_be_back(self, key: Key) -> bool:
        """A deleted topic: where a message was put by a clock that was ahead of its deletion's, a master's start
        takes it for one whose file was lost."""
        return key.kind == "topic" and (self.clocks_leapt() or self._group.setup.drift > 0)

    def check_alike(self, wait: Callable[[], None]) -> None:
        """Brokers that have been linked for a while, and are well, have the same topics and groups. A slave that
        doesn't believe its master, which has lost all of them, waits for an operator; once there is reason to
        believe it again, the slave learns it by its next question.

        - wait: lets pass what a change needs that a message has made a moment ago
        """
        if self._unlike():
            wait()
        while self._group.clock.seconds() < self._doubted_at + ASKED_AGAIN and self._unlike():
            wait()
        self._violations += self._unlike()

    def _unlike(self) -> list[Violation]:
        found: list[Violation] = []
        doubted = self._doubted()
        (one, here), (other, there) = ((name, self._tables(name)) for name in HOSTS)
        for (kind, ours), (_, theirs) in zip(_contents(here), _contents(there), strict=True):
            if kind in doubted:
                continue
            for name in sorted(ours.keys() | theirs.keys()):
                if ours.get(name) != theirs.get(name):
                    told = f"{kind} {name} is {ours.get(name)} on {one}, but {theirs.get(name)} on {other}"
                    found.append(Violation("tables", told))
        return found

    def _doubted(self) -> set[str]:
        """Kinds whose tables the slave doesn't take over from its master."""
        slave, master = self._tables(self._group.slave), self._tables(self._group.master)
        offered = dict(_contents(master))
        tables = (("topic", slave.topics, master.topics), ("group", slave.groups, master.groups))
        return {kind for kind, held, theirs in tables if not _believed(held, theirs, offered[kind])}

    def promoted(self, name: str) -> None:
        """It's the master from now on: what it never had is gone."""
        ended = self._group.machines[name].ended_at
        for key, (_, since) in list(self.told.items()):
            if since.get(name, ended) > ended - SAVING:
                del self.told[key]

    def emptied(self, name: str) -> None:
        """It has lost everything."""
        for told in self.told.values():
            told.since.pop(name, None)

    def _healthy(self, name: str) -> bool:
        """Can it write what it has?"""
        machine = self._group.machines[name]
        disk = machine.disk
        return (
            machine.hears
            and machine.work_delay < HEALTHY_DELAY
            and not (disk.full or disk.no_descriptors or disk.strikes)
        )

    def _has_heard(self, slave: str, key: Key, value: int | None) -> bool:
        """Does it have the change? Of something deleted, that it never had, its table's version tells."""
        if self._shown(slave, key) != value:
            return False
        return value is not None or self._version(slave, key) == self._version(self._group.master, key)

    def _version(self, name: str, key: Key) -> DataVersion:
        tables = self._tables(name)
        return tables.topics.version if key.kind == "topic" else tables.groups.version

    def _shown(self, name: str, key: Key) -> int | None:
        tables = self._tables(name)
        if key.kind == "topic":
            topic = tables.topics.get(key.name)
            return None if topic is None else topic.perm
        groups = tables.groups.table().subscription_group_table
        return groups[key.name].retry_max_times if key.name in groups else None

    def _tables(self, name: str) -> BrokerTables:
        tables: BrokerTables = self._group.machines[name].service.parts.tables
        return tables


def _contents(tables: BrokerTables) -> list[tuple[str, Mapping[str, object]]]:
    """What there is of each kind, by name."""
    return [
        ("topic", tables.topics.table().topic_config_table),
        ("group", tables.groups.table().subscription_group_table),
    ]


def _believed(
    held: TopicConfigTable | SubscriptionGroupTable,
    theirs: TopicConfigTable | SubscriptionGroupTable,
    names: Collection[str],
) -> bool:
    try:
        believe(held.made(), held.version, names, theirs.version)
    except DoubtfulTable:
        return False
    return True


def _words(key: Key, value: int | None) -> str:
    return f"{key.kind} {key.name} was confirmed as {'deleted' if value is None else value}"
