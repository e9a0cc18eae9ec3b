"""Queue offsets from before a loss, and what becomes of those that remember them.

A master may begin with less than its clients have seen: a power failure has taken the log's unsynced tail, or
it was a slave that hadn't got all. The same offsets are then given to new messages. A group that goes on where it
was would skip these, silently, and RocketMQ's do. So at start

- progress beyond its queue's end comes back to that end, as a reset, so that it counts on the other broker too;
- no member of a group with progress is believed an offset beyond both the end that its queue had then and what the
  group has committed since, before it has pulled from within: its pull is sent back to where the group stands, its
  commit changes nothing, nor does a slave that remembers it. The group may get some messages twice. Whoever has
  pulled from within speaks for itself alone: another member may have held the queue before, and its last words
  come late.

Nothing of this is done to a master that has come back with all that it had (store/lifecycle/lastrun.py): an offset
beyond a queue's end at its start is then of a message put later, which the group has had from a slave. Groups
without progress begin wherever they like.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from hatwisted.broker.consumer.consumeroffset import SEPARATOR, ConsumerOffsetTable
from hatwisted.remoting.server import RemotingConnection


class StaleOffsets:
    """Which members of the groups of `offsets` have shown that they mean this log. queue_end(topic, queue id): a
    queue's max offset."""

    _log = Logger()

    def __init__(self, offsets: ConsumerOffsetTable, queue_end: Callable[[str, int], int]) -> None:
        self._offsets = offsets
        self._queue_end = queue_end
        self._ends: dict[str, dict[int, int]] = {}
        """Ends of queues at start, by topic@group and queue id: at most the rows that the table had then."""
        self._meant: dict[RemotingConnection, set[tuple[str, int]]] = {}
        """Of these queues, those that a member has pulled from within."""

    def begin(self, *, complete: bool) -> None:
        """This broker is the master from now on, with these queues. complete: nothing of them can be missing."""
        ends = {
            key: {queue_id: self._queue_end(key.partition(SEPARATOR)[0], queue_id) for queue_id in row}
            for key, row in self._offsets.progress().offset_table.items()
        }
        self._ends = {} if complete else ends
        for key, row in ends.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, end in row.items():
                offset = self._offsets.query(group, topic, queue_id) or 0
                if offset > end:
                    self._log.warn(
                        "group {group} was at offset {offset} of {topic}/{queue_id}, which ends at {end}: it "
                        "continues there",
                        group=group,
                        offset=offset,
                        topic=topic,
                        queue_id=queue_id,
                        end=end,
                    )
                    self._offsets.reset(group, topic, queue_id, end)

    def end(self) -> None:
        """It is the master no longer, and believes what its clients say, as slaves do."""
        self._ends = {}
        self._meant.clear()

    def standing(
        self, group: str, topic: str, queue_id: int, offset: int, member: RemotingConnection | None = None
    ) -> int | None:
        """Where a group really stands if an offset can't be believed; None if it can.

        - group: which
        - topic, queue_id: of the queue
        - offset: where it says it is
        - member: who says so; None: another broker
        """
        if not self._ends:
            return None
        row = f"{topic}{SEPARATOR}{group}"
        end = self._ends.get(row, {}).get(queue_id)
        if end is None or offset <= end:
            return None
        if member is not None and (row, queue_id) in self._meant.get(member, ()):
            return None
        known = self._offsets.query(group, topic, queue_id)
        return None if known is None or offset <= known else known

    def believed(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Is what another broker says of a group about this broker's messages, those that are here already?

        - group: which
        - topic, queue_id: of the queue
        - offset: where it's said to be
        """
        within = 0 <= offset <= self._queue_end(topic, queue_id)
        return within and self.standing(group, topic, queue_id, offset) is None

    def pulled(
        self, group: str, topic: str, queue_id: int, offset: int, member: RemotingConnection
    ) -> int | None:
        """A member pulls: as `standing`, and once that can be believed, so is all that it says later.

        - group: which
        - topic, queue_id: of the queue
        - offset: where it pulls
        - member: who
        """
        standing = self.standing(group, topic, queue_id, offset, member)
        if standing is None and self._ends:
            row = f"{topic}{SEPARATOR}{group}"
            if queue_id in self._ends.get(row, ()):
                self._meant.setdefault(member, set()).add((row, queue_id))
                member.on_close(self._closed)
        return standing

    def _closed(self, member: RemotingConnection) -> None:
        self._meant.pop(member, None)
