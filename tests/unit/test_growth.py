"""What others write is read once: eight times as long a body or file takes about eight times as long, whatever is
in it. Some parsers have such tests beside their others (`tests/unit/wire/test_fastjson.py`,
`tests/unit/config/test_javaproperties.py`, `tests/unit/sqlfilter/test_expression.py`)."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.broker.consumer.heartbeat import MAX_SUBSCRIPTIONS_PER_GROUP, parse_heartbeat
from hatwisted.broker.consumer.rebalancelocks import _parse as parse_locks
from hatwisted.config.errors import ConfigError
from hatwisted.config.javaproperties import check_text, with_properties
from hatwisted.wire import fastjson, javaproperties
from hatwisted.wire.batch import MAX_ENTRIES, decode_batch, encode_batch
from hatwisted.wire.javaproperties import parse_properties
from hatwisted.wire.mendedjson import mended_json
from hatwisted.wire.registerbody import MAX_TOPICS, decode_register_body, encode_register_body
from hatwisted.wire.registration import RegisterBody, TopicConfig, TopicTable
from tests.support.growth import FACTOR, grows_linearly

Text = Callable[[int], bytes]
"""Makes a body or a file of about so many parts."""


def register(data: bytes) -> object:
    return decode_register_body(data, version=407)


def heartbeat(data: bytes) -> object:
    return parse_heartbeat(fastjson.loads_request(data))


def conf(data: bytes) -> object:
    check_text(data, "conf")
    return parse_properties(data, "conf")


def changed(data: bytes) -> object:
    return with_properties(data, {"a": "1", "zz": "2"})


def topics(size: int, *, compressed: bool = False) -> bytes:
    table = {f"topic-{number}": TopicConfig(topic_name=f"topic-{number}") for number in range(size)}
    return encode_register_body(
        RegisterBody(topic_config_serialize_wrapper=TopicTable(topic_config_table=table)), compressed
    )


def in_table(text: bytes) -> bytes:
    """As the topics of a registration."""
    return b'{"topicConfigSerializeWrapper":{"topicConfigTable":' + text + b"}}"


def subscribing(subscriptions: list[object]) -> bytes:
    group = {"groupName": "g", "subscriptionDataSet": subscriptions}
    return json.dumps({"clientID": "c", "consumerDataSet": [group]}).encode()


def locking(size: int) -> bytes:
    queues = [{"topic": f"t{number}", "brokerName": "b", "queueId": 0} for number in range(size)]
    return json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues}).encode()


def accounts(size: int) -> bytes:
    lines = (
        f"- accessKey: key-{number}\n  secretKey: 12345678\n  topicPerms: [a=PUB, b=SUB]\n"
        for number in range(size)
    )
    return b"accounts:\n" + "".join(lines).encode()


class GrowthTests(SynchronousTestCase):
    def check(self, read: Callable[[bytes], object], size: int, *texts: Text) -> None:
        """size: of the smaller inputs, such that the larger ones are within what is read at all."""
        for number, text in enumerate(texts):
            made = {each: text(each) for each in (size, FACTOR * size)}

            def work(size: int, made: dict[int, bytes] = made) -> None:
                with contextlib.suppress(ValueError, ConfigError):
                    read(made[size])

            self.assertTrue(grows_linearly(work, size), f"{read.__name__}, {number}")

    def test_what_grows_otherwise_is_noticed(self) -> None:
        def everywhere(data: bytes) -> object:
            return [sum(data[at:]) for at in range(len(data))]

        self.assertRaises(AssertionError, self.check, everywhere, 500, lambda size: b"x" * size)

    def test_B176_registrations(self) -> None:
        self.assertLess(FACTOR * 800, MAX_TOPICS)
        self.check(register, 800, topics, lambda size: topics(size, compressed=True))
        self.check(
            register,
            20_000,
            lambda size: in_table(b'{"t":{"topicName":"' + b"}," * size + b'"}}'),
            lambda size: in_table(b"{" + b'"t":{},' * size + b"}"),
            lambda size: in_table(b'{"t":"' + b'\\"' * size),
            lambda size: in_table(b"{" + b" " * size + b"}"),
            lambda size: b"{" * size,
            lambda size: b'{"x":"' + b"\\u0041" * size + b'"}',
            lambda size: zlib.compress(b"\0\0\0\2{}" + (50_000).to_bytes(4, "big") + bytes(4 * size)),
        )

    def test_B176_headers_with_invalid_text(self) -> None:
        self.check(
            mended_json,
            4000,
            lambda size: b'{"k":"' + b"\\ud800" * size + b'"}',
            lambda size: b'{"k":"' + b"\\ud83d\\ude80" * size + b'"}',
            lambda size: b'{"k":"' + b"\\" * (2 * size + 1),
            lambda size: b'{"k":"' + b"\\u" * size,
            lambda size: b'{"k":"' + b"\xff" * size + b'"}',
            lambda size: b'{"k":"' + b"\xf0\x9f\x9a" * size + b'"}',
            lambda size: b'{"k":"' + b"\x01" * size + b'"}',
        )

    def test_B176_heartbeats(self) -> None:
        self.assertLess(FACTOR * 800, MAX_SUBSCRIPTIONS_PER_GROUP)
        self.check(
            heartbeat,
            800,
            lambda size: subscribing([{"topic": f"t{n}", "subString": "a||b"} for n in range(size)]),
            lambda size: subscribing([{"topic": "t", "tagsSet": [f"tag{n}" for n in range(size)]}]),
            lambda size: subscribing([{"topic": "t", "subString": "||" * size}]),
            lambda size: subscribing([1] * size),
        )
        self.check(
            heartbeat,
            100,
            lambda size: json.dumps(
                {"clientID": "c", "producerDataSet": [{"groupName": f"g{n}"} for n in range(size)]}
            ).encode(),
        )

    def test_B176_locks(self) -> None:
        self.check(parse_locks, 400, locking)
        self.check(
            parse_locks,
            1000,
            lambda size: b'{"consumerGroup":"g","clientId":"c","mqSet":[' + b"1," * size + b"1]}",
            lambda size: b'{"consumerGroup":"' + b'\\"' * size,
        )

    def test_B176_files_of_accounts(self) -> None:
        self.check(parse_acl_file, 50, accounts)
        self.check(
            parse_acl_file,
            700,
            lambda size: b"globalWhiteRemoteAddresses: [" + b"10.0.0.1, " * size + b"]",
            lambda size: b'accounts: "' + b"\\x41" * size + b'"',
            lambda size: b"# x\n" * size,
            lambda size: b"accounts: " + b"a " * size,
            lambda size: b"a: &a [1]\nb: [" + b"*a, " * size + b"]",
            lambda size: b"".join(b"k%d: 1\n" % number for number in range(size)),
        )

    def test_B176_configurations(self) -> None:
        self.patch(javaproperties, "MAX_LINES", 1 << 20)
        texts: tuple[Text, ...] = (
            lambda size: b"a=1\n" * size,
            lambda size: b"a" + b"\\" * (2 * size + 1) + b"\nb=1",
            lambda size: b"a=" + b"\\u0041" * size,
            lambda size: b"a=" + b"\\ud83d" * size,
            lambda size: b"a" + b" " * size + b"=" + b" " * size + b"1",
            lambda size: b"\\\n" * size + b"a=1",
            lambda size: b"#\n" * size + b"\x01",
            lambda size: b"\r" * size + b"\0",
        )
        self.check(conf, 4000, *texts)
        self.check(changed, 4000, *texts)

    def test_B176_batches(self) -> None:
        self.assertLess(FACTOR * 900, MAX_ENTRIES)
        self.check(decode_batch, 900, lambda size: encode_batch([(0, b"x", b"KEYS\x01k")] * size))
