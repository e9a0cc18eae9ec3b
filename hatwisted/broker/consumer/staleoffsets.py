"""Queue offsets from before a loss, and what becomes of those that remember them.

A master may begin with less than its clients have seen: a power failure has taken the log's unsynced tail, or
it was a slave that hadn't got all. The same offsets are then given to new messages. A group that goes on where it
was would skip these, silently, and RocketMQ's do. So at start

- progress beyond its queue's end comes back to that end, as a reset, so that it counts on the other broker too;
- no member of a group with progress is believed an offset beyond both the end that its queue had then and what the
  group has committed since, before it has pulled from within: its pull is sent back to where the group stands, its
  commit changes nothing, nor does a slave that remembers it. The group may get some messages twice. Whoever has
  pulled from within speaks for itself alone, for a while (DOUBT): another member may have held the queue before,
  and its last words come late.

Nothing of this is done to a master that has come back with all that it had (store/lifecycle/lastrun.py): an offset
beyond a queue's end at its start is then of a message put later, which the group has had from a slave. Groups
without progress begin wherever they like.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.consumer.consumeroffset import SEPARATOR, ConsumerOffsetTable
from hatwisted.remoting.server import RemotingConnection

DOUBT = 600.0
"""Seconds from the first pull from within a queue to the time when everybody is believed: who held it before has
given it up by then. A member that connects anew can't be told from another one, and would be sent back to what its
group has committed, however long ago the loss was."""


LOOK_LIMIT = 30.0
"""Seconds that may have passed between two looks at a doubt, twice what a pull is held: a clock that leaps ends no
doubt. One that is seldom looked at lasts longer."""


class _Doubt:
    """About a group's offsets in a queue. end: the queue's at start."""

    __slots__ = ("_left", "_looked", "end")

    def __init__(self, end: int) -> None:
        self.end = end
        self._left = DOUBT
        self._looked: float | None = None

    def resolve(self, now: float) -> None:
        """A member has pulled from within: it ends in DOUBT seconds. now: clock seconds."""
        if self._looked is None:
            self._looked = now

    def over(self, now: float) -> bool:
        """Look at it. now: clock seconds."""
        if self._looked is None:
            return False
        self._left -= min(max(0.0, now - self._looked), LOOK_LIMIT)
        self._looked = now
        return self._left <= 0


class StaleOffsets:
    """Which members of a table's groups have shown that they mean this log.

    - clock: ends doubts
    - offsets: the table
    - queue_end: (topic, queue id) -> the queue's max offset
    """

    _log = Logger()

    def __init__(
        self, clock: IReactorTime, offsets: ConsumerOffsetTable, queue_end: Callable[[str, int], int]
    ) -> None:
        self._clock = clock
        self._offsets = offsets
        self._queue_end = queue_end
        self._doubts: dict[str, dict[int, _Doubt]] = {}
        """By topic@group and queue id: at most the rows that the table had at start."""
        self._meant: dict[RemotingConnection, set[tuple[str, int]]] = {}
        """Of these queues, those that a member has pulled from within."""

    def begin(self, *, complete: bool) -> None:
        """This broker is the master from now on, with these queues. complete: nothing of them can be missing."""
        ends = {
            key: {queue_id: self._queue_end(key.partition(SEPARATOR)[0], queue_id) for queue_id in row}
            for key, row in self._offsets.progress().offset_table.items()
        }
        self._doubts = {}
        if not complete:
            self._doubts = {key: {at: _Doubt(end) for at, end in row.items()} for key, row in ends.items()}
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
        self._doubts = {}
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
        if not self._doubts:
            return None
        row = f"{topic}{SEPARATOR}{group}"
        doubt = self._doubt(row, queue_id)
        if doubt is None or offset <= doubt.end:
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
        if standing is None and self._doubts:
            row = f"{topic}{SEPARATOR}{group}"
            doubt = self._doubt(row, queue_id)
            if doubt is not None:
                doubt.resolve(self._clock.seconds())
                self._meant.setdefault(member, set()).add((row, queue_id))
                member.on_close(self._closed)
        return standing

    def _doubt(self, row: str, queue_id: int) -> _Doubt | None:
        """What is doubted still."""
        queues = self._doubts.get(row)
        doubt = None if queues is None else queues.get(queue_id)
        if queues is None or doubt is None or not doubt.over(self._clock.seconds()):
            return doubt
        del queues[queue_id]
        if not queues:
            del self._doubts[row]
        return None

    def _closed(self, member: RemotingConnection) -> None:
        self._meant.pop(member, None)
