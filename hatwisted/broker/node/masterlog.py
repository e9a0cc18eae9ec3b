"""What a slave asks its master about the log, by requests: the HA link has no words for it.

Two logs that have grown apart fit together as long as their offsets do, and a slave would copy on into a log that
is neither the one nor the other (B140). So before it joins, a slave compares the last record that it has with what
the master has at that offset: VIEW_MESSAGE_BY_ID 33, which RocketMQ's masters answer as well. Where that can't be
asked or isn't answered, it joins as RocketMQ's slaves do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks
from zope.interface import implementer

from hatwisted.ha.interfaces import IMasterLog
from hatwisted.remoting.client import RemotingClient
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.layout import QUEUE_ENTRY
from hatwisted.wire.remoting import RemotingCommand

TIMEOUT = 3.0
"""Seconds for an answer."""

NOT_THERE = "can not find message"
"""What both makes say of an offset where no record begins; any other refusal doesn't tell."""


@implementer(IMasterLog)
class MasterLog:
    """A master's log, from afar. store: ours; address: the master's remoting port at present."""

    def __init__(self, client: RemotingClient, store: MessageStore, address: Callable[[], str]) -> None:
        self._client = client
        self._store = store
        self._address = address

    def bounds(self) -> Deferred[tuple[int, int]]:
        """Its first offset and its end, from the master's runtime info; may fail."""
        info = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
        return self._client.ask(self._address(), info, TIMEOUT).addCallback(log_bounds)

    @inlineCallbacks
    def difference(self) -> Generator[Deferred[Any], Any, str | None]:
        """Why our log isn't a beginning of the master's; None if it is, or if that can't be told. May fail."""
        offset = last_offset(self._store.queues)
        record = None if offset is None else self._store.look_message(offset)
        if offset is None or record is None:
            return None
        oldest, end = yield self.bounds()
        if not oldest <= offset <= end - len(record):
            return None  # the bounds are told apart elsewhere, with what can be done about them
        request = RemotingCommand(RequestCode.VIEW_MESSAGE_BY_ID, ext={"offset": str(offset)})
        answer: RemotingCommand = yield self._client.call(self._address(), request, TIMEOUT)
        if answer.code == ResponseCode.SUCCESS:
            same = answer.body == record
        else:
            same = NOT_THERE not in (answer.remark or "")
        if same:
            return None
        return f"our last record, at offset {offset}, isn't in the master's log: the two have diverged"


def last_offset(queues: ConsumeQueueTable) -> int | None:
    """Offset of the last record that is in a queue; None without any."""
    end = queues.max_physical
    for queue in queues:
        if end and queue.max_physical == end and queue.max_offset > queue.min_offset:
            entry = queue.read(queue.max_offset - 1, 1)
            return int(QUEUE_ENTRY.unpack(entry)[0]) if entry else None
    return None


def log_bounds(answer: RemotingCommand) -> tuple[int, int]:
    """First offset and end of the log of a broker that answers GET_BROKER_RUNTIME_INFO."""
    table = fastjson.loads(answer.body)["table"]
    return int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
