"""What waits in brokers, looked at while they run: nobody waits past its time, what is held is counted right, and
what a link owes its slave stays within its window.

A process that has stood still, or whose clock has leapt, gets `LATE` seconds to catch up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from hatwisted.broker.pull.pullhold import DEADLINE_INTERVAL, RECHECK_INTERVAL, HeldPull, PullHold
from hatwisted.broker.transaction import transactioncheck
from hatwisted.ha import haconnection
from hatwisted.remoting import server
from hatwisted.sim.faultplan import HOSTS
from hatwisted.sim.group import TIGHT_BUFFER, Group
from hatwisted.sim.history import Violation
from hatwisted.sim.setup import HA_PORT
from hatwisted.store.log.waitline import WaitLine

LATE = 3.0
"""Seconds by which an answer may be late."""

SLICE = 2
"""Ops that are looked at together."""

TIGHT: Sequence[tuple[Any, str, int]] = (
    (haconnection, "HA_WRITE_WINDOW", 8 << 10),
    (haconnection, "CATCH_UP_CHUNK", 8 << 10),
    (server, "ANSWER_WINDOW", 2 << 10),
    (transactioncheck, "SLICE", SLICE),
)
"""Windows that no run would fill otherwise, and what they are in some: where, name, bytes (or ops)."""

MOST_OWED = TIGHT_BUFFER + sum(limit for where, _, limit in TIGHT if where is haconnection) + (64 << 10)
"""Bytes that a master owes a link then: its transport's buffer, the window, a chunk, and the puts of one read."""


@contextmanager
def tightened(tight: bool) -> Iterator[None]:
    """With these limits, if so."""
    with ExitStack() as stack:
        for where, name, limit in TIGHT if tight else ():
            stack.enter_context(mock.patch.object(where, name, limit))
        yield


class WaitWatch:
    """Of one run's `group`; what was broken is added to `violations`."""

    def __init__(self, group: Group, violations: list[Violation]) -> None:
        self._group = group
        self._violations = violations
        self._even: dict[str, tuple[object, float]] = {}
        """By machine: its process and how far that is ahead, and since when this has been so without a pause."""
        self._passed_by: dict[str, dict[HeldPull, float]] = {}
        """By machine: held pulls that there is something for, and since when."""

    def look(self) -> None:
        """At all that waits now."""
        for name in filter(self._group.serves, HOSTS):
            if self._is_even(name):
                parts = self._group.machines[name].service.parts
                self._look_at_puts(name, parts)
                self._look_at_pulls(name, parts)
        if self._group.setup.tight:
            self._look_at_links()

    def check_idle(self) -> None:
        """Every put has been answered. Only where nobody but producers puts."""
        master, setup = self._group.master, self._group.setup
        if setup.consumers or setup.transactions:
            return
        node = self._group.machines[master].service
        lines = {"disk": len(node.parts.store.flusher.line), "slave": len(node.parts.ha.group_transfer)}
        waiting = {"disk or slave": node.services.puts._acks.waiting, **lines}
        for what, count in waiting.items():
            if count:
                self._tell(f"{master} counts {count} puts that wait for {what}, and there are none")

    def _is_even(self, name: str) -> bool:
        now, process = self._group.clock.seconds(), self._group.machines[name].process
        state = process, getattr(process, "ahead", 0.0)
        known, since = self._even.get(name, (None, now))
        if known != state or process is None or process.paused_until > now:
            since = now
        self._even[name] = state, since
        return now - since > LATE

    def _look_at_puts(self, name: str, parts: Any) -> None:
        lines: dict[str, WaitLine] = {
            "slave": parts.ha.group_transfer._line,
            "disk": parts.store.flusher.line,
        }
        for what, line in lines.items():
            due = [wait.deadline for wait in line._waits if not wait.deferred.called]
            late = parts.clock.seconds() - min(due, default=float("inf"))
            if late > LATE:
                self._tell(f"a put on {name} waits for its {what} {late:.1f} s beyond its time")

    def _look_at_pulls(self, name: str, parts: Any) -> None:
        hold: PullHold = parts.hold
        now: float = parts.clock.seconds()
        pulls = [pull for held in hold._connections.values() for pull in held]
        if hold.count != sum(pull.weight for pull in pulls):
            self._tell(f"{name} counts {hold.count} held pulls, and holds {len(pulls)}")
        before, missed = self._passed_by.get(name, {}), dict[HeldPull, float]()
        for pull in pulls:
            if pull.connection.paused:
                continue
            if pull.bucket * DEADLINE_INTERVAL < now - LATE - DEADLINE_INTERVAL:
                self._tell(f"a pull of {pull.queue} is held on {name} beyond its time")
            if self._has_for(name, pull, *parts.store.queue_offsets(*pull.queue)):
                missed[pull] = before.get(pull, now)
                if now - missed[pull] > RECHECK_INTERVAL + LATE:
                    self._tell(f"a pull of {pull.queue} is held on {name}, which has a message for it")
        self._passed_by[name] = missed

    def _has_for(self, name: str, pull: HeldPull, first: int, end: int) -> bool:
        """Is there something in the queue, with these offsets, that a held pull waits for? Of what a slave lacks
        it can say nothing: only a master's word moves a group."""
        return pull.offset < end and (pull.offset >= first or name == self._group.master)

    def _look_at_links(self) -> None:
        for end in self._group.network.transports:
            if end.getHost().port == HA_PORT and end.unsent > MOST_OWED:
                self._tell(f"{end.getHost().host} owes a link {end.unsent} bytes, {MOST_OWED} are allowed")

    def _tell(self, what: str) -> None:
        self._violations.append(Violation("waits", what))
