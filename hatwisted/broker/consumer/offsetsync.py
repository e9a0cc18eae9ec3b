"""Progress that flows back: what consumers committed to a slave reaches its master again (B162).

While a master is down its slave takes commits. RocketMQ overwrites them at the next sync after the master's
return; here the slave asks for the master's table as RocketMQ's slaves do (GET_ALL_CONSUMER_OFFSET 43), with
one more field, `joinsOffsets=true`. A master of ours answers with the same field and with its resets; both
sides then have what it takes to join tables (see `offsets`). The slave joins the answer with its own table and
sends what it knows better with JOIN_CONSUMER_OFFSET, a code of ours that no other broker is ever sent. A
RocketMQ master ignores the field and answers without it, and its slave overwrites as RocketMQ's do; a
RocketMQ slave never sends it and gets the plain table.

Nothing is kept about the exchange: it begins again with every round, so a crash of either side at any moment
costs a round, and a refused or lost message is sent again with the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from twisted.logger import Logger

from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.progressbody import WHOLE_ROW, Progress, parse_progress
from hatwisted.broker.consumer.staleoffsets import StaleOffsets
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire import fastjson
from hatwisted.wire.codes import V5_0_0, RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand

JOINS = "joinsOffsets"
"""ext field of request and answer: this broker joins tables."""

SLAVE_ID, SLAVE_ADDRESS = "slaveId", "slaveAddress"
"""More ext fields of a slave's request: who asks."""

FLUSH_OFFSET = "masterFlushOffset"
"""ext field of a master's answer: how far its log is on its disk."""

MAX_ADDRESS = 255
"""Characters of an address that a slave may call itself by."""

MAX_ROWS = 2000
"""Rows (topics of groups) in one JOIN_CONSUMER_OFFSET."""

MAX_PART = 256 << 10
"""Bytes of one JOIN_CONSUMER_OFFSET, about: it's read in one go, and has to be far below what `wire.bodylimits`
lets in."""

_PAIR_BYTES = 56
"""A queue's part of that at most: offset and time of the last reset."""


class OffsetSyncProcessors:
    """GET_ALL_CONSUMER_OFFSET on every broker, JOIN_CONSUMER_OFFSET on masters alone.

    - offsets: the table
    - topics: what isn't one of their queues has no progress
    - stale: which of a slave's offsets are left out. This master may have lost messages that its slave still
      knows, and a consumer sent there would skip what is stored instead
    - flushed_offset: how far this broker's log is on its disk
    - asked: called with (id, address, host) of each slave that says who it is
    - may_reset: may what this connection says take progress back, or delete it?
    """

    _log = Logger()

    def __init__(
        self,
        offsets: ConsumerOffsetTable,
        topics: TopicConfigTable,
        stale: StaleOffsets,
        flushed_offset: Callable[[], int],
        asked: Callable[[int, str, str], None],
        may_reset: Callable[[RemotingConnection], bool],
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._stale = stale
        self._flushed_offset = flushed_offset
        self._asked = asked
        self._may_reset = may_reset

    def register_on(self, table: ProcessorTable) -> None:
        """Put what every broker answers into `table`."""
        table.register(RequestCode.GET_ALL_CONSUMER_OFFSET, self.all_offsets)

    def register_join_on(self, table: ProcessorTable) -> None:
        """Put what only a master answers into `table`."""
        table.register(RequestCode.JOIN_CONSUMER_OFFSET, answer_bad_requests(self.join))

    def all_offsets(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        joins = joins_offsets(request)
        body = self._offsets.encode_compact(with_version=request.version >= V5_0_0, with_resets=joins)
        if not joins:
            return response(request, body=body)
        self._note_slave(connection, request)
        return response(request, ext={JOINS: "true", FLUSH_OFFSET: str(self._flushed_offset())}, body=body)

    def _note_slave(self, connection: RemotingConnection, request: RemotingCommand) -> None:
        number, address = request.ext.get(SLAVE_ID, ""), request.ext.get(SLAVE_ADDRESS, "")
        if number.isascii() and number.isdigit() and len(number) < 20 and 0 < len(address) <= MAX_ADDRESS:
            self._asked(int(number), address, connection.peer.rpartition(":")[0])

    def join(self, connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
        try:
            theirs = parse_progress(request.body, fastjson.loads_request)
        except ValueError as error:
            return response(request, ResponseCode.SYSTEM_ERROR, str(error))
        if len(theirs.offset_table) > MAX_ROWS or len(theirs.reset_table) > MAX_ROWS:
            remark = f"consumer offsets of more than {MAX_ROWS} groups' topics in one request"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        left_out = self._judge_resets(connection, theirs)
        self._offsets.join(theirs, self._accepts)
        return response(request, remark=left_out)

    def _judge_resets(self, connection: RemotingConnection, theirs: Progress) -> str | None:
        """Resets outrank all commits, so they count from slaves alone; `theirs` loses them otherwise. Returns what
        the answer says of it."""
        rows = len(theirs.reset_table)
        if not rows:
            return None
        if self._may_reset(connection):
            self._log.info(
                "slave {peer} told of resets of {count} groups' topics", peer=connection.peer, count=rows
            )
            return None
        theirs.reset_table = {}
        return (
            f"resets of {rows} groups' topics are left out: they are taken from linked slaves, and from where "
            "this broker is administered (adminAllowList)"
        )

    def _accepts(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Of a queue that can't be, nothing is believed."""
        config = self._topics.get(topic)
        if config is None or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            return False
        return self._stale.believed(group, topic, queue_id, offset)


def joins_offsets(command: RemotingCommand) -> bool:
    """Does the sender of this request or answer join tables?"""
    return command.ext.get(JOINS) == "true"


def asking_slave(broker_id: int, address: str) -> dict[str, str]:
    """The ext fields of a slave of ours that asks; address: "host:port" as registered."""
    return {JOINS: "true", SLAVE_ID: str(broker_id), SLAVE_ADDRESS: address}


def flush_offset_of(answer: RemotingCommand) -> int:
    """How far the log of the master that answers is on its disk; 0 if it doesn't say."""
    text = answer.ext.get(FLUSH_OFFSET, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def parts(progress: Progress) -> Iterator[Progress]:
    """The table in pieces of at most MAX_ROWS, and of about MAX_PART bytes."""
    part, room = Progress(offset_table={}), MAX_PART
    for key in dict.fromkeys((*progress.offset_table, *progress.reset_table)):
        size = len(fastjson.dumps_compact(key))
        for row, resets in _pieces(progress, key):
            wanted = size + _PAIR_BYTES * max(len(row), len(resets))
            rows = part.offset_table.keys() | part.reset_table.keys()
            if rows and (wanted > room or key in rows or len(rows) >= MAX_ROWS):
                yield part
                part, room = Progress(offset_table={}), MAX_PART
            if row:
                part.offset_table[key] = row
            if resets:
                part.reset_table[key] = resets
            room -= wanted
    if part.offset_table or part.reset_table:
        yield part


def _pieces(progress: Progress, key: str) -> Iterator[tuple[dict[int, int], dict[int, int]]]:
    """A row of both tables, some queues at a time, each with what is known of its resets."""
    queues, resets = iter(progress.offset_table.get(key, {}).items()), progress.reset_table.get(key, {})
    if key not in progress.offset_table:
        yield {}, resets
    while row := dict(islice(queues, MAX_PART // _PAIR_BYTES // 2)):
        yield row, {queue: resets[queue] for queue in (*row, WHOLE_ROW) if queue in resets}
