"""The body of a registration (103), there and back.

It is JSON, or compressed: zlib over length-prefixed pieces, which keep only a topic's name, queue numbers, perm
and filter type. What is compressed is inflated up to MAX_REGISTRATION, since anybody who can reach a name server's
port can send one.

A large one is read in steps of a few milliseconds, between which a name server does its other work: JSON is looked
through once for the text that has the topics, of which 64 KiB are decoded at a time.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Generator
from typing import Any, Final, TypeVar, cast

import msgspec

from hatwisted.wire import fastjson
from hatwisted.wire.codes import V3_0_11
from hatwisted.wire.inflate import NotInflated, inflate
from hatwisted.wire.registration import (
    MAX_QUEUE_IDS,
    BadRegistration,
    DataVersion,
    RegisterBody,
    TopicConfig,
    TopicTable,
    converted_request,
    decode_request,
    decoder,
    encode_body,
)
from hatwisted.wire.storedrecord import crc

MAX_REGISTRATION: Final = 16 << 20
"""Bytes of a registration's body once it's inflated: as many as an uncompressed one can have."""
MAX_TOPICS: Final = 50_000
"""Topics in a registration."""
MAX_OF_TOPIC: Final = 16
"""Values for each of them that a registration may have at most; RocketMQ's topics have ten."""
MAX_PIECE: Final = 64 << 10
"""Bytes of a version, of the addresses of filter servers, of a topic's line."""
SMALL: Final = 64 << 10
"""Bytes of a body, inflated, up to which it's read in one step: some hundred topics."""

_STEP: Final = 64 << 10
"""Bytes of topics that one step reads at most; two milliseconds if they are as short as they can be."""
_LINES: Final = 500
"""Topics of a compressed body in one step: a millisecond."""
_END_OF_TOPIC: Final = re.compile(rb'\}(?=\s*+,\s*+")')
_TAIL: Final = 4 << 10
"""Bytes at a step's end in which a topic's end is looked for first."""
_TRIES: Final = 8
"""Ends of a topic that are tried, the last ones of a step: an object within a topic looks like one."""
_INT32: Final = struct.Struct(">i")
_ZLIB: Final = 0x78
"""First byte of a zlib stream; JSON can't begin with it."""
_T = TypeVar("_T")


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


def _topic_line(topic: TopicConfig) -> bytes:
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return f"{topic.topic_name} {numbers} {topic.topic_filter_type}".encode()


def _with_length(piece: bytes) -> bytes:
    return _INT32.pack(len(piece)) + piece


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
    return at_once(decoding_register_body(data, compressed=compressed, version=version, checksum=checksum))


def at_once(steps: Generator[None, None, _T]) -> _T:
    """What the steps return, done in a row."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(_T, end.value)


def is_small(data: bytes) -> bool:
    """Has a body so little that it's read in one step?"""
    if data[:1] != bytes((_ZLIB,)):
        return len(data) <= SMALL
    try:
        inflate(data, SMALL)
    except NotInflated:
        return False
    return True


def decoding_register_body(
    data: bytes, *, compressed: bool = False, version: int, checksum: int = 0
) -> Generator[None, None, RegisterBody]:
    """As `decode_register_body`, a step at a time.

    - data: the body
    - compressed: what the request claims
    - version: of the broker
    - checksum: of the body
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
        return (yield from _inflated_body(plain))
    # Short values cost many times what their bytes do, in time and memory.
    for marks, each in ((b",", 1), (b"[{", 2)):
        if sum(data.count(bytes((mark,))) for mark in marks) >= each * MAX_OF_TOPIC * MAX_TOPICS:
            raise BadRegistration(f"more values in one registration than {MAX_TOPICS} topics have")
        if len(data) > SMALL:
            yield
    return (yield from _plain_body(data, version))


def _plain_body(data: bytes, version: int) -> Generator[None, None, RegisterBody]:
    bare = version < V3_0_11
    kind: Any = TopicTable if bare else RegisterBody
    try:
        found = decoder(_TableParts if bare else _BodyParts)(data)
    except msgspec.ValidationError as error:
        raise BadRegistration(f"not a {kind.__name__}: {error}") from None
    except (ValueError, RecursionError):
        found = converted_request(data, kind)
        body = RegisterBody(topic_config_serialize_wrapper=found) if bare else found
        _check_count(len(body.topic_config_serialize_wrapper.topic_config_table))
        return body
    parts = _BodyParts(topic_config_serialize_wrapper=found) if bare else found
    table = parts.topic_config_serialize_wrapper
    topics = yield from _topics(memoryview(table.topic_config_table))
    _check_count(len(topics))
    return RegisterBody(
        filter_server_list=_decoded(bytes(parts.filter_server_list), list[str]),
        topic_config_serialize_wrapper=TopicTable(data_version=table.data_version, topic_config_table=topics),
    )


class _TableParts(msgspec.Struct, rename="camel"):
    """A TopicTable whose topics haven't been read."""

    data_version: DataVersion = DataVersion()
    topic_config_table: msgspec.Raw = msgspec.Raw(b"{}")


class _BodyParts(msgspec.Struct, rename="camel"):
    """The same of a RegisterBody."""

    filter_server_list: msgspec.Raw = msgspec.Raw(b"[]")
    topic_config_serialize_wrapper: _TableParts = msgspec.field(default_factory=_TableParts)


def _topics(text: memoryview) -> Generator[None, None, dict[str, TopicConfig]]:
    """A map of topics, some of its text at a time."""
    if text.nbytes <= _STEP:
        return _decoded_topics(bytes(text))
    topics: dict[str, TopicConfig] = {}
    position = 1  # behind the brace
    while text.nbytes - position > _STEP:
        some = bytes(text[position : position + _STEP])
        found, end = yield from _some_topics(some)
        topics |= found
        _check_count(len(topics))
        position += some.index(b",", end) + 1
    yield
    topics |= _decoded_topics(b"{" + text[position:])
    return topics


def _some_topics(some: bytes) -> Generator[None, None, tuple[dict[str, TopicConfig], int]]:
    """The topics that are whole in a piece of a map, and where the last of them ends."""
    problem = BadRegistration(f"a topic of more than {_STEP} bytes")
    for end in _ends(some):
        yield
        try:
            return _decoded_topics(b"{" + some[:end] + b"}"), end
        except BadRegistration as error:
            problem = error
    raise problem


def _ends(some: bytes) -> list[int]:
    """Where a topic may end, the last place first."""
    for begin in (max(0, len(some) - _TAIL), 0):
        places = [found.end() for found in _END_OF_TOPIC.finditer(some, begin)]
        if places:
            return places[: -_TRIES - 1 : -1]
    return []


def _decoded_topics(data: bytes) -> dict[str, TopicConfig]:
    """A whole map. 5.x's attributes are left out: no route has them, and there may be many of a topic."""
    topics = _decoded(data, dict[str, TopicConfig], _STEP + 2)
    for name, topic in topics.items():
        if name != topic.topic_name:
            raise BadRegistration(f"the topic {topic.topic_name[:80]!r} stands under {name[:80]!r}")
        if topic.attributes is not msgspec.UNSET:
            topics[name] = msgspec.structs.replace(topic, attributes=msgspec.UNSET)
    return topics


def _decoded(data: bytes, kind: type[_T], most: int = MAX_PIECE) -> _T:
    if len(data) > most:
        raise BadRegistration(f"{len(data)} bytes of a registration are too many for their kind")
    try:
        return cast(_T, decoder(cast(Any, kind))(data))
    except (ValueError, RecursionError) as error:
        raise BadRegistration(f"not a RegisterBody: {error}") from None


def _check_count(topics: int) -> None:
    if topics > MAX_TOPICS:
        raise BadRegistration(f"{topics} topics in one registration, at most {MAX_TOPICS} are allowed")


def _inflated_body(plain: bytes) -> Generator[None, None, RegisterBody]:
    """Pieces in order: data version, topics, filter servers; what 5.x appends is ignored."""
    version_text, position = _piece(plain, 0)
    count, position = _number(plain, position)
    _check_count(count)
    topics = {}
    for index in range(count):
        if index % _LINES == 0 and len(plain) > SMALL:
            yield
        line, position = _piece(plain, position)
        topic = _parse_topic_line(line)
        topics[topic.topic_name] = topic
    filter_servers, _ = _piece(plain, position)
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


def _piece(plain: bytes, position: int) -> tuple[bytes, int]:
    size, position = _number(plain, position)
    if not 0 <= size <= MAX_PIECE or position + size > len(plain):
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
