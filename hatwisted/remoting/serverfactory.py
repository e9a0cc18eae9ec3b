"""What the connections of one port share: who answers, whose turn it is, how much there may be of all.

Limits that all connections have together are here or in the objects that the factory holds; what one connection
does is in `server`.
"""

from __future__ import annotations

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.logger import Logger

from hatwisted.remoting.partialframes import PartialFrames
from hatwisted.remoting.portoptions import PortOptions
from hatwisted.remoting.requestturns import RequestTurns
from hatwisted.remoting.server import ProcessorTable, RemotingConnection
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.throttle import LogThrottle, more_like_it

IDLE_LIMIT = 120.0
"""Seconds without a byte from the client before its connection is closed (serverChannelMaxIdleTimeSeconds)."""

MAX_CONNECTIONS = 20_000
"""Open connections of one port; further ones are closed on accept. Keeps descriptors for the store's files."""

OPEN_TO_ALL = PortOptions()


class RemotingServerFactory(ServerFactory):
    """Accepts clients of one port.

    - table: who answers what
    - clock: for the idle scan
    - typed_sends: as RemotingReceiver
    - options: what an operator has decided
    """

    noisy = False
    _log = Logger()

    def __init__(
        self,
        table: ProcessorTable,
        clock: IReactorTime,
        typed_sends: bool = True,
        options: PortOptions = OPEN_TO_ALL,
    ) -> None:
        self.table = table
        self._options = options
        self._throttle = LogThrottle(clock)
        self._typed_sends = typed_sends
        self.connections: dict[RemotingConnection, None] = {}
        self.partial = PartialFrames()
        self.turns = RequestTurns(clock)
        self.rejected_total = 0
        self._refusing = False
        self._scan = PeriodicCall(clock, "scanning for idle connections", self._close_idle)

    def serve(self, table: ProcessorTable) -> None:
        """Have requests answered by `table` from now on, on open connections too."""
        self.table = table

    def startFactory(self) -> None:
        self._scan.start(IDLE_LIMIT)

    def stopFactory(self) -> None:
        self._scan.stop()
        self.turns.stop()

    def buildProtocol(self, addr: IAddress | None) -> RemotingConnection | None:  # type: ignore[override]
        if not self._is_allowed(addr):
            return None  # closed before a byte is read
        connection = RemotingConnection(self._typed_sends)
        connection.factory = self
        return connection

    def _is_allowed(self, addr: IAddress | None) -> bool:
        networks, host = self._options.networks, getattr(addr, "host", "")
        if networks is None or host in networks:
            return True
        self.rejected_total += 1
        left_out = self._throttle.admit(host)
        if left_out is not None:
            self._log.warn(
                "connection from {host} refused: listenAllowList doesn't have its address{more}",
                host=host,
                more=more_like_it(left_out),
            )
        return False

    def admit(self, connection: RemotingConnection) -> bool:
        """Count a new connection; False if there are too many."""
        if len(self.connections) >= MAX_CONNECTIONS:
            self.rejected_total += 1
            if not self._refusing:
                self._log.warn("{limit} connections open, refusing more", limit=MAX_CONNECTIONS)
            self._refusing = True
            return False
        self._refusing = False
        self.connections[connection] = None
        return True

    def forget(self, connection: RemotingConnection) -> None:
        """The connection is gone, and with it what it held of an incomplete frame."""
        self.connections.pop(connection, None)
        self.partial.forget(connection)

    def _close_idle(self) -> None:
        # A flag instead of a time stamp per read: a connection silent for a whole scan interval is closed,
        # which is after IDLE_LIMIT to twice that, and the hot path only sets a bool.
        for connection in list(self.connections):
            if not connection.active:
                self._log.info("closing idle connection of {peer}", peer=connection.peer)
                connection.abort()
            connection.active = False
