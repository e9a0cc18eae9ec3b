"""The connections of one reader: one per address, dialled at first use and again after a failure.

Whoever fails drops the connection, so that nothing of the failed talk is left in it. A server that couldn't be
reached is remembered as dead for a while: a reader with a second choice takes that first.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from hatwisted.blocking.connection import MAX_IN_FLIGHT, Clock, Connection
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import CallFailed, ClientError, Refused
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds before the next round after one in which no server could help; doubled with each."""
DEAD_FOR: Final = 30.0
"""Seconds that a server which couldn't be reached is the last choice."""

Sleep = Callable[[float], None]


class Links:
    """Connections with one cluster's settings, for one thread.

    - settings: of the cluster
    - clock: seconds, monotonic
    - sleep: waits for some seconds
    """

    def __init__(
        self, settings: ClusterSettings, clock: Clock = time.monotonic, sleep: Sleep = time.sleep
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._sleep = sleep
        self._tls: ssl.SSLContext | None = None if settings.tls is None else settings.tls.context()
        self._open: dict[str, Connection] = {}
        self._dead_until: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all; a later use dials again."""
        for address in list(self._open):
            self.drop(address)

    def connection(self, address: str) -> Connection:
        """To `address`, open. BrokerGone if it can't be reached."""
        found = self._open.get(address)
        if found is None:
            try:
                found = Connection(address, self.settings, self._tls, self.clock)
            except CallFailed:
                self._dead_until[address] = self.clock() + DEAD_FOR
                raise
            self._dead_until.pop(address, None)
            self._open[address] = found
        return found

    def drop(self, address: str, only: Connection | None = None) -> None:
        """Close the connection to `address`, if there's one; only: if it's this one and no later one."""
        found = self._open.get(address)
        if found is not None and only in (None, found):
            del self._open[address]
            found.close()

    def is_dead(self, address: str) -> bool:
        """Was it tried in vain a short while ago?"""
        return self._dead_until.get(address, 0.0) > self.clock()

    def call(self, address: str, request: RemotingCommand) -> RemotingCommand:
        """The answer, whatever its code. BrokerGone or BadAnswer if there's none."""
        return self.call_all(address, [request])[0]

    def call_all(self, address: str, requests: Sequence[RemotingCommand]) -> list[RemotingCommand]:
        """The answers to `requests`, in their order; many are under way at once."""
        connection = self.connection(address)
        answers: list[RemotingCommand] = []
        numbers: list[int] = []
        try:
            for request in requests:
                if len(numbers) - len(answers) == MAX_IN_FLIGHT:
                    answers.append(connection.answer(numbers[len(answers)]))
                numbers.append(connection.post(request))
            answers += [connection.answer(number) for number in numbers[len(answers) :]]
        except ClientError:
            self.drop(address)
            raise
        return answers

    def pause(self, tried: int) -> None:
        """Wait after the round `tried` (from 0) in which no server could help."""
        self.pause_for(min(FIRST_PAUSE * 2 ** min(tried, 16), LONGEST_PAUSE))

    def pause_for(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)


def succeeded(address: str, answer: RemotingCommand, what: str) -> RemotingCommand:
    """The answer itself, if its code is SUCCESS; raises Refused otherwise.

    - address: of the server that answered
    - answer: what it sent
    - what: the request, in words, for the error
    """
    if answer.code != ResponseCode.SUCCESS:
        raise Refused.of(address, answer, what)
    return answer
