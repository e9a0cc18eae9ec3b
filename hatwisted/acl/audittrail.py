"""Who has changed what: a line in the log for each request of `changes`, with a name that stays as it is.

    audit topic.put {"by": "operator", "from": "10.1.2.3:4711", "request": {...}, "before": null, "after": {...}}

What follows the name is JSON in ASCII: names come from the network, and mustn't break a line or a terminal. A
change that couldn't be made has its line too, with the answer's code and remark. Nothing that is secret is in a
request's shown fields or in a state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.acl.account import SECRET_KEY
from hatwisted.config.errors import ConfigError
from hatwisted.remoting.processortable import Handler, ProcessorTable
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

MAX_STATE: Final = 2000
"""Characters of one state, or of all fields of a request, in a line."""

State = Callable[[RemotingCommand], object]
"""What a request is about, as it is now: structs and plain values. ValueError or ConfigError if the request can't
be read."""

Sender = Callable[[RemotingCommand], "str | None"]
"""The account that has signed a request; None if none has."""

_NOT_SHOWN: Final = frozenset((ACCESS_KEY, SIGNATURE, SECURITY_TOKEN, SECRET_KEY))


class AuditTrail:
    """Follows the changes of one server.

    - events: request code -> name of the event
    - states: request code -> what it's about; codes without one are followed without
    - sender: who has made a request
    """

    _log = Logger(namespace="hatwisted.audit")

    def __init__(self, events: Mapping[int, str], states: Mapping[int, State], sender: Sender) -> None:
        self._events = events
        self._states = states
        self._sender = sender

    def follow(self, table: ProcessorTable) -> ProcessorTable:
        """The same handlers, with a line for each change."""
        followed = table.without()
        for code, event in self._events.items():
            handler = table.handlers.get(code)
            if handler is not None:
                followed.register(code, partial(self._handle, event, handler))
        return followed

    def _handle(
        self, event: str, handler: Handler, connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand] | None:
        # Both before the change: it may be about the very account that has signed.
        sender, before = self._sender(request), self._state(request)

        def write(outcome: Mapping[str, object]) -> None:
            fields = {name: text for name, text in request.ext.items() if name not in _NOT_SHOWN}
            line = {"by": sender, "from": connection.peer, "request": _short(fields), **outcome}
            self._log.info("audit {event} {line}", event=event, line=_ascii(line))

        def states() -> Mapping[str, object]:
            return {"before": before, "after": self._state(request)} if request.code in self._states else {}

        def answered(answer: RemotingCommand) -> RemotingCommand:
            write({"failed": answer.code, "remark": answer.remark} if answer.code else states())
            return answer

        def broken(failure: Failure) -> Failure:
            # Nobody knows how far it has come.
            remark = f"{type(failure.value).__name__}: {failure.getErrorMessage()}"
            write({"failed": int(ResponseCode.SYSTEM_ERROR), "remark": remark, **states()})
            return failure

        try:
            answer = handler(connection, request)
        except Exception:
            broken(Failure())
            raise
        if isinstance(answer, Deferred):
            return answer.addCallbacks(answered, broken)
        return None if answer is None else answered(answer)

    def _state(self, request: RemotingCommand) -> object:
        state = self._states.get(request.code)
        try:
            # Taken apart at once: tables change in place.
            return None if state is None else _short(msgspec.to_builtins(state(request)))
        except (ValueError, ConfigError):
            return None


def _short(value: Any) -> object:
    text = _ascii(value)
    return value if len(text) <= MAX_STATE else text[:MAX_STATE] + "..."


def _ascii(value: object) -> str:
    return json.dumps(value).replace("\x7f", "\\u007f")
