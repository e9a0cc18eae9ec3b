"""From where a server is administered, whoever it is: unless an operator says otherwise, from its own host.

Without accounts everybody who reaches a port could delete its topics and change its configuration, as RocketMQ has
it. Rejected: refusing by default what only looks (tools and exporters on other hosts would go blind).
"""

from __future__ import annotations

from collections.abc import Collection

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.remoting.guarded import Denial
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.networks import Networks
from hatwisted.wire.remoting import RemotingCommand


class AdminGuard:
    """Refuses requests from elsewhere.

    - codes: of the requests that it's about
    - networks: from where they are taken; None: from this host alone
    - clock: of the log's throttle
    """

    _log = Logger()

    def __init__(self, codes: Collection[int], networks: Networks | None, clock: IReactorTime) -> None:
        self.codes = codes
        self.denied_total = 0
        self._networks = networks
        self._throttle = LogThrottle(clock)

    def denial(self, request: RemotingCommand, connection: RemotingConnection) -> Denial | None:
        """Why `request` isn't served; None if it is."""
        host = connection.address
        if connection.local if self._networks is None else host in self._networks:
            return None
        self.denied_total += 1
        left_out = self._throttle.admit(host)
        if left_out is not None:
            self._log.warn(
                "request {code} of {peer} refused: adminAllowList doesn't have its address{more}",
                event="access.admin",
                code=request.code,
                peer=connection.peer,
                more=more_like_it(left_out),
            )
        allowed = "this host alone" if self._networks is None else str(self._networks)
        return Denial(
            f"request {request.code} changes this server, which is left to {allowed}, not to {host}; "
            "its operator may add networks to adminAllowList",
            ResponseCode.NO_PERMISSION,
        )
