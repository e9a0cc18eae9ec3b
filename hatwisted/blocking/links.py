"""One client's connections: one per address, dialled at first use and again after a failure.

A failure drops the connection, so that nothing of the failed exchange is left in it. A server that couldn't be
reached is remembered as dead for a while: a reader that has a second choice tries that first.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Final

from hatwisted.blocking.connection import Clock, Connection
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import CallFailed, Refused
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand

DEAD_FOR: Final = 30.0
"""Seconds for which a server that couldn't be reached is the last choice."""

Sleep = Callable[[float], None]
Connect = Callable[[str, ClusterSettings, ssl.SSLContext | None, Clock], Connection]


class Links:
    """Connections with one cluster's settings, for one thread.

    - settings: of the cluster
    - clock: seconds, monotonic
    - sleep: waits for some seconds
    - connect: opens a connection
    """

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock = time.monotonic,
        sleep: Sleep = time.sleep,
        connect: Connect = Connection,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.sleep = sleep
        self._connect = connect
        self._tls: ssl.SSLContext | None = None if settings.tls is None else settings.tls.context()
        self._open: dict[str, Connection] = {}
        self._dead_until: dict[str, float] = {}

    def close(self) -> None:
        """Close all; a later use dials again."""
        for address in list(self._open):
            self.drop(address)

    def connection(self, address: str) -> Connection:
        """To `address`, open. BrokerGone if it can't be reached."""
        found = self._open.get(address)
        if found is not None and found.has_ended():
            self.drop(address)
            found = None
        if found is None:
            try:
                found = self._connect(address, self.settings, self._tls, self.clock)
            except CallFailed:
                self._dead_until[address] = self.clock() + DEAD_FOR
                raise
            self._dead_until.pop(address, None)
            self._open[address] = found
        return found

    def drop(self, address: str, only: Connection | None = None) -> None:
        """Close the connection to `address`, if there's one; only: and only if it is this one, not a later one."""
        found = self._open.get(address)
        if found is not None and only in (None, found):
            del self._open[address]
            found.close()

    def is_dead(self, address: str) -> bool:
        """Was it found unreachable a short while ago?"""
        return self._dead_until.get(address, 0.0) > self.clock()


def succeeded(address: str, answer: RemotingCommand, what: str) -> RemotingCommand:
    """The answer itself, if its code is SUCCESS; raises Refused otherwise.

    - address: of the server that answered
    - answer: what it sent
    - what: the request, in words, for the error
    """
    if answer.code != ResponseCode.SUCCESS:
        raise Refused.of(address, answer, what)
    return answer
