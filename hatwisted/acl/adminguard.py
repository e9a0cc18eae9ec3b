"""From where a server is administered, whoever it is: unless an operator says otherwise, from its own host.

Without accounts everybody who reaches a port could delete its topics and change its configuration, as RocketMQ has
it. Rejected: refusing by default what only looks (tools and exporters on other hosts would go blind).
"""

from __future__ import annotations

from collections.abc import Collection

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.acl.refusals import RefusingGuard
from hatwisted.remoting.guarded import Denial
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.networks import Networks
from hatwisted.wire.remoting import RemotingCommand


def is_admitted(connection: RemotingConnection, networks: Networks | None) -> bool:
    """Are changes taken from there? networks: from where; None: from this host alone"""
    return connection.local if networks is None else connection.address in networks


class AdminGuard(RefusingGuard):
    """Refuses requests from elsewhere.

    - codes: of the requests that it's about
    - networks: from where they are taken; None: from this host alone
    - clock: of the log's throttle
    """

    _log = Logger()

    def __init__(self, codes: Collection[int], networks: Networks | None, clock: IReactorTime) -> None:
        super().__init__(clock)
        self.codes = codes
        self._networks = networks

    def denial(self, request: RemotingCommand, connection: RemotingConnection) -> Denial | None:
        """Why `request` isn't served; None if it is."""
        host = connection.address
        if is_admitted(connection, self._networks):
            return None
        allowed = "this host alone" if self._networks is None else str(self._networks)
        remark = (
            f"request {request.code} changes this server, which is left to {allowed}, not to {host}; "
            "its operator may add networks to adminAllowList"
        )
        return self._refuse(
            host,
            Denial(remark, ResponseCode.NO_PERMISSION),
            "request {code} of {peer} refused: adminAllowList doesn't have its address",
            event="access.admin",
            code=request.code,
            peer=connection.peer,
        )
