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

from hatwisted.acl.account import SECRET_KEY
from hatwisted.config.errors import ConfigError
from hatwisted.remoting.server import Handler, ProcessorTable, RemotingConnection
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
        before = self._state(request)
        answer = handler(connection, request)
        if isinstance(answer, Deferred):
            return answer.addCallback(self._write, event, connection.peer, request, before)
        return None if answer is None else self._write(answer, event, connection.peer, request, before)

    def _write(
        self, answer: RemotingCommand, event: str, peer: str, request: RemotingCommand, before: object
    ) -> RemotingCommand:
        line: dict[str, object] = {
            "by": self._sender(request),
            "from": peer,
            "request": _short({name: text for name, text in request.ext.items() if name not in _NOT_SHOWN}),
        }
        if answer.code:
            line |= {"failed": answer.code, "remark": answer.remark}
        elif request.code in self._states:
            line |= {"before": before, "after": self._state(request)}
        self._log.info("audit {event} {line}", event=event, line=_ascii(line))
        return answer

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
