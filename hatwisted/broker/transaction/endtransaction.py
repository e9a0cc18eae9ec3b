"""END_TRANSACTION (37): a producer commits a half message or rolls it back.

A commit puts a copy into the real queue and, when that is stored, the op record; a crash in between leaves the
half undecided, so its producer is asked again and consumers may see the message twice, never not at all.
Rejected: both in one append, which could store the op of a copy that is refused.

The answer comes when copy and op are as safe as the flush and replication mode says, and with the codes of a send
otherwise. (RocketMQ answers after the append; its producers don't ask for an answer.)

A producer's own word and its answer to a check may both arrive. The half offsets decided last are remembered,
so the second one stores nothing and is answered as the first was (RocketMQ 4.9.7 delivers such a message twice).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.acl.needs import Need, publishing
from hatwisted.broker.put.innerput import STOPPING, InnerPuts
from hatwisted.broker.put.responsecode import response_code
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.broker.transaction.halfmessages import HALF_QUEUE, committed, half_destination, op_message
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.log.put import STORED, Put, PutStatus
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire import layout
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.properties import NoDestination
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import BadRequestField, int_field, long_field, text_field
from hatwisted.wire.storedrecord import Record

MAX_REMEMBERED = 100_000
"""Half offsets whose decision is remembered (about 100 bytes each): minutes of a busy producer."""

_DECISIONS = frozenset(
    (layout.SYS_TRANSACTION_NONE, layout.SYS_TRANSACTION_COMMIT, layout.SYS_TRANSACTION_ROLLBACK)
)

Answer = RemotingCommand | Deferred[RemotingCommand] | None


class Outcome(NamedTuple):
    """What the end of a transaction came to. stored: is there an op with the decision?"""

    code: int
    remark: str | None
    stored: bool


BEING_ENDED = Outcome(ResponseCode.SYSTEM_BUSY, "this transaction is just being ended", False)
"""The answer to a second end of a transaction while the first isn't safe yet."""


class EndTransaction(msgspec.Struct, frozen=True):
    """half_offset: in the half queue; log_offset: of the half's record; decision: a SYS_TRANSACTION_*."""

    group: str
    half_offset: int
    log_offset: int
    decision: int


def parse_end_transaction(request: RemotingCommand) -> EndTransaction:
    """The header of a 37; raises BadRequestField."""
    ext = request.ext
    decision = int_field(ext, "commitOrRollback")
    if decision not in _DECISIONS:
        raise BadRequestField("commitOrRollback", str(decision))
    return EndTransaction(
        group=text_field(ext, "producerGroup"),
        half_offset=long_field(ext, "tranStateTableOffset"),
        log_offset=long_field(ext, "commitLogOffset"),
        decision=decision,
    )


class EndTransactionProcessor:
    """Answers 37 on a master.

    - clock: dates the ends
    - store: has the halves
    - puts: store what is decided
    - topics: where committed messages go
    - state: may clients send at present?
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        store: MessageStore,
        puts: InnerPuts,
        topics: TopicConfigTable,
        state: SendState,
    ) -> None:
        self._clock = clock
        self._store = store
        self._puts = puts
        self._topics = topics
        self._decided: OrderedDict[int, Outcome | None] = OrderedDict()
        """How the end of a half was answered, None while its puts are open."""
        self._state = state

    def register_on(self, table: ProcessorTable) -> None:
        """Put the handler into `table`."""
        table.register(RequestCode.END_TRANSACTION, answer_bad_requests(cast(Any, self.end)))

    def end(self, _connection: RemotingConnection, request: RemotingCommand) -> Answer:
        header = parse_end_transaction(request)
        if header.decision == layout.SYS_TRANSACTION_NONE:
            return None  # undecided: the producer is asked later
        if self._state.stopping:  # the producer is asked again by whoever is master next
            return response(request, ResponseCode.SERVICE_NOT_AVAILABLE, STOPPING)
        half = self._store.record_at(header.log_offset)
        problem = _problem(header, half)
        if half is None or problem:
            return response(request, ResponseCode.SYSTEM_ERROR, problem)
        if header.half_offset in self._decided:
            return _answer(request, self._decided[header.half_offset] or BEING_ENDED)
        if header.decision == layout.SYS_TRANSACTION_ROLLBACK:
            ending = self._put_op(header.half_offset)
        else:
            try:
                copy = committed(half)
            except NoDestination as error:
                return response(request, ResponseCode.SYSTEM_ERROR, str(error))
            ending = self._puts.put(copy).addCallback(self._copied, header.half_offset)
        self._remember(header.half_offset, None)
        return ending.addCallback(self._ended, request, header.half_offset)

    def _copied(self, put: Put, half_offset: int) -> Outcome | Deferred[Outcome]:
        outcome = _outcome(put)
        if put.status not in STORED:
            return outcome
        # The copy is what was asked for. Without its op the producer is asked, and consumers may see it twice.
        return self._put_op(half_offset).addCallback(lambda op: outcome._replace(stored=op.stored))

    def _put_op(self, half_offset: int) -> Deferred[Outcome]:
        self._topics.ensure(layout.OP_HALF_TOPIC, HALF_QUEUE + 1)
        op = op_message(half_offset, int(self._clock.seconds() * 1000))
        return self._puts.put(op).addCallback(self._op_put, half_offset)

    def _op_put(self, put: Put, half_offset: int) -> Outcome:
        outcome = _outcome(put)
        if put.status not in STORED:
            self._log.warn(
                "the decision about half message {offset} wasn't stored; its producer will be asked: "
                "{reason}",
                offset=half_offset,
                reason=outcome.remark,
            )
        return outcome

    def _ended(self, outcome: Outcome, request: RemotingCommand, half_offset: int) -> RemotingCommand:
        if outcome.stored:
            self._remember(half_offset, outcome)
        else:
            self._decided.pop(half_offset, None)
        return _answer(request, outcome)

    def _remember(self, half_offset: int, outcome: Outcome | None) -> None:
        self._decided[half_offset] = outcome
        if len(self._decided) > MAX_REMEMBERED:
            self._decided.popitem(last=False)


def _answer(request: RemotingCommand, outcome: Outcome) -> RemotingCommand:
    return response(request, outcome.code, outcome.remark)


def _outcome(put: Put) -> Outcome:
    status = put.status
    assert status is not None
    remark = None if status is PutStatus.PUT_OK else put.reason or status.value
    return Outcome(response_code(status), remark, status in STORED)


def _problem(header: EndTransaction, half: Record | None) -> str:
    """What is wrong with the half a producer names, in RocketMQ's words; "" if nothing."""
    if half is None or half.topic != layout.HALF_TOPIC:
        return "Find prepared transaction message failed"
    if half.properties.get(layout.PROPERTY_PRODUCER_GROUP) != header.group:
        return "The producer group wrong"
    if half.queue_offset != header.half_offset:
        return "The transaction state table offset wrong"
    if half.physical_offset != header.log_offset:
        return "The commit log offset wrong"
    return ""


def needs_of_end(record_at: Callable[[int], Record | None], request: RemotingCommand) -> Iterable[Need]:
    """The permissions that a 37 takes by where its half message is to go: RocketMQ's clients don't name the topic,
    and any account could roll back what others have sent. None if there's no such half, which is refused later.

    - record_at: the log's record that begins at an offset
    - request: with the half's offset
    """
    try:
        half = record_at(long_field(request.ext, "commitLogOffset"))
        if half is None or half.topic != layout.HALF_TOPIC:
            return ()
        return publishing(half_destination(half.properties)[0])
    except (BadRequestField, NoDestination):
        return ()


def refuse_end_transaction(_connection: RemotingConnection, request: RemotingCommand) -> RemotingCommand:
    """A slave decides nothing."""
    return response(
        request,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        "this broker is a slave and ends no transactions; its master does",
    )
