"""SEND_REPLY_MESSAGE 324 and 325: the answer of a request-reply pair, pushed to who asked (326).

The consumer of a request sends its reply to the broker it got the request from, and names the asking client in a
property. A producer is connected to every broker it sends to, so the reply goes out on its connection at once,
and the consumer learns whether the client took it. Replies aren't stored: nobody could read them later, since
the asker's future is gone with its connection. (RocketMQ stores them beside that, for its message tracks, unless
`storeReplyMessageEnable` says no.)
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from hatwisted.broker.consumer.clientcalls import ClientCalls
from hatwisted.broker.consumer.clienttable import ClientTable
from hatwisted.broker.requests import answer_bad_requests
from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.clientcore.errors import CallFailed
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.properties import decode_properties, encode_properties
from hatwisted.wire.registration import PERM_WRITE
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.requestheader import SendHeader, parse_send_v1, parse_send_v2

REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
"""Property: client id of who asked."""

PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
"""Property that the broker adds: ms."""

_STORED_NOWHERE = {"msgId": "0", "queueOffset": "0", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""A send's answer, whose fields clients read; RocketMQ's values for what isn't stored."""


class ReplyProcessor:
    """Answers 324 and 325.

    - clock: dates the replies
    - topics: who may be sent to
    - clients: who is connected
    - calls: pass a reply on
    - store_address: "host:port" of this broker, as its messages carry it
    """

    def __init__(
        self,
        clock: IReactorTime,
        topics: TopicConfigTable,
        clients: ClientTable,
        calls: ClientCalls,
        store_address: str,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._clients = clients
        self._calls = calls
        self._store_address = store_address

    def register_on(self, table: ProcessorTable) -> None:
        table.register(RequestCode.SEND_REPLY_MESSAGE, answer_bad_requests(self.reply))
        table.register(RequestCode.SEND_REPLY_MESSAGE_V2, answer_bad_requests(self.reply))

    def reply(
        self, connection: RemotingConnection, request: RemotingCommand
    ) -> RemotingCommand | Deferred[RemotingCommand]:
        parse = parse_send_v1 if request.code == RequestCode.SEND_REPLY_MESSAGE else parse_send_v2
        header = parse(request.ext)
        topic = self._topics.get(header.topic)
        if topic is None:
            # Not made on demand: the one topic of replies is always there, and a slave makes none.
            remark = f"topic[{header.topic}] not exist, apply first please!"
            return response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
        if not topic.perm & PERM_WRITE:
            remark = f"the topic[{header.topic}] sending message is forbidden"
            return response(request, ResponseCode.NO_PERMISSION, remark)
        properties = decode_properties(header.properties.encode())
        asker = properties.get(REPLY_TO_CLIENT)
        if asker is None:
            return _refusal(request, f"reply message properties[{REPLY_TO_CLIENT}] is null")
        key = self._clients.producer(asker)
        if key is None:
            return _refusal(request, f"push reply message fail, channel of <{asker}> not found.")
        assert isinstance(key, RemotingConnection)
        now = str(int(self._clock.seconds() * 1000))
        properties[PUSH_REPLY_TIME] = now
        ext = _push_fields(header, encode_properties(properties).decode())
        ext |= {"bornHost": connection.peer, "storeHost": self._store_address, "storeTimestamp": now}
        push = RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext=ext, body=request.body)

        def pushed(answer: RemotingCommand) -> RemotingCommand:
            if answer.code != ResponseCode.SUCCESS:
                return _refusal(request, f"push reply message to {asker}fail.")
            return response(request, ext=_STORED_NOWHERE | {"queueId": str(max(0, header.queue_id))})

        def failed(failure: Failure) -> RemotingCommand:
            failure.trap(CallFailed)
            return _refusal(request, f"push reply message to {asker}fail.")

        return self._calls.call(key, push).addCallbacks(pushed, failed)


def _refusal(request: RemotingCommand, remark: str) -> RemotingCommand:
    return response(request, ResponseCode.SYSTEM_ERROR, remark)


def _push_fields(header: SendHeader, properties: str) -> dict[str, str]:
    """The send's fields by their long names."""
    return {
        "producerGroup": header.producer_group,
        "topic": header.topic,
        "defaultTopic": header.default_topic,
        "defaultTopicQueueNums": str(header.default_topic_queue_nums),
        "queueId": str(header.queue_id),
        "sysFlag": str(header.sys_flag),
        "bornTimestamp": str(header.born_timestamp),
        "flag": str(header.flag),
        "properties": properties,
        "reconsumeTimes": str(header.reconsume_times),
        "unitMode": str(header.unit_mode).lower(),
    }
