"""Questions of a tool to a consumer, which the broker passes on: GET_CONSUMER_RUNNING_INFO 307,
CONSUME_MESSAGE_DIRECTLY 309, INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223.

307 and 309 go out as they came, on the consumer's own connection, and its answer goes back unread: what's in it
is between tool and client. Only the tool's signature stays here (RocketMQ hands it on): it covers the fields'
values alone, neither their names nor the code, so a consumer could make another request of it, in the name of an
administrator and with a client id of its own choice. Silence is answered with CONSUME_MSG_TIMEOUT 207; some client
libraries know neither code. 223 asks every member for its queues (221) at the same time and leaves out those that
don't answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.consumer.clientcalls import STATUS_TIMEOUT, ClientCalls
from hatwisted.broker.consumer.clienttable import ClientTable, Member
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.clientcore.errors import CallFailed, CallTimedOut
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire import fastjson
from hatwisted.wire.codes import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, RequestCode, ResponseCode
from hatwisted.wire.messageid import BadMessageId, decode_message_id
from hatwisted.wire.messagequeue import MessageQueue, parse_queue_table, queue_table
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import BadRequestField, text_field
from hatwisted.wire.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

_NOT_PASSED_ON: Final = frozenset((ACCESS_KEY, SECURITY_TOKEN, SIGNATURE))

MAX_STATUS: Final = 64 << 10
"""Bytes in which a consumer says where it stands in the queues of one topic: those of some 700, read in 50 ms.
Anybody may be a consumer, and ask about consumers."""

_Status = tuple[str, dict[MessageQueue, int]]
"""Client id, and the queue offsets it stands at."""


class ConsumerRunningInfo:
    """Passes questions on to clients.

    - calls: carries them
    - clients: who is connected
    - store: has the message of 309
    - broker_name: added to 309
    """

    _log = Logger()

    def __init__(
        self, calls: ClientCalls, clients: ClientTable, store: MessageStore, broker_name: str
    ) -> None:
        self._calls = calls
        self._clients = clients
        self._store = store
        self._broker_name = broker_name

    def register_on(self, table: ProcessorTable) -> None:
        table.register(RequestCode.GET_CONSUMER_RUNNING_INFO, answer_bad_requests(self.running_info))
        table.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, answer_bad_requests(self.consume_directly))
        table.register(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, answer_bad_requests(self.status))

    # -- one consumer ----------------------------------------------------------------------------------------

    def running_info(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        return self._pass_on(request, request.ext, request.body)

    def consume_directly(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        message_id = text_field(request.ext, "msgId")
        try:
            _, offset = decode_message_id(message_id)
        except BadMessageId:
            raise BadRequestField("msgId", message_id) from None
        record = self._store.look_message(offset)
        if record is None:
            remark = f"can not find message by the offset, {offset}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        return self._pass_on(request, {**request.ext, "brokerName": self._broker_name}, record)

    def _pass_on(
        self, request: RemotingCommand, ext: dict[str, str], body: bytes
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        group, client_id = text_field(ext, "consumerGroup"), text_field(ext, "clientId")
        found = self._clients.consumer(group, client_id)
        if found is None:
            remark = f"The Consumer <{group}> <{client_id}> not online"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        key, member = found
        if member.version < V3_1_8_SNAPSHOT:
            remark = (
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT"
            )
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        assert isinstance(key, RemotingConnection)
        ext = {name: text for name, text in ext.items() if name not in _NOT_PASSED_ON}
        answer = self._calls.call(key, RemotingCommand(request.code, ext=ext, body=body))

        def failed(failure: Failure) -> RemotingCommand:
            failure.trap(CallFailed)
            if failure.check(CallTimedOut):
                remark = f"consumer <{group}> <{client_id}> Timeout: {failure.getErrorMessage()}"
                return response(request, ResponseCode.CONSUME_MSG_TIMEOUT, remark)
            remark = f"invoke consumer <{group}> <{client_id}> Exception: {failure.getErrorMessage()}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)

        return answer.addCallbacks(
            lambda passed: response(request, passed.code, passed.remark, passed.ext, passed.body), failed
        )

    # -- all consumers of a group ----------------------------------------------------------------------------

    def status(
        self, _connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        ext = request.ext
        topic, group = text_field(ext, "topic"), text_field(ext, "group")
        wanted = ext.get("clientAddr", "").strip()
        known = self._clients.consumers.get(group)
        if known is None:
            remark = f"No Any Consumer online in the consumer group: [{group}]"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        if any(member.version < V3_0_7_SNAPSHOT for member in known.members.values()):
            remark = "the client does not support this feature. version=below V3_0_7_SNAPSHOT"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        asked = [
            self._ask_status(key, member, topic, group)
            for key, member in known.members.items()
            if isinstance(key, RemotingConnection) and wanted in ("", member.client_id)
        ]

        def gathered(results: list[tuple[bool, _Status | None]]) -> RemotingCommand:
            statuses = [status for _, status in results if status is not None]
            table = {client_id: queue_table(queues) for client_id, queues in statuses}
            return response(request, body=fastjson.dumps_compact({"consumerTable": table}))

        return DeferredList(asked).addCallback(gathered)

    def _ask_status(
        self, connection: RemotingConnection, member: Member, topic: str, group: str
    ) -> Deferred[_Status | None]:
        question = RemotingCommand(
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext={"topic": topic, "group": group}
        )
        answer = self._calls.call(connection, question, STATUS_TIMEOUT)

        def read_status(answer: RemotingCommand) -> _Status | None:
            return (
                (member.client_id, _status_table(answer.body)) if answer.code == 0 and answer.body else None
            )

        def failed(failure: Failure) -> None:
            failure.trap(CallFailed, ValueError)
            self._log.warn(
                "no offsets from client {client}: {why}",
                client=member.client_id,
                why=failure.getErrorMessage(),
            )

        return answer.addCallback(read_status).addErrback(failed)


def _status_table(body: bytes) -> dict[MessageQueue, int]:
    """Raises ValueError."""
    if len(body) > MAX_STATUS:
        raise ValueError(f"{len(body)} bytes, {MAX_STATUS} are allowed")
    content = fastjson.loads(body)
    table = content.get("messageQueueTable") if isinstance(content, Mapping) else None
    return parse_queue_table(table)
