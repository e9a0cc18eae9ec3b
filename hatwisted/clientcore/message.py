"""Messages as programs see them: `Message` on its way in, `ReceivedMessage` on its way out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hatwisted.clientcore.compression import decompress
from hatwisted.clientcore.errors import BadAnswer, BadMessage, BadSetting, UnreadableBody
from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.messageid import encode_message_id
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import Record

DELIVERY_PROPERTIES: Final = frozenset(
    (
        layout.PROPERTY_CHECK_TIMES,
        layout.PROPERTY_CLUSTER,
        layout.PROPERTY_DELAY,
        layout.PROPERTY_MSG_REGION,
        layout.PROPERTY_ORIGIN_ID,
        layout.PROPERTY_PRODUCER_GROUP,
        layout.PROPERTY_REAL_QUEUE_ID,
        layout.PROPERTY_REAL_TOPIC,
        layout.PROPERTY_RETRY_TOPIC,
        layout.PROPERTY_TRACE_ON,
        layout.PROPERTY_TRANSACTION,
        layout.PROPERTY_UNIQ_KEY,
        layout.PROPERTY_WAIT,
        "ARRIVE_TIME",
        "CONSUME_START_TIME",
        "MAX_OFFSET",
        "MAX_RECONSUME_TIMES",
        "MIN_OFFSET",
        "RECONSUME_TIME",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "__transactionId__",
    )
)
"""Properties of one delivery: a message that is sent again goes without them."""
MAX_GROUP_LENGTH: Final = 255
"""Characters of a group's name: the limit of RocketMQ's clients."""
_NAME_LETTERS: Final = frozenset("%|_-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What is to be sent.

    - tags: one text that consumers choose by
    - keys: by which it can be looked up
    - delay_level: 1 to 18 of the broker's table, 0 for now
    - wait: does the answer wait for disk and slave as the broker is set up?
    - order_key: messages of one key keep their order (they share a queue)
    - properties: the program's own
    """

    topic: str
    body: bytes
    tags: str = ""
    keys: Sequence[str] = ()
    delay_level: int = 0
    wait: bool = True
    order_key: str | None = None
    flag: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)

    def all_properties(self, unique_key: str) -> dict[str, str]:
        """The properties as they travel. BadMessage for what can't be stored."""
        found = {
            **self.properties,
            layout.PROPERTY_UNIQ_KEY: unique_key,
            layout.PROPERTY_WAIT: "true" if self.wait else "false",
        }
        if self.keys:
            found[layout.PROPERTY_KEYS] = layout.KEY_SEPARATOR.join(self.keys)
        if self.tags:
            found[layout.PROPERTY_TAGS] = self.tags
        if self.delay_level:
            found[layout.PROPERTY_DELAY] = str(self.delay_level)
        return found


def checked_message(message: object) -> Message:
    """`message` if it is one, of the types that it says; BadMessage otherwise. A type checker refuses the same;
    unnoticed, keys given as one text would be its letters."""
    if not isinstance(message, Message):
        raise BadMessage(f"a Message can be sent, not {type(message).__name__}")
    if not isinstance(message.properties, Mapping):
        raise BadMessage(f"properties must be a mapping of strings to strings, not {message.properties!r}")
    for name, value in message.properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadMessage(f"properties must be a mapping of strings to strings, not {name!r} to {value!r}")
    if isinstance(message.keys, str) or not isinstance(message.keys, Iterable):
        raise BadMessage(f"keys must be a list of strings, not {message.keys!r}")
    for key in message.keys:
        if not isinstance(key, str):
            raise BadMessage(f"keys must be a list of strings, not {message.keys!r}")
    if not isinstance(message.tags, str):
        raise BadMessage(f"tags must be a string, not {message.tags!r}")
    if message.order_key is not None and not isinstance(message.order_key, str):
        raise BadMessage(f"an order key must be a string, not {message.order_key!r}")
    if not isinstance(message.delay_level, int) or message.delay_level < 0:
        raise BadMessage(f"a delay level must be a whole number of 0 or more, not {message.delay_level!r}")
    return message


def checked_body(body: object) -> bytes:
    """`body` if it's bytes; BadMessage otherwise, also for a str: only the program knows its encoding."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    raise BadMessage(f"a body must be bytes, not {type(body).__name__}: encode it, as text.encode()")


def checked_topic(topic: str) -> str:
    """`topic` if a broker takes it as a name; BadMessage otherwise."""
    if (
        not isinstance(topic, str)
        or not 0 < len(topic) <= layout.MAX_TOPIC_LENGTH
        or not _NAME_LETTERS.issuperset(topic)
    ):
        raise BadMessage(f"topic {topic!r}: 1 to 127 letters, digits and any of %|_- are allowed")
    return topic


def checked_group(group: str) -> str:
    """`group` if RocketMQ's clients take it as a name; BadSetting otherwise."""
    if (
        not isinstance(group, str)
        or not 0 < len(group) <= MAX_GROUP_LENGTH
        or not _NAME_LETTERS.issuperset(group)
    ):
        shown = group[:MAX_GROUP_LENGTH] if isinstance(group, str) else group
        allowed = f"1 to {MAX_GROUP_LENGTH} letters, digits and any of %|_- are allowed"
        raise BadSetting(f"group {shown!r}: {allowed}")
    return group


def checked_properties(properties: Mapping[str, str]) -> bytes:
    """The properties as bytes; BadMessage if they can't be stored."""
    try:
        raw = encode_properties(properties)
    except ValueError as error:
        raise BadMessage(str(error)) from None
    if len(raw) > layout.MAX_PROPERTIES_LENGTH:
        raise BadMessage(f"{len(raw)} bytes of properties, {layout.MAX_PROPERTIES_LENGTH} at most")
    return raw


class UniqueKeys:
    """UNIQ_KEY values: 32 hex digits, as long as Java's and as unique: `prefix`, 8 random bytes, and a counter."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix.hex().upper()
        self._counter = itertools.count(1)

    def next(self) -> str:
        """One that was never given before."""
        return f"{self._prefix}{next(self._counter) & 0xFFFFFFFFFFFFFFFF:016X}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedMessage:
    """What was stored, made readable. Times in ms since the epoch.

    - topic: where its producer sent it to, also when it comes back for another try
    - queue, queue_offset: where it was read
    - message_id: its producer's UNIQ_KEY if it has one, offset_id otherwise
    - reconsume_times: failures so far
    - unreadable: why its body is the stored one, which can't be decompressed; no program is given such a message
    """

    topic: str
    queue: MessageQueue
    queue_offset: int
    body: bytes
    properties: Mapping[str, str]
    message_id: str
    offset_id: str
    commit_log_offset: int
    store_host: str
    born_timestamp: int
    store_timestamp: int
    reconsume_times: int
    flag: int
    sys_flag: int
    size: int
    unreadable: str | None = None

    @property
    def tags(self) -> str:
        """Its tag, or ""."""
        return self.properties.get(layout.PROPERTY_TAGS, "")

    @property
    def keys(self) -> list[str]:
        """Its keys."""
        return self.properties.get(layout.PROPERTY_KEYS, "").split()


def received(record: Record, broker_name: str) -> ReceivedMessage:
    """A stored record as a message. UnreadableBody if it can't be decompressed."""
    found = received_anyway(record, broker_name)
    if found.unreadable is not None:
        raise UnreadableBody(found.unreadable)
    return found


def received_anyway(record: Record, broker_name: str) -> ReceivedMessage:
    """A stored record as a message, which says so if its body can't be decompressed."""
    body, unreadable = record.body, None
    try:
        body = decompress(record.body, record.sys_flag)
    except UnreadableBody as error:
        unreadable = str(error)
    properties = record.properties
    offset_id = encode_message_id(record.store_host, record.physical_offset)
    return ReceivedMessage(
        topic=properties.get(layout.PROPERTY_RETRY_TOPIC, record.topic),
        queue=MessageQueue(broker_name=broker_name, queue_id=record.queue_id, topic=record.topic),
        queue_offset=record.queue_offset,
        body=body,
        properties=properties,
        message_id=properties.get(layout.PROPERTY_UNIQ_KEY, offset_id),
        offset_id=offset_id,
        commit_log_offset=record.physical_offset,
        store_host=str(record.store_host),
        born_timestamp=record.born_timestamp,
        store_timestamp=record.store_timestamp,
        reconsume_times=record.reconsume_times,
        flag=record.flag,
        sys_flag=record.sys_flag,
        size=record.total_size,
        unreadable=unreadable,
    )


def decode_records(body: bytes) -> list[Record]:
    """All records of a pull's answer. BadAnswer if the broker sent something else."""
    found, position = [], 0
    while position < len(body):
        try:
            record = decode_record(body, position, whole=True)
        except ValueError as error:
            raise BadAnswer(f"a pull's answer has no record at {position} of {len(body)}: {error}") from None
        if not isinstance(record, Record):
            raise BadAnswer(f"a pull's answer ends inside a record, at {position} of {len(body)}")
        found.append(record)
        position += record.total_size
    return found


def store_address(message: ReceivedMessage) -> HostPort:
    """Where the broker that stored it listens."""
    return HostPort.parse(message.store_host)
