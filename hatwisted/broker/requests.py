"""What the processors of all rooms share: refusals, the answer to a request that can't be understood, and to one
that takes long."""

from __future__ import annotations

from collections.abc import Callable, Generator

import msgspec
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hatwisted.remoting.processortable import Handler, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.timing.steps import Steps, TooMuchWork
from hatwisted.wire import fastjson
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.networks import counted_as
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import BadRequestField


class BadClientData(ValueError):
    """A client's heartbeat can't be understood, or is larger than the limits allow."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is refused: response code and remark for the client."""

    code: int
    remark: str


_Answer = RemotingCommand | Deferred[RemotingCommand]
_CLIENT_ERRORS = (BadRequestField, BadClientData, fastjson.FastjsonError)


def answer_bad_requests(handler: Callable[[RemotingConnection, RemotingCommand], _Answer]) -> Handler:
    """`handler`, with the client's mistakes answered by SYSTEM_ERROR and what is wrong, at once or later."""

    def answer(connection: RemotingConnection, request: RemotingCommand) -> _Answer:
        def refuse(failure: Failure) -> RemotingCommand:
            failure.trap(*_CLIENT_ERRORS)
            return response(request, ResponseCode.SYSTEM_ERROR, failure.getErrorMessage())

        try:
            answered = handler(connection, request)
        except _CLIENT_ERRORS as error:
            return response(request, ResponseCode.SYSTEM_ERROR, str(error))
        return answered.addErrback(refuse) if isinstance(answered, Deferred) else answered

    return answer


Walk = Generator[None, None, RemotingCommand]
"""Work for one request that stops at every millisecond or so, and returns the answer."""


def answer_in_steps(steps: Steps, handler: Callable[[RemotingConnection, RemotingCommand], Walk]) -> Handler:
    """`handler` of requests that look through a great deal: it goes on in `steps`, and is forgotten with its
    client. Who has too many under way is answered SYSTEM_BUSY."""

    def answer(connection: RemotingConnection, request: RemotingCommand) -> Deferred[RemotingCommand]:
        def busy(failure: Failure) -> RemotingCommand:
            failure.trap(TooMuchWork)
            return response(request, ResponseCode.SYSTEM_BUSY, failure.getErrorMessage())

        connection.on_close(steps.forget)
        host = counted_as(connection.address)
        return steps.run(connection, handler(connection, request), host).addErrback(busy)

    return answer_bad_requests(answer)
