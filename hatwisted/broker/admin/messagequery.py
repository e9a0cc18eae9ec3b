"""QUERY_MESSAGE 12: messages by key, from the index.

The index knows hashes of keys and whole seconds, so some of what is found may carry another key: clients
compare the keys themselves. Answers are bounded in messages, as RocketMQ's are, and in bytes, because no client
takes a frame above 16 MiB; the newest come first into the answer and lie in it in log order. A key that many
messages have is looked up in steps, and a client may have a few look-ups under way.
"""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.requests import Walk, answer_in_steps
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.messagestore import MessageStore
from hatwisted.timing.steps import Steps
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import parse_query_message

MAX_MESSAGES = 64
"""In one answer (RocketMQ's maxMsgsNumBatch)."""

UNIQUE_KEY_MESSAGES = 32
"""Asked for by a client's own id there is one message, and others with the same hash (defaultQueryMaxNum)."""

MAX_BYTES = 12 << 20
"""Of records in one answer, but at least one record."""


class MessageQueryProcessor:
    """Answers 12."""

    def __init__(self, clock: IReactorTime, store: MessageStore) -> None:
        self._store = store
        self._steps = Steps(clock, "looking up messages by key")

    def register_on(self, table: ProcessorTable) -> None:
        table.register(RequestCode.QUERY_MESSAGE, answer_in_steps(self._steps, self.query))

    def query(self, _connection: RemotingConnection, request: RemotingCommand) -> Walk:
        header = parse_query_message(request.ext)
        count = min(UNIQUE_KEY_MESSAGES if header.by_unique_key else header.max_num, MAX_MESSAGES)
        index = self._store.index
        offsets: list[int] = []
        if index is not None and count > 0:
            times = header.begin_timestamp, header.end_timestamp
            offsets = yield from index.search(header.topic, header.key, count, *times)
        last = index.files[-1] if offsets and index is not None else None
        answer_ext = {
            "indexLastUpdateTimestamp": str(last.end_timestamp if last is not None else 0),
            "indexLastUpdatePhyoffset": str(last.end_physical if last is not None else 0),
        }
        body = self._records(offsets)
        if not body:
            remark = "can not find message, maybe time range not correct"
            return response(request, ResponseCode.QUERY_NOT_FOUND, remark, ext=answer_ext)
        return response(request, ext=answer_ext, body=body)

    def _records(self, newest_first: list[int]) -> bytes:
        found: list[bytes] = []
        size = 0
        for offset in newest_first:
            record = self._store.look_message(offset)
            if record is None:
                continue
            size += len(record)
            if found and size > MAX_BYTES:
                break
            found.append(record)
        return b"".join(reversed(found))
