"""Consumers' commits, and the rule that a group's progress doesn't move back by accident.

RocketMQ takes every commit as it comes, so the last words of a client that has lost a queue undo what the
queue's new owner has committed since. Here a lower offset counts only from someone who can mean it:

- whoever isn't a living member of the group: tools, which reset offline groups with plain commits (15);
- the member that holds the queue, which is the last one that asked for its offset (14) or moved it forward:
  an application that seeks back;
- any member within RESET_GRACE after an operator's reset (222), which the members themselves carry out;
- anyone, when what is kept lies beyond the queue's end: that is no progress but a queue that has lost its tail.

Nor does it leap ahead: an offset from before such a loss doesn't count (`staleoffsets`), unless it's a tool's,
within RESET_GRACE after it has asked for a reset.

Any other lower offset is a late commit. It's answered with success, because a client can do nothing about it,
and changes nothing: at the worst messages of the overlap aren't seen again that were processed already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.staleoffsets import StaleOffsets
from hatwisted.remoting.server import RemotingConnection

RESET_GRACE = 60.0
"""Seconds after a reset during which its group may commit lower offsets. Clients stop, wait 10 s for what they
are working on, commit, and do so again with the next persist 5 s later."""

MAX_RESETS = 10_000
"""Resets remembered: one for a queue and group, for a minute."""

_Key = tuple[str, str, int]
"""Group, topic, queue id."""


class OffsetCommits:
    """Applies commits.

    - clock: ends what a reset allows
    - offsets: the table
    - clients: who is a member
    - queue_end: (topic, queue id) -> the queue's max offset
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        offsets: ConsumerOffsetTable,
        clients: ClientTable,
        queue_end: Callable[[str, int], int],
    ) -> None:
        self._clock = clock
        self._offsets = offsets
        self._clients = clients
        self._queue_end = queue_end
        self._holders: dict[_Key, RemotingConnection] = {}
        self._held: dict[RemotingConnection, dict[_Key, None]] = {}
        self._resets: dict[_Key, float] = {}
        self.stale = StaleOffsets(clock, offsets, queue_end)
        offsets.on_joined(self._overtaken)

    def asked(self, connection: RemotingConnection, group: str, topic: str, queue_id: int) -> None:
        """A member asks where to begin: it holds the queue from here on.

        - connection: the member's
        - group: which
        - topic, queue_id: of the queue
        """
        if self._is_member(connection, group):
            self._hold((group, topic, queue_id), connection)

    def commit(
        self, connection: RemotingConnection, group: str, topic: str, queue_id: int, offset: int
    ) -> bool:
        """Take a commit, unless it's a late one; was it taken?

        - connection: the member's
        - group: which
        - topic, queue_id: of the queue
        - offset: queue offset of the next message
        """
        key = (group, topic, queue_id)
        member = self._is_member(connection, group)
        if (member or not self._is_reset(key)) and (
            self.stale.standing(group, topic, queue_id, offset, connection) is not None
        ):
            return False
        known = self._offsets.query(group, topic, queue_id)
        if known is not None and offset < known and member and not self._may_go_back(key, connection, known):
            self._log.debug(
                "late commit of {peer} for {key}: {offset}, but {known} is already committed",
                peer=connection.peer,
                key=key,
                offset=offset,
                known=known,
            )
            return False
        # Clients repeat what they last committed, also for a queue that they have just lost: that says nothing.
        if member and (offset != known or key not in self._holders):
            self._hold(key, connection)
        if offset != known:
            self._offsets.commit(group, topic, queue_id, offset)
        return True

    def reset(self, group: str, topic: str, queue_ids: Iterable[int]) -> None:
        """An operator resets queues of a group: for a while its members may go back, and a tool to any place.

        - group: which
        - topic: of the queues
        - queue_ids: which of them
        """
        now = self._clock.seconds()
        self._resets = {key: until for key, until in self._resets.items() if until >= now}
        for queue_id in queue_ids:
            if len(self._resets) < MAX_RESETS:
                self._resets[group, topic, queue_id] = now + RESET_GRACE

    def closed(self, connection: RemotingConnection) -> None:
        """The connection is gone and holds nothing any more."""
        for key in self._held.pop(connection, ()):
            del self._holders[key]

    def _overtaken(self, group: str, topic: str, queue_id: int) -> None:
        """Another broker knew more of the queue: its holder began too early, and isn't seeking back when it
        commits what it has done since."""
        holder = self._holders.pop((group, topic, queue_id), None)
        if holder is not None:
            self._held[holder].pop((group, topic, queue_id), None)

    def _may_go_back(self, key: _Key, connection: RemotingConnection, known: int) -> bool:
        if self._holders.get(key) is connection or self._is_reset(key):
            return True
        return known > self._queue_end(key[1], key[2])

    def _is_reset(self, key: _Key) -> bool:
        return self._resets.get(key, -1.0) >= self._clock.seconds()

    def _is_member(self, connection: RemotingConnection, group: str) -> bool:
        members = self._clients.consumers.get(group)
        return members is not None and connection in members.members

    def _hold(self, key: _Key, connection: RemotingConnection) -> None:
        """Bounded by what members can name: see the limits of heartbeats, and a queue that isn't there is
        nobody's."""
        before = self._holders.get(key)
        if before is connection:
            return
        if before is None and self._queue_end(key[1], key[2]) == 0:
            return
        if before is not None:
            self._held[before].pop(key, None)
        self._holders[key] = connection
        self._held.setdefault(connection, {})[key] = None
