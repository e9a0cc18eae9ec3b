"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

All sends of one read are turned into puts, appended in one go and settled together; the answers that become
ready together leave in one write. What is checked here is the producer's mistake (topic, queue, properties);
what the log and PutAcks refuse is ours, and has other codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from twisted.logger import Logger

from hatwisted.broker.consumer.consumerprocessors import ConsumerTables
from hatwisted.broker.identity import BrokerIdentity
from hatwisted.broker.put.innerput import STOPPING
from hatwisted.broker.put.putack import PutAcks
from hatwisted.broker.put.responsecode import response_code
from hatwisted.broker.put.sendstate import SendState
from hatwisted.broker.send.admission import Admission, Refused
from hatwisted.kernel import SendAnswers, SettledPuts, message_ids
from hatwisted.remoting.processortable import response
from hatwisted.remoting.sendwindows import LEAST_SIZE_IN_BATCH, SendWindow
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.log.put import STORED, Put, PutStatus
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.batch import CorruptBatch
from hatwisted.wire.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from hatwisted.wire.remoting import (
    RemotingCommand,
    encode_command,
    send_response_fields,
)
from hatwisted.wire.requestheader import BadRequestField

SEND_CODES = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


class SendProcessor:
    """Answers sends on a master.

    - store: where puts go
    - acks: answers them
    - tables: who may be sent to, and how often the groups of the retry topics try
    - identity: its cluster is in every stored message, its store_host in every message id
    - state: may clients send at present?
    """

    _log = Logger()

    def __init__(
        self,
        store: MessageStore,
        acks: PutAcks,
        tables: ConsumerTables,
        identity: BrokerIdentity,
        state: SendState,
    ) -> None:
        self._store = store
        self._acks = acks
        self._host_hex = identity.store_host.hex().upper()
        self._usual = SendAnswers(self._host_hex, Put, PutStatus.PUT_OK)
        self._settled = SettledPuts(Put, PutStatus.PUT_OK)
        self._admission = Admission(store, tables, identity.cluster, state)
        self._state = state

    def process(self, connection: RemotingConnection, requests: Sequence[RemotingCommand]) -> None:
        """Append and settle all sends of one read."""
        puts: list[Put[RemotingCommand]] = []
        known = self._admission.known()
        to_put = self._admission.put
        refusal = self._refusal()
        no_waiting = self._acks.refusal()
        usual = self._admission.usual if refusal is None and no_waiting is None else None
        index = 0
        while index < len(requests):
            if usual is not None:
                index = usual.take(requests, index, known, connection.host_bytes, puts)
                if index == len(requests):
                    break
            request = requests[index]
            index += 1
            try:
                if refusal is not None:
                    raise refusal
                put = to_put(connection, request, known)
                if no_waiting is not None and put.wait:
                    raise Refused(no_waiting.code, no_waiting.remark)
                puts.append(put)
            except Refused as refused:
                connection.reply(request, response(request, refused.code, str(refused)))
            except BadRequestField as bad:
                connection.reply(request, response(request, ResponseCode.SYSTEM_ERROR, str(bad)))
            except CorruptBatch as bad:
                connection.reply(request, response(request, ResponseCode.MESSAGE_ILLEGAL, str(bad)))
            except Exception as error:  # the others' are to be stored all the same, and answered once
                self._log.failure("a send of {peer} failed", peer=connection.peer)
                remark = f"{type(error).__name__}: {error}"
                connection.reply(request, response(request, ResponseCode.SYSTEM_ERROR, remark))
        if puts and self._acks.may_wait:
            self._put_counted(connection, puts)
        elif puts:
            self._store.append(puts)
            self._acks.settle(puts, partial(self._answer, connection), self._settled.hold)

    def _put_counted(self, connection: RemotingConnection, puts: list[Put[RemotingCommand]]) -> None:
        """Append and settle these. Until they are answered they count in the window of their client's address;
        those of which none wants to wait until slaves have them, if these are behind."""
        log = self._store.log
        begin = log.max_offset
        self._store.append(puts)
        end = log.max_offset
        batched = sum([len(put.entries) for put in puts if len(put.entries) > 1])
        size = max(end - begin, LEAST_SIZE_IN_BATCH * batched)
        read = _Unanswered(len(puts), size, connection.window, partial(self._answer, connection))
        self._acks.settle(puts, read.answer, self._settled.hold)
        if read.left:
            read.waits = True
        else:
            self._acks.copied(end, connection.window.most).addCallback(read.give_back)

    def _refusal(self) -> Refused | None:
        if self._state.stopping:
            return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, STOPPING)
        reason = self._store.refusal()
        if reason is not None:
            return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, reason)
        return None

    # -- put to answer ---------------------------------------------------------------------------------------

    def _answer(self, connection: RemotingConnection, puts: Sequence[Put[RemotingCommand]]) -> None:
        answers: list[bytes] = []
        self._store.stats.count_puts(puts)
        index = 0
        while index < len(puts):
            usual, index = self._usual.encode(puts, index)
            if usual:
                answers.append(usual)
            if index < len(puts):
                try:
                    unusual = self._other_answer(connection, puts[index])
                except Exception:  # the others' answers are due all the same
                    self._log.failure("answering a send of {peer} failed", peer=connection.peer)
                    unusual = b""
                if unusual:
                    answers.append(unusual)
                index += 1
        if answers:
            connection.send(b"".join(answers))

    def _other_answer(self, connection: RemotingConnection, put: Put[RemotingCommand]) -> bytes:
        """The answer to a put that isn't just stored, or is asked for in binary; b"" if it has been sent, or none
        is wanted."""
        request, status = put.token, put.status
        assert status is not None
        if request.flag & FLAG_ONEWAY:
            return b""
        code = response_code(status)
        if status in STORED:
            ids = message_ids(self._host_hex, put)
            ext = send_response_fields(put.answer_queue_id, put.queue_offset, ids)
            remark = None if status is PutStatus.PUT_OK else status.value
            return encode_command(response(request, code, remark, ext))
        connection.reply(request, response(request, code, put.reason or status.value))
        return b""


class _Unanswered:
    """Puts of one read.

    - left: how many aren't answered
    - size: of all of them in the log
    - window: of their client
    - tell: answers some
    """

    __slots__ = ("_size", "_tell", "_window", "left", "waits")

    def __init__(
        self,
        left: int,
        size: int,
        window: SendWindow,
        tell: Callable[[Sequence[Put[RemotingCommand]]], None],
    ) -> None:
        self.left = left
        self.waits = False
        """Is it the last answer that gives their room back?"""
        self._size, self._window, self._tell = size, window, tell
        window.take(size)

    def answer(self, puts: Sequence[Put[RemotingCommand]]) -> None:
        """Some of them are settled."""
        self.left -= len(puts)
        if self.waits and not self.left:
            self.give_back()
        self._tell(puts)

    def give_back(self, _result: object = None) -> None:
        """They don't count any longer."""
        self._window.give_back(self._size)


def refuse_on_slave(connection: RemotingConnection, requests: Sequence[RemotingCommand]) -> None:
    """Sends to a slave: refused, nothing appended (B10)."""
    for request in requests:
        connection.reply(
            request,
            response(
                request,
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "this broker is a slave and accepts no messages; send to the master of its group",
            ),
        )
