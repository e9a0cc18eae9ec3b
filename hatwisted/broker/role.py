"""What this broker is at present."""

from __future__ import annotations

from hatwisted.config.schema import BrokerRole


class Role:
    """A broker's role, in the one place where it stands.

    Whoever does something else on a slave asks here, each time, and keeps no answer.
    """

    def __init__(self, present: BrokerRole) -> None:
        self.present = present

    @property
    def slave(self) -> bool:
        """Does this broker copy another one's log and tables?"""
        return self.present is BrokerRole.SLAVE
