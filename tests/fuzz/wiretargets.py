"""What peers send: frames of both protocols, headers, bodies."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from hatwisted.acl.needs import needs_of
from hatwisted.broker.consumer.heartbeat import parse_heartbeat
from hatwisted.broker.consumer.rebalancelocks import _parse as parse_locks
from hatwisted.broker.requests import BadClientData
from hatwisted.clientcore.answers import by_queue, decoded, decoded_route, number_in
from hatwisted.clientcore.errors import ClientError
from hatwisted.clientcore.message import decode_records
from hatwisted.clientcore.routes import merged, readable_queues, writable_queues
from hatwisted.ha.classic import ClassicFrames, ClassicReports
from hatwisted.pipeline.remote.pullanswer import PullRequest, read_answer
from hatwisted.sqlfilter.errors import Sql92Error
from hatwisted.sqlfilter.expression import Sql92Filter
from hatwisted.wire import fastjson
from hatwisted.wire.batch import CorruptBatch, decode_batch, encode_batch
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.fastjson import MAX_SLOW_REQUEST
from hatwisted.wire.haframe import HaProtocolError, encode_frames, encode_report
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.inflate import NotInflated, inflate
from hatwisted.wire.logrange import parse_begin, parse_bytes_wanted, parse_digests_wanted, parse_repair_wanted
from hatwisted.wire.messageid import BadMessageId, decode_message_id, encode_message_id
from hatwisted.wire.messagequeue import parse_queue_key, parse_queue_table
from hatwisted.wire.properties import NoDestination, decode_properties, destination, find_property, split_raw
from hatwisted.wire.proxyheader import ProxyHeaderError, parse_proxy_header
from hatwisted.wire.record import encode_record, make_record
from hatwisted.wire.registerbody import decode_register_body, encode_register_body
from hatwisted.wire.registration import (
    BadRegistration,
    ClusterInfo,
    DataVersion,
    MemberGroup,
    QueueData,
    RegisterBody,
    TopicConfig,
    TopicTable,
    decode_body,
    decode_request,
)
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    encode_command,
)
from hatwisted.wire.requestheader import (
    BadRequestField,
    SendHeader,
    parse_pull,
    parse_query_message,
    parse_register_broker,
    parse_send_v1,
    parse_send_v2,
)
from tests.fuzz.target import Target

SEND_V2 = dict(
    pair.split("=") for pair in "a=p b=T c=TBW102 d=4 e=0 f=0 g=1 h=0 i= j=0 k=false l=16 m=false".split()
)
FIELDS = SendHeader.__struct_fields__
EXTS: tuple[dict[str, str], ...] = (
    {
        "topic": "T",
        "queueId": "0",
        "queueOffset": "0",
        "consumerGroup": "g",
        "maxMsgNums": "32",
        "sysFlag": "4",
    },
    SEND_V2,
    {"brokerName": "b", "brokerAddr": "h:1", "clusterName": "c", "haServerAddr": "h:2", "brokerId": "0"},
    {"topic": "T", "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9"},
)


def pieces(data: bytes) -> list[bytes]:
    """A stream as it may arrive: cut at places that its own bytes choose."""
    found, at = [], 0
    while at < len(data):
        step = 1 + data[at] % 23
        found.append(data[at : at + step])
        at += step
    return found


def stream(make: Callable[[], Callable[[bytes], object]]) -> Callable[[bytes], None]:
    """Whole, and in pieces, of which a bad one may be noticed later."""

    def run(data: bytes) -> None:
        told = []
        for parts in ([data], pieces(data)):
            receive, found = make(), []
            try:
                for part in parts:
                    found.append(receive(part))
            except (RemotingProtocolError, HaProtocolError) as error:
                told.append(type(error))
            else:
                told.append(None)
        assert told[1] in (told[0], None), told

    return run


def commands() -> list[bytes]:
    made = [
        RemotingCommand(code, ext=ext, body=b"body")
        for code, ext in zip((11, 310, 103, 12), EXTS, strict=True)
    ]
    made += [msgspec.structs.replace(command, binary=True) for command in made]
    return [b"".join(encode_command(command) for command in made), *map(encode_command, made)]


def ext_of(data: bytes) -> dict[str, str]:
    """Fields as lines of name=value."""
    text = data.decode("utf-8", "replace")
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def lines(ext: Mapping[str, str]) -> bytes:
    return "\n".join(f"{name}={value}" for name, value in ext.items()).encode()


def headers(data: bytes) -> None:
    ext = ext_of(data)
    for parse in (
        *(parse_send_v1, parse_send_v2, parse_pull, parse_query_message, parse_register_broker),
        *(parse_digests_wanted, parse_bytes_wanted, parse_repair_wanted, parse_begin),
    ):
        with contextlib.suppress(BadRequestField):
            parse(ext)


def needs(data: bytes) -> None:
    """What a request needs of an account: asked before anything else is known of it."""
    code, _, rest = data.partition(b"\n")
    fields, _, body = rest.partition(b"\n\n")
    number = int.from_bytes(code[:2], "big")
    list(needs_of(RemotingCommand(number, ext=ext_of(fields), body=body)))


def json_text(data: bytes) -> None:
    value = fastjson.loads(data)
    again = fastjson.dumps_compact(value)
    assert fastjson.dumps_compact(fastjson.loads(again)) == again


def properties(data: bytes) -> None:
    pairs = dict(split_raw(data))
    assert decode_properties(data).keys() == {name.decode("utf-8", "replace") for name in pairs}
    for name in [*pairs][:8]:
        assert find_property(data, name) == pairs[name]
    destination(decode_properties(data))


def registration(data: bytes) -> None:
    """A byte of how, then the body."""
    decode_register_body(
        data[1:], compressed=bool(data[:1] > b"\x7f"), version=data[0] * 4 if data else 0, checksum=0
    )


def deflated(data: bytes) -> None:
    assert len(inflate(zlib.compress(data), 1 << 20)) == len(data)
    inflate(data, 1 << 20)


BODIES = (ClusterInfo, MemberGroup, DataVersion, TopicTable, TopicConfig)


def a_route(data: bytes) -> Any:
    return decoded_route("b:1", RemotingCommand(0, flag=1, body=data))


def bodies(data: bytes) -> None:
    """The answers of name servers and brokers as clients, slaves and brokers take them; and requests, of which
    less is read, in the same way."""
    for kind in BODIES:
        answered, asked = (_decoded(decode, data, kind) for decode in (decode_body, decode_request))
        # What is passed over needn't be UTF-8, and may have numbers that are none.
        if answered is not None and len(data) < MAX_SLOW_REQUEST:
            assert asked == answered, (kind, data[:200])
    route = a_route(data)
    route = merged([route, route])
    writable_queues("T", route, 100)
    readable_queues("T", route)


def _decoded(decode: Callable[[bytes, type], Any], data: bytes, kind: type) -> Any:
    with contextlib.suppress(BadRegistration):
        return decode(data, kind)
    return None


def answer(data: bytes) -> None:
    fields, _, body = data.partition(b"\n\n")
    answer = RemotingCommand(0, flag=1, ext=ext_of(fields), body=body)
    decoded("b:1", answer, dict[str, Any])
    by_queue("b:1", decoded("b:1", answer, dict[str, int]))
    number_in("b:1", answer, "offset")


def queue_keys(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_queue_key(data.decode("utf-8", "replace"))
    parse_queue_table(fastjson.loads(data))


def proxy_header(data: bytes) -> None:
    """What is complete has one meaning, whatever follows."""
    found = parse_proxy_header(data)
    if found is not None:
        assert 0 < found.size <= len(data)
        assert parse_proxy_header(data[: found.size]) == found
        assert parse_proxy_header(data[: found.size - 1]) is None


def pulled(data: bytes) -> None:
    answer = RemotingCommand(0, flag=1, ext={"nextBeginOffset": "9", "minOffset": "0"}, body=data)
    read_answer(PullRequest("b:1", 0, 0, 9), answer)


def sql92(data: bytes) -> None:
    found = Sql92Filter(data.decode("utf-8", "replace"))
    for values in ({}, {"a": "1", "b": "x"}, {"a": "9" * 400, "b": "-1.5e3"}):
        found.matches(values.get)


def heartbeat() -> bytes:
    subscription = {
        "topic": "T",
        "subString": "a || b",
        "subVersion": 1,
        "expressionType": "TAG",
        "tagsSet": ["a"],
    }
    group = {"groupName": "g", "consumeType": 1, "subscriptionDataSet": [subscription]}
    return json.dumps(
        {"clientID": "c", "consumerDataSet": [group], "producerDataSet": [{"groupName": "p"}]}
    ).encode()


def registrations() -> list[bytes]:
    table = TopicTable(topic_config_table={"T": TopicConfig(topic_name="T")})
    body = RegisterBody(topic_config_serialize_wrapper=table)
    return [b"\x60" + encode_register_body(body), b"\xe0" + encode_register_body(body, compressed=True)]


def records() -> list[bytes]:
    made = [make_record("T", b"body", queue_offset=n, raw_properties=b"TAGS\x01t") for n in range(3)]
    return [b"".join(map(encode_record, made))]


ROUTE = msgspec.json.encode(
    {
        "brokerDatas": [{"brokerAddrs": {"0": "h:1"}, "brokerName": "b", "cluster": "c"}],
        "queueDatas": [
            msgspec.to_builtins(QueueData(broker_name="b", perm=6, read_queue_nums=4, write_queue_nums=4))
        ],
        "filterServerTable": {},
    }
)
KEY = b'{"brokerName":"b","queueId":1,"topic":"T"}'
EXPRESSIONS = (
    b"a = 1 AND b IN ('x', 'it''s') OR NOT (c IS NOT NULL)",
    b"a BETWEEN -1 AND 2.5e3 -- all\n AND b > 0 /* x */",
    b"a <> TRUE OR a = b = c",
)

PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, 0x11, 0, 12, 10, 1, 2, 3, 10, 0, 0, 1, 0, 80, 0, 81])

WIRE = {
    "proxy-header": Target(
        proxy_header,
        (ProxyHeaderError,),
        lambda: [b"PROXY TCP4 10.1.2.3 10.0.0.1 50312 10911\r\n", b"PROXY UNKNOWN\r\nrest", PROXY_2],
    ),
    "remoting": Target(
        stream(lambda: RemotingReceiver(typed_sends=True).receive),
        (),
        commands,
        once=(lambda data: RemotingReceiver(typed_sends=True).receive(data),),
    ),
    "ha-frames": Target(
        stream(lambda: ClassicFrames(1 << 16).receive),
        (),
        lambda: [b"".join(encode_frames(0, bytes(100), 30)), encode_report(5)],
        once=(lambda data: ClassicFrames(1 << 16).receive(data),),
    ),
    "ha-reports": Target(
        stream(lambda: ClassicReports().receive),
        (),
        lambda: [encode_report(5) * 3],
        once=(lambda data: ClassicReports().receive(data),),
    ),
    "headers": Target(headers, (), lambda: map(lines, EXTS)),
    "needs": Target(
        needs,
        (BadRequestField, BadClientData, fastjson.FastjsonError),
        lambda: [
            struct.pack(">H", code)
            + b"\n"
            + lines(EXTS[n % 4])
            + b"\n\n"
            + (heartbeat() if code == 34 else b"")
            for n, code in enumerate(RequestCode)
        ],
    ),
    "json": Target(
        json_text,
        (fastjson.FastjsonError,),
        lambda: [heartbeat(), ROUTE, b"{1:{'a':01,},x:[,]}", b'{"a":"\\x41\\u0041\\/"}'],
    ),
    "batch": Target(
        decode_batch, (CorruptBatch,), lambda: [encode_batch([(0, b"body", b"TAGS\x01t"), (1, b"", b"")])]
    ),
    "properties": Target(
        properties,
        (NoDestination,),
        lambda: [b"TAGS\x01t\x02KEYS\x01a b\x02REAL_TOPIC\x01T\x02REAL_QID\x017\x02"],
    ),
    "registration": Target(registration, (BadRegistration,), registrations),
    "inflate": Target(deflated, (NotInflated,), lambda: [zlib.compress(b"x" * 1000)]),
    "heartbeat": Target(
        lambda data: parse_heartbeat(fastjson.loads_request(data)),
        (BadClientData, fastjson.FastjsonError),
        lambda: [heartbeat()],
    ),
    "locks": Target(
        parse_locks,
        (BadClientData, fastjson.FastjsonError),
        lambda: [b'{"consumerGroup":"g","clientId":"c","mqSet":[' + KEY + b"]}"],
    ),
    "bodies": Target(
        bodies,
        (ClientError,),
        lambda: [ROUTE],
        once=(*(partial(decode_body, kind=kind) for kind in BODIES), a_route),
    ),
    "answers": Target(answer, (ClientError,), lambda: [b"offset=1\n\n" + b"{" + KEY + b":1}"]),
    "queue-keys": Target(queue_keys, (ValueError,), lambda: [KEY, b"{" + KEY + b":1}"]),
    "pulled": Target(pulled, (ClientError,), records),
    "received": Target(decode_records, (ValueError,), records),
    "message-id": Target(
        lambda data: decode_message_id(data.decode("latin-1")),
        (BadMessageId,),
        lambda: [encode_message_id(HostPort(b"\x7f\0\0\1", 1), 5).encode(), b"F" * 56],
        tries=1000,
    ),
    "sql92": Target(sql92, (Sql92Error,), lambda: EXPRESSIONS),
}
