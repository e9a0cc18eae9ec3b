"""Pulls that wait for a message (long polling).

Strategy: a held pull sleeps with its queue. The dispatcher's arrival notices only mark queues; the marked
ones are looked at in the reactor's next turn, so that a batch of arrivals wakes its consumers once and with
all of the batch. A pull that finds nothing for it then (another tag, another property) goes on
sleeping. Deadlines lie in buckets of a second, so that leaving early costs nothing; RocketMQ looks every 5 s and
lets its clients wait that much longer. Many pulls are looked at a SLICE in each turn (`pullturns`): everybody may
hold a hundred thousand, and wake them all by one message.

A client that doesn't read is sent nothing more: its pulls go on sleeping, past their deadlines too, until it reads
again or its connection closes. It asked for them with a few bytes each, and every one may be answered with
256 KiB.

Every RECHECK_INTERVAL all queues that pulls wait for are compared with the store, in case an arrival was
never announced: a RocketMQ slave has nothing but this (4.9.7's PullRequestHoldService).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.pull.pullturns import PullTurns
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.interfaces import GrownQueue
from hatwisted.store.queue.reading import Wanted
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.timer import GuardedTimer
from hatwisted.wire.remoting import RemotingCommand

DEADLINE_INTERVAL = 1.0
"""Seconds a bucket of deadlines spans: how late a fruitless pull may be answered."""

RECHECK_INTERVAL = 5.0
"""Seconds between comparisons with the store."""

SLICE = 0.002
"""Seconds of a turn in which pulls are answered, or looked at in vain; one more is begun within them."""

MAX_HOLD = 30.0
"""Seconds; clients give a pull up after 30 s whatever they asked for."""

MAX_HELD = 100_000
"""Pulls held at a time, about 1 KiB each. A pull beyond that is answered at once, as if its time were up."""

TAGS_PER_PULL = 16
"""So many tags of a pull's filter count as one more pull held: they have about its size."""

PULLS_PER_EFFORT = 10
"""Pulls that a filter of records counts as which a pull has brought along, for each of its effort beyond a simple
one's: it's compiled for this pull alone, 1.5 MiB at its longest."""

Queue = tuple[str, int]
"""Topic and queue id."""

_Key = TypeVar("_Key")


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull that waits.

    - offset: queue offset from which nothing has been found yet; moves on as foreign messages are skipped
    - max_count, max_bytes: what one answer may hold; wanted: the filter, see reading.Wanted; carried: has the pull
      brought it along?
    - retry(pull, final): tries again, answers if there is something or if `final`, and says whether it answered
    """

    connection: RemotingConnection
    request: RemotingCommand
    queue: Queue
    offset: int
    max_count: int
    max_bytes: int
    wanted: Wanted
    retry: Callable[[HeldPull, bool], bool]
    carried: bool = False
    bucket: int = 0

    @property
    def weight(self) -> int:
        """Pulls that it counts as."""
        if isinstance(self.wanted, frozenset):
            return 1 + len(self.wanted) // TAGS_PER_PULL
        if self.carried and self.wanted is not None:
            return 1 + (self.wanted.effort - 1) * PULLS_PER_EFFORT
        return 1


class PullHold:
    """All held pulls. Each is in the tables of its queue, its connection and its deadline, or in none.

    queue_end(topic, queue id): the queue's max offset.
    """

    def __init__(
        self,
        clock: IReactorTime,
        queue_end: Callable[[str, int], int],
    ) -> None:
        self._clock = clock
        self._queue_end = queue_end
        self.count = 0
        """Pulls held now, by weight."""
        self._queues: dict[Queue, dict[RemotingConnection, dict[HeldPull, None]]] = {}
        self._connections: dict[RemotingConnection, dict[HeldPull, None]] = {}
        self._buckets: dict[int, dict[HeldPull, None]] = {}
        self._marked: dict[Queue, None] = {}
        self._unread: dict[RemotingConnection, dict[Queue, None]] = {}
        """What had something for clients that don't read."""
        self._turns: PullTurns[HeldPull] = PullTurns()
        self._ended: deque[HeldPull] = deque()
        """Those whose time is up; some may have been answered meanwhile."""
        self._gone: deque[HeldPull] = deque()
        """Those of connections that are closed."""
        self._leaving = GuardedTimer(clock, "forgetting pulls of who is gone", self._leave, DEADLINE_INTERVAL)
        self._waking = GuardedTimer(clock, "answering held pulls", self._wake, RECHECK_INTERVAL)
        self._ending = GuardedTimer(clock, "ending held pulls", self._end, DEADLINE_INTERVAL)
        self._loops = {
            DEADLINE_INTERVAL: PeriodicCall(clock, "ending held pulls", self._expire),
            RECHECK_INTERVAL: PeriodicCall(clock, "checking held pulls", self._recheck),
        }

    def start(self) -> None:
        for interval, loop in self._loops.items():
            loop.start(interval)

    def stop(self) -> None:
        """Answer every held pull as it stands, so that no client waits for a broker that is going away."""
        for loop in self._loops.values():
            loop.stop()
        self._waking.cancel()
        self._ending.cancel()
        self._leaving.cancel()
        while self._gone:
            self._drop(self._gone.popleft())
        self._turns.clear()
        self._ended.clear()
        for bucket in list(self._buckets):
            for pull in list(self._buckets[bucket]):
                self._finish(pull)

    def hold(self, pull: HeldPull, seconds: float) -> bool:
        """Keep `pull` until something arrives, at most `seconds`; False if there is no room for it."""
        if self.count + pull.weight > MAX_HELD:
            return False
        deadline = self._clock.seconds() + min(seconds, MAX_HOLD)
        pull.bucket = math.ceil(deadline / DEADLINE_INTERVAL)
        held = self._connections.get(pull.connection)
        if held is None:
            held = self._connections[pull.connection] = {}
            pull.connection.on_close(self._closed)
        held[pull] = None
        self._queues.setdefault(pull.queue, {}).setdefault(pull.connection, {})[pull] = None
        self._buckets.setdefault(pull.bucket, {})[pull] = None
        self.count += pull.weight
        return True

    def arrived(self, grown: Sequence[GrownQueue]) -> None:
        """These queues have grown."""
        if self._queues:
            for each in grown:
                queue = (each.topic, each.queue_id)
                if queue in self._queues:
                    self._mark(queue)

    def _recheck(self) -> None:
        """Mark every queue that has grown unnoticed."""
        for queue, connections in self._queues.items():
            end = self._queue_end(*queue)
            if any(pull.offset < end for pulls in connections.values() for pull in pulls):
                self._mark(queue)

    def _mark(self, queue: Queue) -> None:
        self._marked[queue] = None
        if not self._waking.pending:
            self._waking.set(0)

    def _wake(self) -> None:
        for queue in [queue for queue in self._marked if queue not in self._turns]:
            del self._marked[queue]
            self._turns.add(queue, self._queues.get(queue, {}).values())
        ends = self._clock.seconds() + SLICE
        try:
            while self._turns:
                pull = self._turns.next()
                if pull is not None and self._holds(pull):
                    if pull.connection.paused:
                        self._put_off(pull)
                    elif pull.retry(pull, False):
                        self._drop(pull)
                if self._clock.seconds() >= ends:
                    break
        finally:
            if (self._turns or self._marked) and not self._waking.pending:
                self._waking.set(0)

    def _holds(self, pull: HeldPull) -> bool:
        return pull in self._connections.get(pull.connection, ())

    def _put_off(self, pull: HeldPull) -> None:
        connection = pull.connection
        if connection not in self._unread:
            self._unread[connection] = {}
            connection.on_resume(lambda: self._resumed(connection))
        self._unread[connection][pull.queue] = None

    def _resumed(self, connection: RemotingConnection) -> None:
        for queue in self._unread.pop(connection, ()):
            if queue in self._queues:
                self._mark(queue)

    def _expire(self) -> None:
        if self._ended:
            return  # there are more than a second's: these will be among them the next time
        now = self._clock.seconds() / DEADLINE_INTERVAL
        for bucket in [bucket for bucket in self._buckets if bucket <= now]:
            self._ended.extend(self._buckets[bucket])
        self._end()

    def _end(self) -> None:
        ends = self._clock.seconds() + SLICE
        try:
            while self._ended:
                pull = self._ended.popleft()
                if self._holds(pull):
                    self._finish(pull)
                if self._clock.seconds() >= ends:
                    break
        finally:
            if self._ended:
                self._ending.set(0)

    def _finish(self, pull: HeldPull) -> None:
        if not pull.connection.paused:
            self._drop(pull)
            pull.retry(pull, True)

    def _closed(self, connection: RemotingConnection) -> None:
        self._gone.extend(self._connections.pop(connection))
        self._unread.pop(connection, None)
        if not self._leaving.pending:
            self._leave()

    def _leave(self) -> None:
        ends = self._clock.seconds() + SLICE
        while self._gone:
            self._drop(self._gone.popleft())
            if self._clock.seconds() >= ends:
                break
        if self._gone:
            self._leaving.set(0)

    def _drop(self, pull: HeldPull) -> None:
        connections = self._queues[pull.queue]
        _remove(connections, pull.connection, pull)
        if not connections:
            del self._queues[pull.queue]
        _remove(self._buckets, pull.bucket, pull)
        held = self._connections.get(pull.connection)
        if held is not None:
            held.pop(pull, None)
        self.count -= pull.weight


def _remove(table: dict[_Key, dict[HeldPull, None]], key: _Key, pull: HeldPull) -> None:
    """Take `pull` out of its group, and the group out of the table when it's empty."""
    group = table[key]
    del group[pull]
    if not group:
        del table[key]
