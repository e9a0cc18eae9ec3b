"""Request code -> who answers it, and the answer itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from hatwisted.wire.bodylimits import body_limit
from hatwisted.wire.codes import FLAG_RESPONSE, ResponseCode
from hatwisted.wire.remoting import RemotingCommand

if TYPE_CHECKING:
    from hatwisted.remoting.server import RemotingConnection

Handler = Callable[
    ["RemotingConnection", RemotingCommand], "RemotingCommand | Deferred[RemotingCommand] | None"
]
BatchHandler = Callable[["RemotingConnection", list[RemotingCommand]], None]


def response(
    request: RemotingCommand,
    code: int = ResponseCode.SUCCESS,
    remark: str | None = None,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """An answer in its request's serialisation, with its opaque.

    - request: what is answered
    - code: a ResponseCode
    - remark: text for people
    - ext: the answer's extFields
    - body: its bytes
    """
    return RemotingCommand(
        code=int(code),
        opaque=request.opaque,
        flag=FLAG_RESPONSE,
        remark=remark,
        ext=ext or {},
        body=body,
        binary=request.binary,
    )


class ProcessorTable:
    """Request code -> who answers it."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.batch_handlers: dict[int, BatchHandler] = {}
        self.unserved: Handler = _unserved
        """Answers requests of other codes, and those with too much of a body."""

    def register(self, code: int, handler: Handler) -> None:
        """One request, one answer (or a Deferred, or None when the handler answers by itself)."""
        self.handlers[int(code)] = handler

    def register_batch(self, codes: Iterable[int], handler: BatchHandler) -> None:
        """All consecutive requests of a read with one of `codes`; the handler answers each by itself."""
        for code in codes:
            self.batch_handlers[int(code)] = handler

    def joined(self, other: ProcessorTable) -> ProcessorTable:
        """A copy with the handlers of `other` besides."""
        copy = ProcessorTable()
        copy.handlers = self.handlers | other.handlers
        copy.batch_handlers = self.batch_handlers | other.batch_handlers
        return copy

    def without(self, *codes: int) -> ProcessorTable:
        """A copy that doesn't serve `codes` (the VIP port serves no pulls)."""
        copy = ProcessorTable()
        dropped = {int(code) for code in codes}
        copy.handlers = {code: handler for code, handler in self.handlers.items() if code not in dropped}
        copy.batch_handlers = {
            code: handler for code, handler in self.batch_handlers.items() if code not in dropped
        }
        copy.unserved = self.unserved
        return copy


def _unserved(connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
    if request.code not in connection.factory.table.handlers:
        remark = f" request type {request.code} not supported"
        return response(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
    remark = f"{len(request.body)} bytes of body, {body_limit(request.code)} are allowed"
    return response(request, ResponseCode.SYSTEM_ERROR, remark)
