"""How many requests, and bytes of them, an address or an account may have served in a second.

Beyond that the answer is SYSTEM_BUSY, at once: a client that is told goes slower, one that is left waiting asks
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.acl.accounts import Accounts, access_key_of
from hatwisted.acl.refusals import RefusingGuard
from hatwisted.remoting.guarded import Denial
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.ratelimit import RateLimit
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.networks import counted_as
from hatwisted.wire.remoting import RemotingCommand

Source = Callable[[RemotingCommand, RemotingConnection], str]
"""Whose a request is."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Per second; 0: any number.

    - requests: of any kind
    - whole_bytes: of their frames, headers included; their ports have to keep sizes (`PortOptions`)
    """

    requests: int = 0
    whole_bytes: int = 0

    def __bool__(self) -> bool:
        """Is there a limit?"""
        return bool(self.requests or self.whole_bytes)


class RateGuard(RefusingGuard):
    """Refuses what is too much.

    - rates: of one source
    - source: whose a request is
    - clock: of the rates and of the log's throttle
    """

    _log = Logger()

    def __init__(self, rates: Rates, source: Source, clock: IReactorTime) -> None:
        super().__init__(clock)
        self._source = source
        self._requests = RateLimit(clock, rates.requests) if rates.requests else None
        self._bytes = RateLimit(clock, rates.whole_bytes) if rates.whole_bytes else None

    def denial(self, request: RemotingCommand, connection: RemotingConnection) -> Denial | None:
        """Why `request` isn't served; None if it is."""
        source = self._source(request, connection)
        if self._requests is not None and not self._requests.admits(source):
            return self._deny(source, f"{self._requests.rate} requests")
        if self._bytes is not None and not self._bytes.admits(source, connection.size_of(request)):
            return self._deny(source, f"{self._bytes.rate} bytes")
        return None

    def _deny(self, source: str, limit: str) -> Denial:
        return self._refuse(
            source,
            Denial(f"system busy: {source} may have {limit} a second", ResponseCode.SYSTEM_BUSY),
            "{source} asks for more than {limit} a second",
            event="access.rate",
            source=source,
            limit=limit,
        )


def by_address(_request: RemotingCommand, connection: RemotingConnection) -> str:
    """The client's address, or its network."""
    return counted_as(connection.address)


def by_account(accounts: Callable[[], Accounts]) -> Source:
    """The account that has signed; addresses that needn't sign count by themselves, whatever account they name: it
    would pay for them. accounts: as they are now."""

    def source(request: RemotingCommand, connection: RemotingConnection) -> str:
        named = access_key_of(request)
        return (
            counted_as(connection.address)
            if named is None or accounts().trusts(connection.address)
            else named
        )

    return source
