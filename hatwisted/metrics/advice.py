"""What isn't well with a broker, each with one line about what to do: the words of the live page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.broker.node.slaverole import LOGS_DIFFER, SlaveRole
from hatwisted.metrics.health import Health
from hatwisted.metrics.linkwatch import LinkWatch

LATE: Final = 60.0
"""Seconds behind from which on somebody should look: as in the alert rules."""
DISK_NEAR: Final = 0.8
"""Used share of a disk, likewise."""


class Finding(NamedTuple):
    """what: is so; do: about it; grave: does it need somebody now?"""

    what: str
    do: str
    grave: bool = True


class Advice:
    """Judges one broker.

    - node: the broker
    - health: what probes are told
    - watch: knows how late links are
    """

    def __init__(self, node: BrokerNode, health: Health, watch: LinkWatch) -> None:
        self._node = node
        self._health = health
        self._watch = watch

    def findings(self) -> list[Finding]:
        """All, the grave ones first."""
        services = self._node.services
        role = services if isinstance(services, SlaveRole) else None
        found = [*self._unready(role)]
        found += self._of_slave() if role is not None else self._of_master()
        found += self._of_store()
        return sorted(found, key=lambda each: not each.grave)

    def _unready(self, role: SlaveRole | None) -> Iterator[Finding]:
        for reason in self._health.unready():
            if reason in self._health.dead():
                do = "mend what the line names, then restart the broker: it recovers what the disk holds"
            elif "registration" in reason:
                do = "start the name server, or correct namesrvAddr"
            elif "in-sync" in reason:
                do = "start the slaves that are missing; puts are taken again once they have caught up"
            elif "disk" in reason:
                do = "make room, or lower fileReservedTime"
            elif role is not None and role.ha_client.state in LOGS_DIFFER:
                do = "'hatwisted log compare' shows where they differ; an emptied slave copies everything again"
            elif role is not None:
                do = "is the master running, and can this host reach its listenPort + 1?"
            else:
                do = "the broker's log says more"
            yield Finding(reason, do)

    def _of_master(self) -> Iterator[Finding]:
        ha, now = self._node.parts.ha, self._node.parts.clock.seconds()
        if not ha.slave_hosts():
            sync = self._node.parts.role.sync_master
            what = "no slave copies this log: new messages are on one disk alone"
            yield Finding(what, "is a slave running, and can it reach listenPort + 1 here?", grave=sync)
        for link in ha.status():
            behind = self._watch.own.behind(link.ack_offset, now) if link.lag_bytes else 0.0
            if link.ack_offset >= 0 and behind > LATE:
                yield Finding(
                    f"slave {link.address} is {behind:,.0f} s behind",
                    "compare the rate of its link with that of puts, and look at its disk",
                )

    def _of_slave(self) -> Iterator[Finding]:
        if self._watch.lag_seconds > LATE:
            yield Finding(
                f"this slave is {self._watch.lag_seconds:,.0f} s behind its master",
                "look at this host's disk, and at the network between the two",
            )

    def _of_store(self) -> Iterator[Finding]:
        mark = self._node.parts.store.watermark
        if mark.used > DISK_NEAR and mark.full_reason is None:
            yield Finding(
                f"{mark.used:.0%} of the disk is used",
                "from 90 % on puts are refused: make room, or lower fileReservedTime",
                grave=False,
            )
