"""What this broker is at present."""

from __future__ import annotations

from hatwisted.config.schema import BrokerRole


class Role:
    """A broker's role, in the one place that says so.

    Whoever does something else on a slave asks here, each time, and keeps no answer. broker_id: its number in the
    group, 0 of a master.
    """

    def __init__(self, present: BrokerRole, broker_id: int) -> None:
        self.present = present
        self.broker_id = broker_id
        self.apart = False
        """Of a slave that was a master: may its log have other messages than the present master's, who may not be
        known yet? A group that reads them would take the master's at these queue offsets for read."""

    def become(self, role: BrokerRole, broker_id: int) -> None:
        """From now on it's this one."""
        self.present = role
        self.broker_id = broker_id
        self.apart = False

    @property
    def slave(self) -> bool:
        """Does this broker copy another one's log and tables?"""
        return self.present is BrokerRole.SLAVE

    @property
    def sync_master(self) -> bool:
        """Do puts wait for slaves?"""
        return self.present is BrokerRole.SYNC_MASTER
