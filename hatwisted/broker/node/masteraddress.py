"""Where a slave's master is: as the operator says, or as the name servers do.

Name servers believe whoever registers as the master, and their word may change while the link to the true one
stands: a second master was started under the same name, or a stranger says that he is it. So what a slave asks
about log and tables, it asks of the broker that belonged to the HA address when it dialled that.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class KnownMaster(msgspec.Struct, frozen=True):
    """What a broker knows of its master: remoting and HA address, None when no living one is known."""

    address: str | None = None
    ha_address: str | None = None


class MasterAddress:
    """The master's addresses at present, "host:port" or None.

    fixed: haMasterAddress, which outranks what name servers say of the HA port (B17); alone: is there no name
    server? Then the remoting port follows from `fixed` as well.
    """

    def __init__(self, fixed: str | None = None, *, alone: bool = False) -> None:
        self._fixed = fixed
        self._alone = alone
        self._known = KnownMaster()
        self._copied = KnownMaster()
        """What was known at the last dial."""
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the name servers say something else than before."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Undo `add_listener`."""
        self._listeners.remove(listener)

    def learn(self, known: KnownMaster) -> None:
        """The name servers say so."""
        self._known = known
        if self._copied.address is None and (self._fixed or known.ha_address == self._copied.ha_address):
            self._copied = known  # it had yet to register when it was dialled
        for listener in self._listeners:
            listener()

    @property
    def registered(self) -> str | None:
        """The remoting address of a master that is alive, as the name servers know."""
        return self._known.address

    @property
    def ha(self) -> str | None:
        """Where its log can be copied from."""
        return self._fixed or self._known.ha_address

    def dial(self) -> str | None:
        """Where to copy the log from now on: what is asked beside the link goes to the same broker."""
        self._copied = self._known
        return self.ha

    @property
    def tables(self) -> str | None:
        """Whom to ask for its tables."""
        return remoting_of(self._fixed) if self._fixed is not None and self._alone else self._copied.address

    @property
    def log(self) -> str:
        """Whom to ask about its log: there is a link to it already."""
        return self._copied.address or remoting_of(self._fixed or self._copied.ha_address)


def remoting_of(ha_address: str | None) -> str:
    """A broker's remoting address, by the rule that its HA port is the one after (B15)."""
    host, _, port = (ha_address or "").rpartition(":")
    return f"{host}:{int(port) - 1}"
