"""How far consumer groups have come, as brokers know it: what is known doesn't get lost between two of them.

A process that knows a group's progress never falls behind it, whatever it hears from others, unless the queue was
reset; a master that has been linked for a while, and is pulled from, knows at least what its slave knows.

A master that begins with less than there was before (promoted, or after a failure of its power) gives every
message that is put from then on to the groups whose progress it knows, wherever they think they are. A failure
after an orderly stop takes nothing, and so that start promises nothing more than any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hatwisted.broker.consumer.consumeroffset import CHECK_GROUP, SEPARATOR, ConsumerOffsetTable
from hatwisted.sim.faultplan import HOSTS
from hatwisted.sim.group import Group
from hatwisted.sim.history import Violation
from hatwisted.sim.machine import ProcessClock

QueueKey = tuple[str, int]
"""topic@group, and queue."""


class Come(NamedTuple):
    """How far a group has come in a queue. reset: ms of the last one, 0 for none."""

    offset: int
    reset: int


class ProgressPromises:
    """Of one run's `group`; what was broken is added to `violations`."""

    def __init__(self, group: Group, violations: list[Violation]) -> None:
        self._group = group
        self._violations = violations
        self._known: dict[str, tuple[ProcessClock | None, dict[QueueKey, Come]]] = {}
        """By machine: its process, and what that knew when it was looked at."""
        self._mastered: tuple[str, int] | None = None
        """The last master that has started, and how often its power had failed by then, and taken something."""

    def began(self, master: str) -> None:
        """A broker has started as the master."""
        term = master, self._group.machines[master].bad_losses
        complete, self._mastered = self._mastered == term, term
        consumptions, store = self._group.consumptions, self._group.store(master)
        for consumption in consumptions.values():
            consumption.begun.clear()
        for (row, queue_id), _ in () if complete else _rows(self._offsets(master)):
            topic, _, name = row.partition(SEPARATOR)
            if name in consumptions:
                consumptions[name].begun[topic, queue_id] = store.queue_end(topic, queue_id)

    def look(self) -> None:
        """What a process knew it knows."""
        if not self._group.consumptions:
            return
        for name in filter(self._group.serves, HOSTS):
            process, knows = self._group.machines[name].process, dict(_rows(self._offsets(name)))
            before, knew = self._known.get(name, (None, {}))
            self._known[name] = process, knows
            if before is process:
                self._violations += _lacking(knew, f"{name} knew", knows, f"{name} knows now")

    def unlike(self) -> list[Violation]:
        """What the slave knows and its master doesn't. Once both have been linked for a while and are well, and so
        are the groups, there's nothing."""
        if not self._group.linked():  # a store that refuses to start as damaged
            return []
        master, slave = self._group.master, self._group.slave
        theirs, ours = (dict(_rows(self._offsets(name))) for name in (slave, master))
        store = self._group.store(master)
        for (row, queue_id), come in list(theirs.items()):
            # Of messages that were lost it may still know. If they were all that a queue had, there's nothing
            # to know: every group begins at its beginning.
            end = store.queue_end(row.partition(SEPARATOR)[0], queue_id)
            if end:
                theirs[row, queue_id] = come._replace(offset=min(come.offset, end))
            else:
                del theirs[row, queue_id]
        return list(_lacking(theirs, f"{slave}, the slave, knows", ours, f"{master} knows"))

    def _offsets(self, name: str) -> ConsumerOffsetTable:
        offsets: ConsumerOffsetTable = self._group.machines[name].service.parts.tables.offsets
        return offsets


def _lacking(
    more: dict[QueueKey, Come], who: str, less: dict[QueueKey, Come], but_who: str
) -> Iterator[Violation]:
    """The second must know all that the first does."""
    for key, come in more.items():
        known = less.get(key)
        if known is None or (known.reset == come.reset and known.offset < come.offset):
            told = f"{who} that {key[0]} has come to {come.offset} of queue {key[1]}"
            has = None if known is None else known.offset
            yield Violation("progress", f"{told}, {but_who} {has}")


def _rows(table: ConsumerOffsetTable) -> Iterator[tuple[QueueKey, Come]]:
    """Of consumer groups: the transaction check's is the master's alone."""
    progress = table.progress()
    for row, queues in progress.offset_table.items():
        if not row.endswith(SEPARATOR + CHECK_GROUP):
            for queue_id, offset in queues.items():
                yield (row, queue_id), Come(offset, progress.reset_of(row, queue_id))
