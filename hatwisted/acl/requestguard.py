"""Who is let in: the question that a server asks about each request before anybody answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.acl.accounts import AccessDenied, Accounts, NotSigned, access_key_of, drop_texts
from hatwisted.acl.failedlogins import NOBODY, FailedLogins
from hatwisted.acl.needs import Rule
from hatwisted.acl.refusals import RefusingGuard
from hatwisted.remoting.guarded import Denial
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.fastjson import FastjsonError
from hatwisted.wire.remoting import RemotingCommand

_BUSY: Final = "system busy: too many wrong signatures have come from your address"

_JAVA_NAME: Final = "org.apache.rocketmq.acl.common.AclException"
"""How a RocketMQ broker begins such an answer, by which tools know it."""


class RequestGuard(RefusingGuard):
    """A server's guard.

    - accounts: the accounts as they are now
    - clock: of the log's throttle
    - also: request code -> what such a request takes by what this server knows
    - tries: failures of addresses; None: they may have any number
    """

    _log = Logger()

    def __init__(
        self,
        accounts: Callable[[], Accounts],
        clock: IReactorTime,
        also: Mapping[int, Rule] | None = None,
        tries: FailedLogins | None = None,
    ) -> None:
        super().__init__(clock)
        self._accounts = accounts
        self._also = also or {}
        self._tries = tries
        self._proved: dict[RemotingConnection, str | None] = {}
        """Connections on which an account has signed rightly, and the first that has; NOBODY for those on which
        somebody has failed, who may have sent a recorded request before."""

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
        tries = self._tries
        denials: list[Denial | None] = []
        index = 0
        # While it's late, each is looked at by itself.
        late = tries is not None and tries.late(host)
        while index < len(requests):
            if not late and (index := accounts.let_in(requests, index)) == len(requests):
                break
            request = requests[index]
            if late and self._tried_enough(request, connection, accounts):
                denial: Denial | None = Denial(_BUSY, ResponseCode.SYSTEM_BUSY)
            else:
                denial = self._looked_at(request, connection, accounts)
            if denial is not None:
                denials += [None] * (index - len(denials))
                denials.append(denial)
                late = tries is not None and tries.late(host)
            index += 1
        if denials:
            return denials + [None] * (len(requests) - len(denials))
        if tries is not None and not late and connection not in self._proved and requests:
            self._prove(connection, access_key_of(requests[-1]))
        return ()

    def _prove(self, connection: RemotingConnection, account: str | None) -> None:
        self._proved[connection] = account
        connection.on_close(self._forget)

    def _forget(self, connection: RemotingConnection) -> None:
        self._proved.pop(connection, None)

    def _tried_enough(
        self, request: RemotingCommand, connection: RemotingConnection, accounts: Accounts
    ) -> bool:
        """Has its address failed so often that this one isn't looked at?"""
        named = access_key_of(request)
        if self._tries is None or named is None or self._proved.get(connection) == named:
            return False
        return self._tries.refuses(connection.address, named if named in accounts else NOBODY)

    def _looked_at(
        self, request: RemotingCommand, connection: RemotingConnection, accounts: Accounts
    ) -> Denial | None:
        try:
            accounts.check_sender(request, connection.address, self._also.get(request.code))
        except (AccessDenied, FastjsonError) as error:
            if self._tries is not None and isinstance(error, NotSigned):
                named = access_key_of(request) or NOBODY
                self._tries.failed(connection.address, named if named in accounts else NOBODY)
                self._prove(connection, NOBODY)
            return self._denied(request, connection, error)
        return None

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
