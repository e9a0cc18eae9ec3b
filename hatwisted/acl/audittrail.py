"""Who has changed what: a line in the log for each request of `changes`, with a name that stays as it is.

    audit topic.put {"by": "operator", "from": "10.1.2.3:4711", "request": {...}, "before": null, "after": {...}}

What follows the name is JSON in ASCII: names come from the network, and mustn't break a line or a terminal. A
change that couldn't be made has its line too, with the answer's code and remark; so has what an editor has made of
a file, by nobody, from "file". Nothing that is secret is in a request's shown fields or in a state.
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

from hatwisted.config.errors import ConfigError
from hatwisted.remoting.processortable import Handler, ProcessorTable
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

MAX_STATE: Final = 2000
"""Characters of one state, or of all fields of a request, in a line."""

Look = Callable[[], object]
"""Gives what a request is about, as it is at that time: structs and plain values. May raise ValueError or
ConfigError."""

State = Callable[[RemotingCommand], Look]
"""Reads a request once, for a look before the change and one after it. ValueError or ConfigError if it can't be
read."""

Sender = Callable[[RemotingCommand], "str | None"]
"""The account that has signed a request; None if none has."""

_NOT_SHOWN: Final = frozenset((ACCESS_KEY, SIGNATURE, SECURITY_TOKEN))
_HUSHED: Final = ("secret", "password")
"""In a field's name, in any case: a misspelt one is refused, and its value may be a secret all the same."""

_log: Final = Logger(namespace="hatwisted.audit")


def audit_edited(
    event: str, before: Mapping[str, object], after: Mapping[str, object], **more: object
) -> None:
    """The line of what was found changed in a file; none if that is nothing.

    - event: its name
    - before, after: what has changed, and nothing else; without secrets
    - more: what else the line says
    """
    if before or after or any(more.values()):
        _write(event, {"by": None, "from": "file", "before": _short(before), "after": _short(after), **more})


class AuditTrail:
    """Follows the changes of one server.

    - events: request code -> name of the event
    - at_times: the same of requests that have a line only if what they are about was there, and is another then
    - states: request code -> what it's about; codes without one are followed without
    - sender: who has made a request
    """

    def __init__(
        self,
        events: Mapping[int, str],
        at_times: Mapping[int, str],
        states: Mapping[int, State],
        sender: Sender,
    ) -> None:
        self._events = events
        self._at_times = at_times
        self._states = states
        self._sender = sender

    def follow(self, table: ProcessorTable) -> ProcessorTable:
        """The same handlers, with a line for each change."""
        followed = table.without()
        for events, handle in ((self._events, self._handle), (self._at_times, self._watch)):
            for code, event in events.items():
                handler = table.handlers.get(code)
                if handler is not None:
                    followed.register(code, partial(handle, event, handler))
        return followed

    def _handle(
        self, event: str, handler: Handler, connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand] | None:
        # Both before the change: it may be about the very account that has signed.
        sender, look = self._sender(request), self._look(request)
        before = look()
        write = partial(_write_request, event, connection, request, sender)

        def states() -> Mapping[str, object]:
            if request.code not in self._states:
                return {}
            return {"before": _short(before), "after": _short(look())}

        def answered(answer: RemotingCommand) -> RemotingCommand:
            # A change that holds, and isn't in its file or in all places, has a remark, too.
            remark = {} if answer.remark is None else {"remark": answer.remark}
            write({"failed": answer.code, **remark} if answer.code else {**states(), **remark})
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

    def _watch(
        self, event: str, handler: Handler, connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand] | None:
        look = self._look(request)
        before = look()
        if not before:
            return handler(connection, request)

        def answered(answer: RemotingCommand) -> RemotingCommand:
            after = look()
            if after != before:
                states = {"before": _short(before), "after": _short(after)}
                _write_request(event, connection, request, self._sender(request), states)
            return answer

        answer = handler(connection, request)
        if isinstance(answer, Deferred):
            return answer.addCallback(answered)
        return None if answer is None else answered(answer)

    def _look(self, request: RemotingCommand) -> Look:
        """None of it is anything where the request can't be read."""
        state = self._states.get(request.code)
        try:
            look = _nothing if state is None else state(request)
        except (ValueError, ConfigError):
            look = _nothing

        def taken_apart() -> object:
            try:
                return msgspec.to_builtins(look())  # at once: tables change in place
            except (ValueError, ConfigError):
                return None

        return taken_apart


def _nothing() -> None:
    pass


def _write_request(
    event: str,
    connection: RemotingConnection,
    request: RemotingCommand,
    sender: str | None,
    outcome: Mapping[str, object],
) -> None:
    fields = {name: text for name, text in request.ext.items() if _is_shown(name)}
    _write(event, {"by": sender, "from": connection.peer, "request": _short(fields), **outcome})


def _write(event: str, line: Mapping[str, object]) -> None:
    _log.info("audit {event} {line}", event=event, line=_ascii(line))


def _is_shown(field: str) -> bool:
    return field not in _NOT_SHOWN and not any(each in field.lower() for each in _HUSHED)


def _short(value: Any) -> object:
    text = _ascii(value)
    return value if len(text) <= MAX_STATE else text[:MAX_STATE] + "..."


def _ascii(value: object) -> str:
    return json.dumps(value).replace("\x7f", "\\u007f")
