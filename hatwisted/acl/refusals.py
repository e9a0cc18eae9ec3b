"""What one guard refuses: counted, and a line in the log about each source once a minute."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.remoting.guarded import Denial
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.remoting import RemotingCommand


class RefusingGuard:
    """What the guards have in common. clock: of the log's throttle."""

    _log: Logger

    def __init__(self, clock: IReactorTime) -> None:
        self.denied_total = 0
        """Requests that it has refused."""
        self._throttle = LogThrottle(clock)

    def denial(self, request: RemotingCommand, connection: RemotingConnection) -> Denial | None:
        """Why `request` isn't served; None if it is."""
        raise NotImplementedError

    def denials(
        self, requests: Sequence[RemotingCommand], connection: RemotingConnection
    ) -> Sequence[Denial | None]:
        """The same of each request of a batch; nothing at all if all of them are served."""
        return [self.denial(request, connection) for request in requests]

    def _refuse(self, source: str, denial: Denial, text: str, /, **fields: object) -> Denial:
        """`denial`, once it has been counted and told.

        - source: who is to have no more than a line a minute
        - denial: what the client is told
        - text, fields: the line
        """
        self.denied_total += 1
        left_out = self._throttle.admit(source)
        if left_out is not None:
            self._log.warn(text + "{more}", **fields, more=more_like_it(left_out))
        return denial
