"""Messages as requests and answers as results: the pure half of sending.

Header names are version 2's one-letter ones, which every broker since 3.5 reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from hatwisted.clientcore.answers import number_in
from hatwisted.clientcore.command import command
from hatwisted.clientcore.compression import compress
from hatwisted.clientcore.errors import BadMessage
from hatwisted.clientcore.message import (
    Message,
    checked_body,
    checked_message,
    checked_properties,
    checked_topic,
)
from hatwisted.wire import layout
from hatwisted.wire.batch import BATCH_ENTRY_FIXED, encode_batch
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.topics import AUTO_CREATE_TOPIC

DEFAULT_QUEUES: Final = 4
"""Queues that a topic gets on each broker that creates it at its first message (4.9.7: 4)."""


class SendStatus(Enum):
    """All of them mean *stored*; all but OK, with less than the broker is set up to wait for."""

    OK = ResponseCode.SUCCESS.value
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT.value
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE.value
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT.value


STORED: Final = frozenset(status.value for status in SendStatus)

RETRY_CODES: Final = frozenset((
    ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST, 204, 205, 1500,
))  # fmt: skip
"""What another broker may not say; 204, 205: no buyer, no current buyer; 1500: flow control of 5.x."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SendResult:
    """Where a message went. message_id: its UNIQ_KEY; offset_id: store host and commit log offset in hex, by
    which any broker tool finds it; queue_offset: its place in `queue`; address: the broker that took it."""

    status: SendStatus
    message_id: str
    offset_id: str
    queue: MessageQueue
    queue_offset: int
    address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Outgoing:
    """One request: a message, or several for one queue. ids: the UNIQ_KEYs in order; fixed_queue: no other
    will do; order_key: chooses the queue."""

    topic: str
    code: RequestCode
    body: bytes
    properties: bytes
    ids: tuple[str, ...]
    sys_flag: int = 0
    flag: int = 0
    order_key: str | None = None
    fixed_queue: MessageQueue | None = None
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

    @property
    def pinned(self) -> bool:
        """Is there one queue for it, and no other?"""
        return self.order_key is not None or self.fixed_queue is not None

    @property
    def size(self) -> int:
        """Bytes, for the producer's limits."""
        return len(self.body) + len(self.properties)

    def in_transaction(self) -> Outgoing:
        """The same as a half message."""
        return replace(self, sys_flag=self.sys_flag | layout.SYS_TRANSACTION_PREPARED)

    def fields(self, group: str, queue: MessageQueue, now_ms: int) -> Mapping[str, object]:
        """extFields of the request.

        - group: the producer's
        - queue: where to
        - now_ms: time of birth
        """
        return {
            "a": group,
            "b": self.topic,
            "c": AUTO_CREATE_TOPIC,
            "d": DEFAULT_QUEUES,
            "e": queue.queue_id,
            "f": self.sys_flag,
            "g": now_ms,
            "h": self.flag,
            "i": self.properties.decode(),
            "j": self.reconsume_times,
            "k": False,
            "l": self.max_reconsume_times,
            "m": self.code == RequestCode.SEND_BATCH_MESSAGE,
            "n": queue.broker_name or None,
        }

    def request(self, group: str, queue: MessageQueue, now_ms: int) -> RemotingCommand:
        """As it goes to `queue`."""
        return command(self.code, self.fields(group, queue, now_ms), self.body)


def single(
    message: Message, unique_key: str, *, above: int, limit: int, extra: Mapping[str, str]
) -> Outgoing:
    """One message as a request. Raises BadMessage.

    - message: which
    - unique_key: its id
    - above: bytes from which its body is compressed
    - limit: bytes its body may have
    - extra: properties besides its own
    """
    body, sys_flag = compress(checked_body(checked_message(message).body), above)
    if len(body) > limit:
        raise BadMessage(f"a body of {len(body)} bytes, {limit} at most")
    properties = message.all_properties(unique_key)
    properties.update(extra)
    return Outgoing(
        topic=checked_topic(message.topic),
        code=RequestCode.SEND_MESSAGE_V2,
        body=body,
        properties=checked_properties(properties),
        ids=(unique_key,),
        sys_flag=sys_flag,
        flag=message.flag,
        order_key=message.order_key,
    )


def batched(messages: Sequence[Message], unique_keys: Sequence[str], limit: int) -> Outgoing:
    """Several messages as one request, stored in one queue in this order. Raises BadMessage.

    - messages: of one topic
    - unique_keys: their ids
    - limit: bytes of all bodies
    """
    if not messages:
        raise BadMessage("an empty batch")
    first = checked_message(messages[0])
    if any(
        (each.topic, each.wait, each.order_key) != (first.topic, first.wait, first.order_key)
        for each in map(checked_message, messages)
    ):
        raise BadMessage("the messages of a batch share topic, wait and order_key")
    if any(each.delay_level for each in messages):
        raise BadMessage("delayed messages can't be sent in a batch")
    body = encode_batch(
        (each.flag, checked_body(each.body), checked_properties(each.all_properties(key)))
        for each, key in zip(messages, unique_keys, strict=True)
    )
    if len(body) > limit:
        raise BadMessage(f"a batch of {len(body)} bytes, {limit} at most")
    wait = {layout.PROPERTY_WAIT: "true" if first.wait else "false"}
    return Outgoing(
        topic=checked_topic(first.topic),
        code=RequestCode.SEND_BATCH_MESSAGE,
        body=body,
        properties=checked_properties(wait),
        ids=tuple(unique_keys),
        order_key=first.order_key,
    )


def batch_share(message: Message) -> int:
    """The bytes that `message` adds to a batch, or a few more. Raises BadMessage."""
    properties = checked_message(message).properties
    texts = sum(_size(name) + _size(value) + 2 for name, value in properties.items())
    if message.tags:
        texts += len(layout.PROPERTY_TAGS) + _size(message.tags) + 2
    if message.keys:
        texts += len(layout.PROPERTY_KEYS) + sum(_size(key) + 1 for key in message.keys) + 2
    return BATCH_ENTRY_FIXED + len(checked_body(message.body)) + texts + 64


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def results(answer: RemotingCommand, out: Outgoing, queue: MessageQueue, address: str) -> list[SendResult]:
    """One result per message of a stored request. BadAnswer if the answer lacks something.

    - answer: the broker's
    - out: the request
    - queue: it went to
    - address: of the broker
    """
    status = SendStatus(answer.code)
    ids = answer.ext.get("msgId", "").split(",")
    first = number_in(address, answer, "queueOffset")
    placed = MessageQueue(
        broker_name=queue.broker_name, queue_id=number_in(address, answer, "queueId"), topic=queue.topic
    )
    return [
        SendResult(
            status=status,
            message_id=key,
            offset_id=ids[number] if number < len(ids) else "",
            queue=placed,
            queue_offset=first + number,
            address=address,
        )
        for number, key in enumerate(out.ids)
    ]
