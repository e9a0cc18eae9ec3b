"""A name server and brokers that answer as told, for what real ones can't be made to do on demand.

Each is a thread with a listening socket. A broker holds messages of one queue in memory and answers pulls and
questions about offsets by RocketMQ's rules (a slave's where it's one); `script` may answer first, in its place.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self
from unittest import TestCase

from hatwisted.logcodec.recordhead import read_head
from hatwisted.wire import fastjson
from hatwisted.wire.batch import decode_batch
from hatwisted.wire.codes import FLAG_RESPONSE, RequestCode, ResponseCode
from hatwisted.wire.consumerdata import ALL_TAGS
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import encode_record
from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver, encode_command
from hatwisted.wire.storedrecord import Record, crc

TOPIC = "Orders"
BROKER = "broker-a"
BORN = HostPort(b"\x7f\0\0\1", 4711)
STORED = HostPort(b"\x7f\0\0\1", 10911)
FIRST_TIME = 1_700_000_000_000

MOST_LOOKED_AT = 800
"""Messages that a broker looks at for one pull."""
HANG_UP = object()
SILENCE = object()
Script = Callable[[RemotingCommand], object]
"""What to answer: a RemotingCommand, HANG_UP, SILENCE, or None for the ordinary answer."""


def record(offset: int, body: bytes = b"", queue_id: int = 0, stored: int | None = None) -> bytes:
    """A stored message; one a millisecond."""
    body = body or b"message %d" % offset
    time = FIRST_TIME + offset if stored is None else stored
    fields = Record(
        TOPIC, queue_id, 0, 0, offset, offset * 200, time, BORN, time, STORED, 0, 0, body, b"", crc(body), 0
    )
    return encode_record(fields)


def response(
    request: RemotingCommand, code: int, remark: str | None = None, body: bytes = b"", **ext: object
) -> RemotingCommand:
    texts = {name: str(value) for name, value in ext.items()}
    return RemotingCommand(code, request.opaque, FLAG_RESPONSE, remark=remark, ext=texts, body=body)


class ScriptedServer:
    """Answers each request by `answer`; counts connections and keeps the requests."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[RemotingCommand] = []
        self.connections = 0
        self.script: Script = lambda request: None
        self._tls = tls
        self._sockets: list[socket.socket] = []
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer._serve(self.request)

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Gone: connections are closed, new ones refused."""
        self._server.shutdown()
        self._server.server_close()
        self.hang_up()
        self._thread.join()

    def hang_up(self) -> None:
        """All connections are closed; new ones aren't refused."""
        for each in self._sockets:
            _hang_up(each)

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        raise NotImplementedError

    def codes(self) -> list[int]:
        """What was asked, in order."""
        return [request.code for request in self.requests]

    def _serve(self, peer: socket.socket) -> None:
        self.connections += 1
        self._sockets.append(peer)
        try:
            if self._tls is not None:
                peer = self._tls.wrap_socket(peer, server_side=True)
                self._sockets.append(peer)
            receiver = RemotingReceiver()
            while data := peer.recv(65536):
                for request in receiver.receive(data):
                    self.requests.append(request)
                    if not self._reply(peer, request):
                        return
        except OSError:
            pass
        finally:
            _hang_up(peer)

    def _reply(self, peer: socket.socket, request: RemotingCommand) -> bool:
        scripted = self.script(request)
        if scripted is HANG_UP:
            return False
        if scripted is not SILENCE:
            answer = scripted if isinstance(scripted, RemotingCommand) else self.answer(request)
            peer.sendall(encode_command(answer))
        return True


def _hang_up(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)
    peer.close()


class ScriptedBroker(ScriptedServer):
    """One queue: `messages` by offset, from `low` to `high`; an offset without a message is a hole."""

    def __init__(
        self,
        offsets: Iterable[int] = (),
        *,
        slave: bool = False,
        most: int = 32,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.messages = {offset: record(offset) for offset in offsets}
        self.low = min(self.messages, default=0)
        self.high = max(self.messages, default=-1) + 1
        self.slave = slave
        self.most = most
        self.suggested = 0
        self.shows_entries = True
        self.tags: dict[int, str] = {}
        """By offset; what a pull's expression goes by."""
        super().__init__(tls)

    def pulls(self) -> list[int]:
        """The offsets that were asked for."""
        return [
            int(each.ext["queueOffset"]) for each in self.requests if each.code == RequestCode.PULL_MESSAGE
        ]

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        match request.code:
            case RequestCode.PULL_MESSAGE:
                return self._pull(request, int(request.ext["queueOffset"]), int(request.ext["maxMsgNums"]))
            case RequestCode.GET_MIN_OFFSET:
                return response(request, 0, offset=self.low)
            case RequestCode.GET_MAX_OFFSET:
                return response(request, 0, offset=self.high)
            case RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                return response(request, 0, offset=self._offset_at(int(request.ext["timestamp"])))
            case RequestCode.QUERY_CONSUME_QUEUE if self.shows_entries:
                return self._entries(request, int(request.ext["index"]), int(request.ext["count"]))
        return response(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    def _entries(self, request: RemotingCommand, index: int, count: int) -> RemotingCommand:
        wanted = [self.messages[each] for each in range(index, index + count) if each in self.messages]
        heads = [read_head(each) for each in wanted]
        entries = [
            {"eval": False, "physicOffset": head.physical_offset, "physicSize": head.size, "tagsCode": 0}
            for head in heads
            if head is not None
        ]
        if not entries:
            return response(request, 0, f"Index {index} of 0@{TOPIC} is not exist!")
        found = {"maxQueueIndex": self.high, "minQueueIndex": self.low, "queueData": entries}
        return response(request, 0, body=fastjson.dumps_compact(found))

    def _pull(self, request: RemotingCommand, offset: int, count: int) -> RemotingCommand:
        moved, following = ResponseCode.PULL_OFFSET_MOVED, offset
        if offset < self.low:
            code, remark, following = moved, "OFFSET_TOO_SMALL", self.low
        elif offset == self.high:
            code, remark = ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"
        elif offset > self.high:
            code, remark, following = moved, "OFFSET_OVERFLOW_BADLY", self.high
        else:
            return self._found(request, offset, count)
        if self.slave and code == moved:
            code, following = ResponseCode.PULL_RETRY_IMMEDIATELY, offset
        return self._pulled(request, code, remark, following)

    def _found(self, request: RemotingCommand, offset: int, count: int) -> RemotingCommand:
        found: list[bytes] = []
        wanted = request.ext.get("subscription", ALL_TAGS).split(" || ")
        first, seen = offset, False
        while offset < self.high and len(found) < min(count, self.most) and offset < first + MOST_LOOKED_AT:
            if offset in self.messages:
                seen = True
                if wanted == [ALL_TAGS] or self.tags.get(offset) in wanted:
                    found.append(self.messages[offset])
            offset += 1
        if not found and seen:
            none = ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"
            return self._pulled(request, *none, offset)
        if not found:
            removing = ResponseCode.PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING"
            return self._pulled(request, *removing, offset)
        return self._pulled(request, 0, "FOUND", offset, b"".join(found))

    def _pulled(
        self, request: RemotingCommand, code: int, remark: str, following: int, body: bytes = b""
    ) -> RemotingCommand:
        return response(
            request,
            code,
            remark,
            body,
            nextBeginOffset=following,
            minOffset=self.low,
            maxOffset=self.high,
            suggestWhichBrokerId=self.suggested,
        )

    def _offset_at(self, time: int) -> int:
        """4.9.7's: the nearer neighbour, the last message for a time after all of them."""
        return min(max(time - FIRST_TIME, self.low), max(self.high - 1, self.low))


class Taker(ScriptedServer):
    """A master that stores what it's sent: `stored` has the bodies of each queue."""

    def __init__(self) -> None:
        self.stored: dict[int, list[bytes]] = {}
        super().__init__()

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        batch = request.code == RequestCode.SEND_BATCH_MESSAGE
        bodies = [body for _, body, _ in decode_batch(request.body)] if batch else [request.body]
        queue = self.stored.setdefault(int(request.ext["e"]), [])
        queue += bodies
        return response(request, 0, msgId="x", queueId=request.ext["e"], queueOffset=len(queue) - len(bodies))


class ScriptedNameServer(ScriptedServer):
    """Knows one topic with the given brokers (id -> address), or answers that it doesn't. others: further groups
    that have it, by name.
    """

    def __init__(self, brokers: dict[int, str] | None = None, topics: Iterable[str] = (TOPIC,)) -> None:
        self.brokers = brokers
        self.topics = list(topics)
        self.queues = 1
        self.others: dict[str, dict[int, str]] = {}
        super().__init__()

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        match request.code:
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                if self.brokers is None or request.ext["topic"] not in self.topics:
                    return response(request, ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
                return response(request, 0, body=self._route())
            case RequestCode.GET_BROKER_CLUSTER_INFO:
                table = {group["brokerName"]: group for group in self._groups()}
                return response(request, 0, body=fastjson.dumps_compact({"brokerAddrTable": table}))
            case RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
                return response(request, 0, body=fastjson.dumps_compact({"topicList": self.topics}))
            case RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
                return response(request, 0, body=fastjson.dumps_compact({"topicList": [BROKER, "C"]}))
        return response(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    def _groups(self) -> list[dict[str, object]]:
        known = ({} if self.brokers is None else {BROKER: self.brokers}) | self.others
        return [
            {
                "brokerAddrs": {str(number): address for number, address in brokers.items()},
                "brokerName": name,
                "cluster": "C",
            }
            for name, brokers in known.items()
        ]

    def _route(self) -> bytes:
        groups = self._groups()
        each = {"perm": 6, "readQueueNums": self.queues, "writeQueueNums": self.queues, "topicSysFlag": 0}
        queues = [each | {"brokerName": group["brokerName"]} for group in groups]
        return fastjson.dumps_compact({"brokerDatas": groups, "queueDatas": queues})


class GroupsCase(TestCase):
    """One topic, of one queue at each group."""

    def setUp(self) -> None:
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.names = self.stack.enter_context(ScriptedNameServer({}))

    def group(self, *offsets: int, name: str = BROKER) -> ScriptedBroker:
        """A group of one master, which the name server knows."""
        broker = self.stack.enter_context(ScriptedBroker(range(*offsets)))
        if name == BROKER:
            self.names.brokers = {0: broker.address}
        else:
            self.names.others[name] = {0: broker.address}
        return broker
