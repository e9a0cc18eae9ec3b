"""What brokers and name servers exchange: topic tables, registrations, routes, cluster members.

Field names on the wire are RocketMQ's; the structs carry them in Python's spelling, in the alphabetical order
fastjson writes. Reading accepts the dialect (bare integer keys, numbers as text) and unknown fields, because
5.x adds some; writing is standard JSON with quoted integer keys, which every version reads.

A registration's body also has a compressed form: zlib over length-prefixed pieces, which keep only a
topic's name, queue numbers, perm and filter type. It is inflated up to MAX_REGISTRATION, since anybody who can
reach a name server's port can send one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from hatwisted.wire import fastjson
from hatwisted.wire.codes import V3_0_11
from hatwisted.wire.inflate import NotInflated, inflate
from hatwisted.wire.requestheader import Int32, Int64
from hatwisted.wire.storedrecord import crc

SINGLE_TAG: Final = "SINGLE_TAG"
MULTI_TAG: Final = "MULTI_TAG"
"""A topic's filter types; nothing depends on them."""
_INT32: Final = struct.Struct(">i")
_ZLIB: Final = 0x78
"""First byte of a zlib stream; JSON can't begin with it."""
_T = TypeVar("_T")

MAX_REGISTRATION: Final = 16 << 20
"""Bytes of a registration's body once it's inflated: as many as an uncompressed one can have."""
MAX_TOPICS: Final = 50_000
"""Topics in a registration."""
MAX_OF_TOPIC: Final = 16
"""Values for each of them that a registration may have at most; RocketMQ's topics have ten."""
MAX_PIECE: Final = 64 << 10
"""Bytes that a compressed one has of JSON: a version, and the addresses of filter servers."""

MASTER_ID: Final = 0
"""Broker id of a group's master; slaves have higher ones."""

PERM_INHERIT: Final = 1
PERM_WRITE: Final = 2
PERM_READ: Final = 4
"""Bits of a topic's or a broker's `perm`."""

UNIT: Final = 1
UNIT_SUBSCRIPTION: Final = 2
"""Bits of a topic's sysFlag."""


MAX_QUEUE_IDS: Final = 1 << 16
"""Queue ids are below this; no topic has as many queues at a broker, and progress kept under a wrong one would
stay for ever."""

QueueCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_QUEUE_IDS)]
"""Clients make an object of each."""


class BadRegistration(ValueError):
    """The peer's body isn't what its code says, or its checksum is wrong."""


class DataVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Compared as a whole; changes whenever the table it belongs to does. `timestamp` in ms."""

    counter: Int64 = 0
    state_version: Int64 | UnsetType = UNSET
    timestamp: Int64 = 0

    def following(self, now_ms: int) -> DataVersion:
        """The version after a change made at `now_ms`."""
        return DataVersion(counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms)


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic of one broker. perm: 4 read, 2 write, 1 inherit. attributes: 5.x; passed on to peers that
    know them."""

    attributes: dict[str, str] | UnsetType | None = UNSET
    order: bool = False
    perm: Int32 = 6
    read_queue_nums: QueueCount = 16
    topic_filter_type: str = SINGLE_TAG
    topic_name: str
    topic_sys_flag: Int32 = 0
    write_queue_nums: QueueCount = 16


class TopicTable(msgspec.Struct, kw_only=True, rename="camel"):
    """A broker's topics and their version: answer of code 21, content of topics.json."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError: what goes by the one name would escape the limits of the other."""
        for name, topic in self.topic_config_table.items():
            if name != topic.topic_name:
                raise ValueError(f"the topic {topic.topic_name[:80]!r} stands under {name[:80]!r}")


class RegisterBody(msgspec.Struct, kw_only=True, rename="camel"):
    """Body of a 103. A registration right after a topic's creation holds only that topic: merge it."""

    filter_server_list: list[str] = msgspec.field(default_factory=list)
    topic_config_serialize_wrapper: TopicTable = msgspec.field(default_factory=TopicTable)


class BrokerData(msgspec.Struct, kw_only=True, rename="camel"):
    """A broker group: broker id -> "host:port"; id 0 is the master."""

    broker_addrs: dict[int, str] = msgspec.field(default_factory=dict)
    broker_name: str
    cluster: str = ""


class MemberGroup(msgspec.Struct, kw_only=True, rename="camel"):
    """One group, if it is known: answer of code 901."""

    broker_member_group: BrokerData | UnsetType = UNSET


class QueueData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many queues of a topic a group has."""

    broker_name: str
    perm: Int32
    read_queue_nums: QueueCount
    topic_sys_flag: Int32 = 0
    write_queue_nums: QueueCount


class TopicRoute(msgspec.Struct, kw_only=True, rename="camel"):
    """Where a topic lives: answer of code 105."""

    broker_datas: list[BrokerData] = msgspec.field(default_factory=list)
    filter_server_table: dict[str, list[str]] = msgspec.field(default_factory=dict)
    order_topic_conf: str | UnsetType | None = UNSET
    queue_datas: list[QueueData] = msgspec.field(default_factory=list)


class ClusterInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """All groups, and which cluster has which: answer of code 106."""

    broker_addr_table: dict[str, BrokerData] = msgspec.field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = msgspec.field(default_factory=dict)


def decode_request(data: bytes, kind: type[_T]) -> _T:
    """As decode_body, of what anybody may have sent.

    A registration has up to 16 MiB. Of plain JSON nothing is made but what belongs there, however much else it
    has, and of its dialects not more is read than of other requests.
    """
    try:
        decoded: _T = _decoder(cast(Any, kind))(data)
        return decoded
    except msgspec.ValidationError as error:
        raise BadRegistration(f"not a {kind.__name__}: {error}") from None
    except (ValueError, RecursionError):
        return _converted(data, kind, fastjson.loads_request)


def decode_body(data: bytes, kind: type[_T]) -> _T:
    """A JSON body as one of the structs above; BadRegistration if it can't be one."""
    return _converted(data, kind, fastjson.loads)


def _converted(data: bytes, kind: type[_T], loads: Callable[[bytes], object]) -> _T:
    try:
        return msgspec.convert(loads(data), kind, strict=False, str_keys=True)
    except (fastjson.FastjsonError, msgspec.ValidationError) as error:
        raise BadRegistration(f"not a {kind.__name__}: {error}") from None


@cache
def _decoder(kind: type) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind, strict=False).decode


def encode_body(body: msgspec.Struct) -> bytes:
    """One of the structs above as compact JSON."""
    return fastjson.dumps_compact(body)


def body_checksum(data: bytes) -> int:
    """`bodyCrc32` of a registration, taken over the body as sent (compressed if it is)."""
    return crc(data)


def encode_register_body(body: RegisterBody, compressed: bool = False) -> bytes:
    """Body of a 103."""
    if not compressed:
        return encode_body(body)
    table = body.topic_config_serialize_wrapper
    parts = [_with_length(encode_body(table.data_version)), _INT32.pack(len(table.topic_config_table))]
    parts += (_with_length(_topic_line(topic)) for topic in table.topic_config_table.values())
    parts.append(_with_length(fastjson.dumps_compact(body.filter_server_list)))
    return zlib.compress(b"".join(parts))


def decode_register_body(
    data: bytes, *, compressed: bool = False, version: int, checksum: int = 0
) -> RegisterBody:
    """Body of a 103; an empty one registers no topics.

    - data: the body
    - compressed: what the request claims, which isn't relied on: 5.3.3's brokers compress and claim not to
    - version: of the broker
    - checksum: crc32 of the body; 0: not checked

    BadRegistration when it can't be decoded, or the checksum differs ("crc32 not match", the text that operators
    know from RocketMQ).
    """
    if checksum and checksum != body_checksum(data):
        raise BadRegistration("crc32 not match")
    if not data:
        return RegisterBody()
    if compressed or data[0] == _ZLIB:
        try:
            plain = inflate(data, MAX_REGISTRATION)
        except NotInflated as error:
            raise BadRegistration(f"compressed body: {error}") from None
        return _inflated_body(plain)
    # Short values cost many times what their bytes do, in time and memory.
    if data.count(b",") >= MAX_OF_TOPIC * MAX_TOPICS:
        raise BadRegistration(f"more values in one registration than {MAX_TOPICS} topics have")
    if version < V3_0_11:
        body = RegisterBody(topic_config_serialize_wrapper=decode_request(data, TopicTable))
    else:
        body = decode_request(data, RegisterBody)
    _check_count(len(body.topic_config_serialize_wrapper.topic_config_table))
    return body


def _check_count(topics: int) -> None:
    if topics > MAX_TOPICS:
        raise BadRegistration(f"{topics} topics in one registration, at most {MAX_TOPICS} are allowed")


def _topic_line(topic: TopicConfig) -> bytes:
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return f"{topic.topic_name} {numbers} {topic.topic_filter_type}".encode()


def _with_length(piece: bytes) -> bytes:
    return _INT32.pack(len(piece)) + piece


def _inflated_body(plain: bytes) -> RegisterBody:
    """Pieces in order: data version, topics, filter servers; what 5.x appends is ignored."""
    version_text, position = _piece(plain, 0, MAX_PIECE)
    count, position = _number(plain, position)
    _check_count(count)
    topics = {}
    for _ in range(count):
        line, position = _piece(plain, position)
        topic = _parse_topic_line(line)
        topics[topic.topic_name] = topic
    filter_servers, _ = _piece(plain, position, MAX_PIECE)
    return RegisterBody(
        filter_server_list=decode_request(filter_servers, list[str]),
        topic_config_serialize_wrapper=TopicTable(
            data_version=decode_request(version_text, DataVersion), topic_config_table=topics
        ),
    )


def _number(plain: bytes, position: int) -> tuple[int, int]:
    if position + _INT32.size > len(plain):
        raise BadRegistration(f"compressed body ends at {len(plain)} inside a number")
    return _INT32.unpack_from(plain, position)[0], position + _INT32.size


def _piece(plain: bytes, position: int, most: int = MAX_REGISTRATION) -> tuple[bytes, int]:
    size, position = _number(plain, position)
    if not 0 <= size <= most or position + size > len(plain):
        raise BadRegistration(f"compressed body has a piece of {size} bytes at {position} of {len(plain)}")
    return plain[position : position + size], position + size


def _parse_topic_line(line: bytes) -> TopicConfig:
    """`name read write perm filterType`, and from 5.x a sixth word with attributes."""
    try:
        name, read, write, perm, filter_type, *_ = line.decode().split(" ", 5)
        numbers = int(read), int(write), int(perm)
        if not 0 <= min(numbers) <= max(numbers) <= MAX_QUEUE_IDS:
            raise ValueError
    except ValueError:
        raise BadRegistration(f"compressed body has the topic line {line[:80]!r}") from None
    return TopicConfig(
        topic_name=name,
        read_queue_nums=numbers[0],
        write_queue_nums=numbers[1],
        perm=numbers[2],
        topic_filter_type=filter_type,
    )
