"""Slaves of ours learn of a change of topics or groups at once, and whoever made it learns when they have it.

RocketMQ's slaves ask for their master's tables every ten seconds. A topic whose creation has been confirmed to an
operator is unknown to a slave until then, and gone if the master dies. So a slave of ours keeps a request open
with its master, WATCH_TABLES, which says the versions that it has. It's answered when these aren't the master's
any more, or after HOLD; the slave then asks for the tables as usual, and comes back. When it comes back with the
new versions, the master knows that it has them, and answers the operator's request: `copied`. Nobody is waited
for longer than COPY_WAIT; slaves that lack the change by then, and linked ones that don't watch (RocketMQ's), are
named in the answer. Whoever has been waited for in vain isn't again before it comes back with more than it had:
one that only keeps its connection would cost every change, and the first message of every topic, the whole wait.
The master's own files are waited for as well: killed a moment later, it would come back without what it has
confirmed.

Rejected: calls from the master to its slaves (what a slave has would have to be guessed after each lost answer),
and tables on the HA link (its dialect has no room for them).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from hatwisted.broker.tables import BrokerTables
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import DataVersion
from hatwisted.wire.remoting import RemotingCommand

HOLD = 25.0
"""Seconds that a request is held; well below the time after which an idle connection is closed."""

COPY_WAIT = 3.0
"""Seconds that an operator's answer waits for slaves: mqadmin waits 5 s for it."""

MAX_FOLLOWERS = 64
"""Slaves that watch (about 1 KiB each); further ones copy every `slaveSyncInterval`, as without it."""

MAX_WAITS = 1024
"""Answers that wait for slaves; further ones are given at once, and name all slaves."""

MAX_STATES = 1024
"""Versions remembered, to tell what a slave that comes back with one of them has."""

TOPICS, GROUPS = "topicsVersion", "groupsVersion"
"""ext fields of the request."""


def version_text(version: DataVersion) -> str:
    """A version as the request has it; equal texts are equal versions."""
    return f"{version.counter},{version.timestamp},{version.state_version or 0}"


def versions_of(tables: BrokerTables) -> dict[str, str]:
    """The ext fields that say what a broker has."""
    return {TOPICS: version_text(tables.topics.version), GROUPS: version_text(tables.groups.version)}


class _Follower:
    """One slave that watches.

    - host: where it asks from
    - has: the newest of the master's states that it has; -1: none that is known
    - missed: the newest that it had when it was waited for in vain
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.has = -1
        self.missed = -2
        self.held: tuple[Deferred[RemotingCommand], RemotingCommand, IDelayedCall] | None = None


class _Wait:
    """An operator's answer. state: what the slaves have to have."""

    def __init__(self, state: int, done: Deferred[str | None], late: IDelayedCall) -> None:
        self.state = state
        self.done = done
        self.late = late


class TableFollowers:
    """Of one master.

    - clock: bounds what is held and waited for
    - tables: whose changes they wait for
    - linked: hosts of the slaves that copy its log
    """

    _log = Logger()

    def __init__(
        self, clock: IReactorTime, tables: BrokerTables, linked: Callable[[], Iterable[str]]
    ) -> None:
        self._clock = clock
        self._tables = tables
        self._linked = linked
        self._followers: dict[RemotingConnection, _Follower] = {}
        self._waits: dict[_Wait, None] = {}
        self._states: OrderedDict[tuple[str, ...], int] = OrderedDict()
        self._state = 0
        self._running = False
        self.given_up = 0
        """Waits that ended without all that were waited for."""
        self.left = 0
        """Slaves that watched, and whose connection is gone."""
        tables.topics.on_change(self._changed)
        tables.groups.on_change(self._changed)

    def register_on(self, table: ProcessorTable) -> None:
        """Put the handler into `table`."""
        table.register(RequestCode.WATCH_TABLES, self.watch)

    def start(self) -> None:
        """Hold requests from now on."""
        self._running = True

    def stop(self) -> None:
        """Hold nothing any more, not even for a slave that can't be reached: its connection may live on."""
        self._running = False
        for follower in self._followers.values():
            self._release(follower)
        for wait in tuple(self._waits):
            self._end(wait)

    @property
    def watching(self) -> list[str]:
        """Hosts of the slaves that watch."""
        return [follower.host for follower in self._followers.values()]

    @property
    def waited_for(self) -> list[str]:
        """Hosts of those that haven't been waited for in vain since they last had more."""
        return [each.host for each in self._followers.values() if each.has > each.missed]

    # -- slaves ----------------------------------------------------------------------------------------------

    def watch(
        self, connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        if not self._running:
            return response(request, ResponseCode.SYSTEM_BUSY, "this broker is about to stop")
        follower = self._followers.get(connection)
        if follower is None:
            if len(self._followers) >= MAX_FOLLOWERS:
                remark = f"{MAX_FOLLOWERS} slaves are watching already"
                return response(request, ResponseCode.SYSTEM_BUSY, remark)
            follower = self._followers[connection] = _Follower(connection.peer.rpartition(":")[0])
            connection.on_close(self._left)
        self._release(follower)
        ours = versions_of(self._tables)
        theirs = tuple(request.ext.get(field, "") for field in ours)
        self._note_state()
        follower.has = self._states.get(theirs, -1)
        self._settle()
        if follower.has < self._state:
            return response(request)
        held: Deferred[RemotingCommand] = Deferred()
        follower.held = held, request, self._clock.callLater(HOLD, self._release, follower)
        return held

    def _left(self, connection: RemotingConnection) -> None:
        follower = self._followers.pop(connection)
        self.left += 1
        self._release(follower)
        self._settle()

    def _release(self, follower: _Follower) -> None:
        if follower.held is None:
            return
        held, request, timer = follower.held
        follower.held = None
        if timer.active():
            timer.cancel()
        held.callback(response(request))

    def _changed(self) -> None:
        self._note_state()
        for follower in self._followers.values():
            self._release(follower)

    def _note_state(self) -> None:
        """What the tables say now is a state of its own, unless it's the last one."""
        key = tuple(versions_of(self._tables).values())
        if self._states.get(key) == self._state and self._states:
            return
        self._state += 1
        self._states.pop(key, None)
        self._states[key] = self._state
        if len(self._states) > MAX_STATES:
            self._states.popitem(last=False)

    # -- who made a change -----------------------------------------------------------------------------------

    def confirmed(self) -> Deferred[str | None]:
        """Fires when the tables as they are now are in our files, and `copied`: with None, or with a remark for
        whoever made the change. Never fails."""
        copied = self.copied()

        def saved(told: str | None) -> Deferred[str | None]:
            if told is None:
                return copied
            return copied.addCallback(lambda remark: told if remark is None else f"{told}; {remark}")

        return self._tables.saved().addCallback(saved)

    def kept(self, *, slaves: bool) -> Deferred[object]:
        """Fires when the tables as they are now are in our files, and, with `slaves`, in those of the slaves that
        watch, or after COPY_WAIT. Never fails."""
        late = slaves and self._reached() < self._state
        copied: Deferred[str | None] = self.copied() if late else succeed(None)
        return self._tables.saved().addCallback(lambda _: copied)

    def copied(self) -> Deferred[str | None]:
        """Fires when every slave has the tables as they are now, or after COPY_WAIT: with None, or with a remark
        for whoever made the change about the slaves that lack it. Never fails."""
        if not self._lacking(self._state):
            return succeed(None)
        if len(self._waits) >= MAX_WAITS or self._reached() >= self._state:
            return succeed(self._remark(self._state))
        done: Deferred[str | None] = Deferred()
        wait = _Wait(self._state, done, self._clock.callLater(COPY_WAIT, lambda: self._give_up(wait)))
        self._waits[wait] = None
        return done

    def _settle(self) -> None:
        """End the waits that no watching slave holds up any more."""
        reached = self._reached()
        for wait in [wait for wait in self._waits if wait.state <= reached]:
            self._end(wait)

    def _reached(self) -> int:
        """The newest state that all have who are waited for."""
        waited_for = (each.has for each in self._followers.values() if each.has > each.missed)
        return min(waited_for, default=self._state)

    def _give_up(self, wait: _Wait) -> None:
        self.given_up += 1
        for follower in self._followers.values():
            if follower.has < wait.state:
                follower.missed = max(follower.missed, follower.has)
        self._settle()

    def _end(self, wait: _Wait) -> None:
        del self._waits[wait]
        if wait.late.active():
            wait.late.cancel()
        wait.done.callback(self._remark(wait.state))

    def _lacking(self, state: int) -> list[str]:
        """Hosts of the slaves that aren't known to have a state."""
        watching = Counter(follower.host for follower in self._followers.values())
        late = Counter(follower.host for follower in self._followers.values() if follower.has < state)
        return sorted(((Counter(self._linked()) - watching) + late).elements())

    def _remark(self, state: int) -> str | None:
        lacking = self._lacking(state)
        if not lacking:
            return None
        names = ", ".join(lacking)
        self._log.warn("these slaves may not have the changed tables yet: {names}", names=names)
        return f"done here, but these slaves may not have it yet: {names}"
