"""What the connections of one port share: who answers, whose turn it is, how much there may be of all.

Limits that all connections have together are here or in the objects that the factory holds; what one connection
does is in `server`.
"""

from __future__ import annotations

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.logger import Logger

from hatwisted.remoting.connectionbudget import ConnectionBudget
from hatwisted.remoting.portoptions import PortOptions
from hatwisted.remoting.processortable import ProcessorTable
from hatwisted.remoting.requestturns import RequestTurns
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.throttle import LogThrottle, more_like_it

MAX_CONNECTIONS = 20_000
"""Open connections of one port; further ones are closed on accept."""

OPEN_TO_ALL = PortOptions()


class RemotingServerFactory(ServerFactory):
    """Accepts clients of one port.

    - table: who answers what
    - clock: for the idle scan
    - typed_sends: as RemotingReceiver
    - options: what an operator has decided
    - budget: of the process's connections
    - signed_sends: as RemotingReceiver
    """

    noisy = False
    _log = Logger()

    def __init__(
        self,
        table: ProcessorTable,
        clock: IReactorTime,
        typed_sends: bool = True,
        options: PortOptions = OPEN_TO_ALL,
        budget: ConnectionBudget | None = None,
        signed_sends: bool = False,
    ) -> None:
        self.table = table
        self._options = options
        self._budget = budget or ConnectionBudget()
        self._throttle = LogThrottle(clock)
        self._reading = (typed_sends, signed_sends, options.sizes)
        self.connections: dict[RemotingConnection, None] = {}
        self.partial, self.unread = self._budget.partial, self._budget.unread
        self.unread.most = options.unread_bytes or self.unread.most
        self.windows = self._budget.windows
        self.windows.most = options.unacknowledged_bytes or self.windows.most
        self.turns = RequestTurns(clock)
        self.rejected_total = 0
        self.busy_total = 0
        self._scan = PeriodicCall(clock, "scanning for idle connections", self._close_idle)

    def serve(self, table: ProcessorTable) -> None:
        """Have requests answered by `table` from now on, on open connections too."""
        self.table = table

    def startFactory(self) -> None:
        self._scan.start(self._options.idle_limit)

    def stopFactory(self) -> None:
        self._scan.stop()
        self.turns.stop()

    def buildProtocol(self, addr: IAddress | None) -> RemotingConnection | None:  # type: ignore[override]
        if not self._is_allowed(addr):
            return None  # closed before a byte is read
        connection = RemotingConnection(*self._reading)
        connection.factory = self
        return connection

    def _is_allowed(self, addr: IAddress | None) -> bool:
        networks, host = self._options.networks, getattr(addr, "host", "")
        if networks is None or host in networks:
            return True
        self._refuse(host, "listenAllowList doesn't have its address")
        return False

    def admit(self, connection: RemotingConnection) -> bool:
        """Count a new connection; False if there are too many."""
        if len(self.connections) >= MAX_CONNECTIONS:
            reason: str | None = f"{MAX_CONNECTIONS} connections are open on this port"
        else:
            reason = self._budget.take(connection.address, self._options.of_address)
        if reason is not None:
            self._refuse(connection.address, reason)
            return False
        self.connections[connection] = None
        return True

    def _refuse(self, address: str, reason: str) -> None:
        self.rejected_total += 1
        left_out = self._throttle.admit(reason)
        if left_out is not None:
            self._log.warn(
                "connection from {address} refused: {reason}{more}",
                event="connection.refused",
                address=address,
                reason=reason,
                more=more_like_it(left_out),
            )

    def forget(self, connection: RemotingConnection) -> None:
        """The connection is gone, and with it what it held of an incomplete frame and of unread answers."""
        if connection in self.connections:
            del self.connections[connection]
            self._budget.give_back(connection.address)
        self.partial.forget(connection)
        self.unread.forget(connection)
        self.turns.forget(connection)
        connection.window.forget(connection)

    def _close_idle(self) -> None:
        # Flags instead of a time stamp per read: a connection silent for a whole scan interval is closed, which is
        # after the limit to twice that, and the hot path only sets a bool.
        for connection in list(self.connections):
            if not connection.active and connection.paused:
                connection.reject(f"answers that it hasn't read within {self._options.idle_limit:g} s")
            elif not connection.active:
                self._log.info("closing idle connection of {peer}", peer=connection.peer)
                connection.abort()
            elif connection.stalled:
                connection.reject(f"a frame that hasn't ended within {self._options.idle_limit:g} s")
            connection.active = False
            connection.stalled = connection.holds_partial_frame
