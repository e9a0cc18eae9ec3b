"""How often each request was asked."""

from __future__ import annotations

from collections import Counter
from functools import partial

from twisted.internet.defer import Deferred

from hatwisted.remoting.processortable import Handler, ProcessorTable
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.remoting import RemotingCommand


class RequestCounts:
    """Of one server whose requests are answered one by one: request code -> how many came."""

    def __init__(self) -> None:
        self.of: Counter[int] = Counter()

    def follow(self, table: ProcessorTable) -> ProcessorTable:
        """The same handlers, counted. Codes that nobody answers aren't, so there are as many as handlers."""
        counted = table.without()
        for code, handler in table.handlers.items():
            counted.register(code, partial(self._count, handler))
        return counted

    def _count(
        self, handler: Handler, connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand] | None:
        self.of[request.code] += 1
        return handler(connection, request)
