"""Who is let in: the question that a server asks about each request before anybody answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.acl.accounts import AccessDenied, Accounts, drop_texts
from hatwisted.acl.needs import Rule
from hatwisted.acl.refusals import RefusingGuard
from hatwisted.remoting.guarded import Denial
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.fastjson import FastjsonError
from hatwisted.wire.remoting import RemotingCommand

_JAVA_NAME: Final = "org.apache.rocketmq.acl.common.AclException"
"""How a RocketMQ broker begins such an answer, by which tools know it."""


class RequestGuard(RefusingGuard):
    """A server's guard.

    - accounts: the accounts as they are now
    - clock: of the log's throttle
    - also: request code -> what such a request takes by what this server knows
    """

    _log = Logger()

    def __init__(
        self,
        accounts: Callable[[], Accounts],
        clock: IReactorTime,
        also: Mapping[int, Rule] | None = None,
    ) -> None:
        super().__init__(clock)
        self._accounts = accounts
        self._also = also or {}

    def denial(self, request: RemotingCommand, connection: RemotingConnection) -> Denial | None:
        """Why `request` isn't served; None if it is."""
        denials = self.denials([request], connection)
        return denials[0] if denials else None

    def denials(
        self, requests: Sequence[RemotingCommand], connection: RemotingConnection
    ) -> Sequence[Denial | None]:
        """The same of each request of a batch; nothing at all if all of them are served."""
        accounts, host = self._accounts(), connection.address
        if accounts.trusts(host):
            drop_texts(requests)
            return ()
        denials: list[Denial | None] = []
        index = 0
        while (index := accounts.let_in(requests, index)) < len(requests):
            request = requests[index]
            try:
                accounts.check_sender(request, host, self._also.get(request.code))
            except (AccessDenied, FastjsonError) as error:
                denials += [None] * (index - len(denials))
                denials.append(self._denied(request, connection, error))
            index += 1
        return denials and denials + [None] * (len(requests) - len(denials))

    def _denied(self, request: RemotingCommand, connection: RemotingConnection, error: Exception) -> Denial:
        return self._refuse(
            connection.address,
            Denial(f"{_JAVA_NAME}: {error}"),
            "request {code} of {peer} refused: {error}",
            event="access.refused",
            code=request.code,
            peer=connection.peer,
            error=error,
        )
