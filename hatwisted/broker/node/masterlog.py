"""What a slave asks its master about the log, by requests: the HA link has no words for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred
from zope.interface import implementer

from hatwisted.config.javaproperties import parse_properties
from hatwisted.ha.interfaces import IMasterLog
from hatwisted.remoting.client import RemotingClient
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand

TIMEOUT = 3.0
"""Seconds for an answer."""


@implementer(IMasterLog)
class MasterLog:
    """A master's log, from afar. address: the master's remoting port at present."""

    def __init__(self, client: RemotingClient, address: Callable[[], str]) -> None:
        self._client = client
        self._address = address

    def runtime(self) -> Deferred[Mapping[str, str]]:
        """The master's runtime info; may fail."""
        info = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
        return self._client.ask(self._address(), info, TIMEOUT).addCallback(_runtime_table)

    def config(self) -> Deferred[Mapping[str, str]]:
        """The master's configuration; may fail: with accounts, only administrators are told."""
        asked = RemotingCommand(RequestCode.GET_BROKER_CONFIG)
        return self._client.ask(self._address(), asked, TIMEOUT).addCallback(_properties)

    def bounds(self) -> Deferred[tuple[int, int]]:
        """Its first offset and its end, from the master's runtime info; may fail."""
        info = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
        return self._client.ask(self._address(), info, TIMEOUT).addCallback(log_bounds)


def log_bounds(answer: RemotingCommand) -> tuple[int, int]:
    """First offset and end of the log of a broker that answers GET_BROKER_RUNTIME_INFO. Raises ValueError."""
    table = _runtime_table(answer)
    return int(table.get("commitLogMinOffset", "")), int(table.get("commitLogMaxOffset", ""))


def _runtime_table(answer: RemotingCommand) -> Mapping[str, str]:
    """Raises ValueError: a traceback in the log for what a master says would be one in each round."""
    info = fastjson.loads(answer.body)
    table = info.get("table") if isinstance(info, dict) else None
    if not isinstance(table, dict):
        raise ValueError("its runtime info has no table")
    return {str(name): str(value) for name, value in table.items()}


def _properties(answer: RemotingCommand) -> Mapping[str, str]:
    return {entry.key: entry.value for entry in parse_properties(answer.body, "the master's answer")}
