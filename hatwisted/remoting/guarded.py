"""A table of processors behind a guard: what it refuses is answered, and nobody else sees it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.internet.defer import Deferred

from hatwisted.remoting.server import BatchHandler, Handler, ProcessorTable, RemotingConnection, response
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand

Guard = Callable[[RemotingCommand, str], str | None]
"""`guard(request, peer)`: why the request isn't served, for its sender; None if it is. peer: "address:port"."""


def guarded(table: ProcessorTable, guard: Guard) -> ProcessorTable:
    """A table with the same handlers, each asked only what `guard` lets through."""
    behind = ProcessorTable()
    for code, handler in table.handlers.items():
        behind.register(code, partial(_one, guard, handler))
    # One for all codes of a handler: consecutive requests are a batch as long as their handler is the same.
    batches = {handler: partial(_batch, guard, handler) for handler in table.batch_handlers.values()}
    for code, batch_handler in table.batch_handlers.items():
        behind.register_batch((code,), batches[batch_handler])
    return behind


def _one(
    guard: Guard, handler: Handler, connection: RemotingConnection, request: RemotingCommand
) -> RemotingCommand | Deferred[RemotingCommand] | None:
    refusal = guard(request, connection.peer)
    return handler(connection, request) if refusal is None else _refused(request, refusal)


def _batch(
    guard: Guard, handler: BatchHandler, connection: RemotingConnection, batch: list[RemotingCommand]
) -> None:
    let_in = []
    for request in batch:
        refusal = guard(request, connection.peer)
        if refusal is None:
            let_in.append(request)
        else:
            connection.reply(request, _refused(request, refusal))
    if let_in:
        handler(connection, let_in)


def _refused(request: RemotingCommand, refusal: str) -> RemotingCommand:
    return response(request, ResponseCode.SYSTEM_ERROR, refusal)
