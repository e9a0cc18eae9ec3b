"""What the processors of all rooms share: refusals, and the answer to a request that can't be understood."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hatwisted.remoting.server import Handler, RemotingConnection, response
from hatwisted.wire import fastjson
from hatwisted.wire.codes import ResponseCode
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
