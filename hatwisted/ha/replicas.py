"""How far the slaves of a master have come, link by link, and what that lets the master promise.

RocketMQ 4 keeps one number, the highest report of any slave ever; it is kept here under its own name, next to
each link's own acknowledgement, so that a quorum (`inSyncReplicas`) can be counted and a dead slave's last
report isn't mistaken for a living one's.

A link is not a replica. This wire carries no slave id, and an address can change with a restart and be shared by
two slaves; yet a quorum has to count slaves. A slave has one link at a time, of either make: it closes the old one
before it dials again. So a link that acknowledges bytes which weren't in the log yet when a newer link came isn't
that one's predecessor, and until it does, the two may be one slave and have one vote. That takes a vote back from
puts that wait while a slave joins, nothing more: the next put's ack settles it.

Before an append, where nothing is promised yet, any report since the newer link came will do: on an idle master
nothing else could tell two slaves apart.

Rejected: counting hosts (a slave that moves has two, two slaves may share one), and an id sent beside the link
(RocketMQ's slaves send none, and it could come too late or not at all).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from hatwisted.ha.slaveprogress import SendProgress


class Replica:
    """A link that has reported.

    - link: its progress
    - number: how many have reported up to it, itself included
    - log_end: the master's at that time
    """

    __slots__ = ("heard", "link", "log_end", "number")

    def __init__(self, link: SendProgress, number: int, log_end: int) -> None:
        self.link = link
        self.number = number
        self.log_end = log_end
        self.heard = number
        """Number of the newest link at the time of this one's last report."""


class ReplicaTable:
    """The links that count.

    in_sync_replicas: copies (the master's included) that make a put replicated, as RocketMQ 5's key of that
    name; None keeps RocketMQ 4's meaning: any one slave that ever reported so far.
    """

    def __init__(self, in_sync_replicas: int | None = None) -> None:
        self._in_sync_replicas = in_sync_replicas
        self._links: dict[SendProgress, None] = {}
        self._replicas: dict[SendProgress, Replica] = {}
        """Those of `_links` that have reported, in the order in which they did."""
        self._newest = 0
        self.push2_slave_max_offset = 0
        """Highest plausible report of any slave ever (bytes); never lowered, not even by a disconnect."""
        self._proved = 0
        """Highest that says what a slave was sent, see `SendProgress.proved_offset`; never lowered either."""

    @property
    def connection_count(self) -> int:
        """Links that have reported, or may be a slave's that hasn't yet (B70, `slavehosts`); refused ones
        are taken out."""
        return len(self._links)

    def join(self, link: SendProgress) -> None:
        """A slave has connected; idempotent."""
        self._links[link] = None

    def reported(self, link: SendProgress, log_end: int) -> None:
        """Its first report was accepted. log_end: of the master's log."""
        self.join(link)
        self._newest += 1
        self._replicas[link] = Replica(link, self._newest, log_end)

    def leave(self, link: SendProgress) -> None:
        """Its link has ended or was refused; idempotent."""
        self._links.pop(link, None)
        self._replicas.pop(link, None)

    def acknowledged(self, link: SendProgress) -> None:
        """`link.ack_offset` has changed, or was said again."""
        replica = self._replicas.get(link)
        if replica is not None:
            replica.heard = self._newest
        if link.ack_offset > self.push2_slave_max_offset:
            self.push2_slave_max_offset = link.ack_offset
        self._proved = max(self._proved, link.proved_offset)

    def commit_offset(self, master_end: int) -> int:
        """Everything below counts as replicated; -1 if too few slaves have reported."""
        wanted = self._in_sync_replicas
        if wanted is None:
            return self._proved
        if wanted <= 1:
            return master_end
        acks = sorted((link.proved_offset for link in self._replicas), reverse=True)
        at = wanted - 2
        if len(acks) <= at:
            return -1
        last = next(reversed(self._replicas.values()))
        if any(link.ack_offset <= last.log_end for link in self._replicas if link is not last.link):
            at = bisect_left(range(len(acks)), wanted - 1, key=lambda index: self._holders(acks[index]))
        return acks[at] if at < len(acks) else -1

    def _holders(self, offset: int) -> int:
        """Slaves, at the least, that have acknowledged the log up to `offset`."""
        return at_least(
            [replica for link, replica in self._replicas.items() if link.proved_offset >= offset],
            lambda replica, newer: replica.link.ack_offset > newer.log_end,
        )

    def in_sync_count(self, master_end: int, max_gap: int) -> int:
        """Copies less than `max_gap` bytes behind `master_end`, the master's own included."""
        near = [replica for link, replica in self._replicas.items() if master_end - link.ack_offset < max_gap]
        return 1 + at_least(near, lambda replica, newer: replica.heard >= newer.number)

    def is_slave_ok(self, end: int, fall_behind_max: int) -> bool:
        """RocketMQ 4's test before a put that ends at `end` may wait: any link, and not too far behind."""
        return bool(self._links) and end - self.push2_slave_max_offset < fall_behind_max


def at_least(links: Sequence[Replica], apart: Callable[[Replica, Replica], bool]) -> int:
    """How many slaves `links` are, if each slave re-dialled as often as it may have.

    - links: in the order in which they came
    - apart: is the first link, the older one, certainly not a predecessor of the second? If it isn't of one link,
      it isn't of any older than that one either
    """
    total = len(links)

    def first_successor(index: int) -> int:
        old = links[index]
        return bisect_left(range(total), True, index + 1, key=lambda newer: not apart(old, links[newer]))

    # Each link may have been followed by one of those from its first possible successor on, and each of those
    # followed one: whoever has the fewest to choose from chooses first.
    followed = 0
    for first in sorted(map(first_successor, range(total)), reverse=True):
        if total - first > followed:
            followed += 1
    return total - followed
