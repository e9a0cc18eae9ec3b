"""Who is let in: the question that a server asks about each request before anybody answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.acl.accounts import AccessDenied, Accounts
from hatwisted.remoting.guarded import Denial
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.fastjson import FastjsonError
from hatwisted.wire.remoting import RemotingCommand

_JAVA_NAME: Final = "org.apache.rocketmq.acl.common.AclException"
"""How a RocketMQ broker begins such an answer, by which tools know it."""


class RequestGuard:
    """A server's guard.

    - accounts: the accounts as they are now
    - clock: of the log's throttle
    """

    _log = Logger()

    def __init__(self, accounts: Callable[[], Accounts], clock: IReactorTime) -> None:
        self.denied_total = 0
        self._accounts = accounts
        self._throttle = LogThrottle(clock)

    def denial(self, request: RemotingCommand, connection: RemotingConnection) -> Denial | None:
        """Why `request` isn't served; None if it is."""
        host = connection.address
        try:
            self._accounts().check(request, host)
        except (AccessDenied, FastjsonError) as error:
            self.denied_total += 1
            left_out = self._throttle.admit(host)
            if left_out is not None:
                self._log.warn(
                    "request {code} of {peer} refused: {error}{more}",
                    event="access.refused",
                    code=request.code,
                    peer=connection.peer,
                    error=error,
                    more=more_like_it(left_out),
                )
            return Denial(f"{_JAVA_NAME}: {error}")
        return None
