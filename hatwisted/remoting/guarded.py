"""A table of processors behind a guard: what it refuses is answered, and nobody else sees it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred

from hatwisted.remoting.processortable import BatchHandler, Handler, ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand


class Denial(NamedTuple):
    """Why a request isn't served, for its sender. code: a ResponseCode."""

    remark: str
    code: int = ResponseCode.SYSTEM_ERROR


class Guard(Protocol):
    """Decides."""

    def denial(self, request: RemotingCommand, connection: RemotingConnection) -> Denial | None:
        """Why a request isn't served; None if it is."""

    def denials(
        self, requests: Sequence[RemotingCommand], connection: RemotingConnection
    ) -> Sequence[Denial | None]:
        """The same of each request of a batch; nothing at all if all of them are served."""


def guarded(
    table: ProcessorTable, guard: Guard, codes: Collection[int] | None = None, *, unserved: bool = False
) -> ProcessorTable:
    """A table with the same handlers, asked only what `guard` lets through.

    - table: the handlers
    - guard: who decides
    - codes: of the requests that it decides about; None: about all
    - unserved: does it decide about requests, too, that no handler is asked?
    """
    behind = table.without()
    if unserved:
        behind.unserved = partial(_one, guard, table.unserved)
    for code, handler in table.handlers.items():
        if codes is None or code in codes:
            behind.register(code, partial(_one, guard, handler))
    # One for all codes of a handler: consecutive requests are a batch as long as their handler is the same.
    batches = {handler: partial(_batch, guard, handler) for handler in table.batch_handlers.values()}
    for code, batch_handler in table.batch_handlers.items():
        if codes is None or code in codes:
            behind.register_batch((code,), batches[batch_handler])
    return behind


def _one(
    guard: Guard, handler: Handler, connection: RemotingConnection, request: RemotingCommand
) -> RemotingCommand | Deferred[RemotingCommand] | None:
    denial = guard.denial(request, connection)
    return handler(connection, request) if denial is None else _denied(request, denial)


def _batch(
    guard: Guard, handler: BatchHandler, connection: RemotingConnection, batch: list[RemotingCommand]
) -> None:
    denials = guard.denials(batch, connection)
    if denials:
        let_in = []
        for request, denial in zip(batch, denials, strict=True):
            if denial is None:
                let_in.append(request)
            else:
                connection.reply(request, _denied(request, denial))
        batch = let_in
    if batch:
        handler(connection, batch)


def _denied(request: RemotingCommand, denial: Denial) -> RemotingCommand:
    return response(request, denial.code, denial.remark)
