"""A RocketMQ remoting client on one blocking socket, for tests and benchmarks.

Written from the protocol alone and sharing no line with hatwisted's own codecs: a test that used those would
prove them with themselves. JSON headers only, one connection, one thread. `call` waits for its answer; `post`
and `answer` are the two halves, for many requests in flight.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

SEND_MESSAGE = 10
PULL_MESSAGE = 11
GET_MAX_OFFSET = 30
GET_BROKER_RUNTIME_INFO = 28
GET_ROUTEINFO_BY_TOPIC = 105
SEND_MESSAGE_V2 = 310
SEND_BATCH_MESSAGE = 320

MAX_FRAME = 64 << 20  # bytes; far above anything a broker sends, so that a broken stream ends in an error
VERSION = 407  # V4_9_7
_BARE_KEY = re.compile(rb"([{,])(-?\d+):")


class RemotingFailure(Exception):
    """The peer closed, sent nonsense, or answered another code than expected."""


@dataclass(frozen=True)
class Answer:
    """A response frame: `ext` as text to text, `remark` empty when there is none."""

    code: int
    opaque: int
    remark: str
    ext: Mapping[str, str]
    body: bytes

    def expect(self, *codes: int) -> Self:
        if self.code not in codes:
            raise RemotingFailure(f"answered {self.code} ({self.remark[:300]!r}), expected {codes}")
        return self

    def json(self) -> dict[str, object]:
        """The body as JSON, with fastjson's bare integer keys quoted first."""
        decoded = json.loads(_BARE_KEY.sub(rb'\1"\2":', self.body))
        assert isinstance(decoded, dict)
        return decoded


@dataclass(frozen=True)
class SendResult:
    """Answer to a send; PUT_OK is code 0. `physical` is the commit log offset inside the message id."""

    code: int
    remark: str
    message_id: str
    queue_id: int
    queue_offset: int

    @property
    def physical(self) -> int:
        return int(self.message_id.split(",")[0][-16:], 16)


def encode_frame(code: int, opaque: int, ext: Mapping[str, str], body: bytes = b"") -> bytes:
    """One request frame with a JSON header."""
    header = {"code": code, "extFields": dict(ext), "flag": 0, "language": "JAVA", "opaque": opaque}
    header |= {"serializeTypeCurrentRPC": "JSON", "version": VERSION}
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def encode_inner(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """One message inside a batch body."""
    total = 4 * 5 + len(body) + 2 + len(properties)
    head = struct.pack(">iiiii", total, 0, 0, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


def properties_text(properties: Mapping[str, str]) -> str:
    return "\x02".join(f"{name}\x01{value}" for name, value in properties.items())


def send_fields(
    topic: str, queue_id: int, properties: Mapping[str, str], *, batch: bool = False, born: int | None = None
) -> dict[str, str]:
    """extFields of SEND_MESSAGE_V2 and of a batch."""
    born = int(time.time() * 1000) if born is None else born
    values = ["hatwisted-test", topic, "TBW102", 4, queue_id, 0, born, 0, properties_text(properties), 0]
    fields = {name: str(value) for name, value in zip("abcdefghij", values, strict=True)}
    return {**fields, "k": "false", "m": str(batch).lower()}


class RemotingClient:
    """One connection to a broker or a name server. Socket errors come through as OSError. source: address of this
    machine that it comes from; None: as the system chooses."""

    def __init__(self, host: str, port: int, timeout: float = 30.0, source: str | None = None) -> None:
        own = None if source is None else (source, 0)
        self.socket = socket.create_connection((host, port), timeout, own)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opaques = itertools.count(1)
        self._early: dict[int, Answer] = {}  # answers that arrived before the one asked for
        self._buffer = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def post(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> int:
        """Send a request and return its opaque."""
        opaque = next(self._opaques)
        self.socket.sendall(encode_frame(code, opaque, ext or {}, body))
        return opaque

    def answer(self, opaque: int | None = None) -> Answer:
        """The answer to `opaque`, or whichever arrives next."""
        if opaque is None:
            return self._early.pop(next(iter(self._early))) if self._early else self._next_answer()
        while opaque not in self._early:
            arrived = self._next_answer()
            self._early[arrived.opaque] = arrived
        return self._early.pop(opaque)

    def call(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        return self.answer(self.post(code, ext, body))

    # Broker verbs ----------------------------------------------------------------------------------

    def send(
        self, topic: str, body: bytes, queue_id: int = 0, properties: Mapping[str, str] | None = None
    ) -> SendResult:
        """SEND_MESSAGE_V2; any code comes back as a result."""
        return send_result(self.call(SEND_MESSAGE_V2, send_fields(topic, queue_id, properties or {}), body))

    def send_batch(
        self,
        topic: str,
        bodies: Iterable[bytes],
        queue_id: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """SEND_BATCH_MESSAGE with the same inner properties on each message."""
        inner = properties_text(properties or {}).encode()
        body = b"".join(encode_inner(each, inner) for each in bodies)
        return send_result(self.call(SEND_BATCH_MESSAGE, send_fields(topic, queue_id, {}, batch=True), body))

    def pull(self, topic: str, queue_id: int, offset: int, count: int = 32, hold_millis: int = 0) -> Answer:
        """PULL_MESSAGE: code 0 with records in the body, or 19, 20, 21; `ext` has nextBeginOffset."""
        return self.call(PULL_MESSAGE, pull_fields(topic, queue_id, offset, count, hold_millis))

    def runtime_info(self) -> dict[str, str]:
        table = self.call(GET_BROKER_RUNTIME_INFO).expect(0).json()["table"]
        assert isinstance(table, dict)
        return table

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        fields = {"topic": topic, "queueId": str(queue_id)}
        return int(self.call(GET_MAX_OFFSET, fields).expect(0).ext["offset"])

    def route(self, topic: str) -> Answer:
        return self.call(GET_ROUTEINFO_BY_TOPIC, {"topic": topic})

    # Framing ---------------------------------------------------------------------------------------

    def _next_answer(self) -> Answer:
        length, word = struct.unpack(">ii", self._exactly(8))
        header_length = word & 0xFFFFFF
        if not 4 + header_length <= length <= MAX_FRAME or word >> 24:
            raise RemotingFailure(f"not a JSON frame: length {length}, header word {word:#x}")
        header = json.loads(self._exactly(header_length))
        body = self._exactly(length - 4 - header_length)
        ext = header.get("extFields") or {}
        return Answer(header["code"], header["opaque"], header.get("remark") or "", ext, body)

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = self.socket.recv(1 << 18)
            if not data:
                raise RemotingFailure(f"peer closed with {len(self._buffer)} of {count} bytes received")
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def send_result(answer: Answer) -> SendResult:
    ext = answer.ext
    queue_id, queue_offset = int(ext.get("queueId") or -1), int(ext.get("queueOffset") or -1)
    return SendResult(answer.code, answer.remark, ext.get("msgId") or "0" * 16, queue_id, queue_offset)


def pull_fields(topic: str, queue_id: int, offset: int, count: int, hold_millis: int) -> dict[str, str]:
    return {
        "consumerGroup": "hatwisted-test-consumer",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(4 | (2 if hold_millis else 0)),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(hold_millis),
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


def any_answer(port: int) -> None:
    """A broker that asks for an account says no: it's there."""
    with RemotingClient("127.0.0.1", port, timeout=2.0) as client:
        client.call(GET_BROKER_RUNTIME_INFO)
