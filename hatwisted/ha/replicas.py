"""How far the slaves of a master have come, link by link, and what that lets the master promise.

RocketMQ 4 keeps one number, the highest report of any slave ever; it is kept here under its own name, next to
each link's own acknowledgement, so that a quorum (`inSyncReplicas`) can be counted and a dead slave's last
report isn't mistaken for a living one's.

A link is not a replica: this wire carries no slave id, so a slave that reconnects while its old, half-open
link is still listed has two entries. That can't fake a quorum for new puts: the old link's offset no longer
rises.
"""

from __future__ import annotations

from hatwisted.ha.slaveprogress import SendProgress


class ReplicaTable:
    """The links that count.

    in_sync_replicas: copies (the master's included) that make a put replicated, as RocketMQ 5's key of that
    name; None keeps RocketMQ 4's meaning: any one slave that ever reported so far.
    """

    def __init__(self, in_sync_replicas: int | None = None) -> None:
        self._in_sync_replicas = in_sync_replicas
        self._links: list[SendProgress] = []
        self.push2_slave_max_offset = 0
        """Highest plausible report of any slave ever (bytes); never lowered, not even by a disconnect."""

    @property
    def connection_count(self) -> int:
        """Links that have reported, or may be a slave's that hasn't yet (B70, `slavehosts`); refused ones
        are taken out."""
        return len(self._links)

    def join(self, link: SendProgress) -> None:
        """A slave has connected; idempotent."""
        if link not in self._links:
            self._links.append(link)

    def leave(self, link: SendProgress) -> None:
        """Its link has ended or was refused; idempotent."""
        if link in self._links:
            self._links.remove(link)

    def acknowledged(self, link: SendProgress) -> None:
        """`link.ack_offset` has changed."""
        if link.ack_offset > self.push2_slave_max_offset:
            self.push2_slave_max_offset = link.ack_offset

    def commit_offset(self, master_end: int) -> int:
        """Everything below counts as replicated; -1 if too few slaves have reported."""
        wanted = self._in_sync_replicas
        if wanted is None:
            return self.push2_slave_max_offset
        if wanted <= 1:
            return master_end
        acks = sorted((link.ack_offset for link in self._links), reverse=True)
        return acks[wanted - 2] if len(acks) >= wanted - 1 else -1

    def in_sync_count(self, master_end: int, max_gap: int) -> int:
        """Copies less than `max_gap` bytes behind `master_end`, the master's own included."""
        return 1 + sum(1 for link in self._links if link.reported and master_end - link.ack_offset < max_gap)

    def is_slave_ok(self, end: int, fall_behind_max: int) -> bool:
        """RocketMQ 4's test before a put that ends at `end` may wait: any link, and not too far behind."""
        return bool(self._links) and end - self.push2_slave_max_offset < fall_behind_max
