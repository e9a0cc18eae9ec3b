"""What lies under config/, and what people type: tables, properties, accounts, patterns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from twisted.internet.task import Clock

from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.acl.addresspattern import AddressPattern
from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.consumer.progressbody import encode_progress, parse_progress
from hatwisted.broker.consumer.subscriptiongroup import GroupConfig, GroupTable, SubscriptionGroupTable
from hatwisted.broker.delay.delayoffsets import DelayOffsets
from hatwisted.broker.filter.consumerfilter import ConsumerFilterTable
from hatwisted.broker.role import Role
from hatwisted.broker.topic.topicconfig import FirstTopics, TopicConfigTable
from hatwisted.clientcore.credentialfile import parse_credentials
from hatwisted.clientcore.errors import BadSetting
from hatwisted.config.errors import ConfigError
from hatwisted.config.host import Host
from hatwisted.config.javaproperties import check_text, parse_properties, with_properties
from hatwisted.config.load import effective_text, load_broker_config
from hatwisted.config.schema import BrokerRole
from hatwisted.namesrv.kvconfig import KvConfig
from hatwisted.wire import fastjson, tablesteps
from hatwisted.wire.registerbody import at_once
from hatwisted.wire.registration import BadRegistration, TopicConfig, TopicTable, decode_body, encode_body
from tests.fuzz.target import Target
from tests.support.golden import GOLDEN, SQL92, answers

CONFIG = GOLDEN / "master" / "config"


def table(make: Callable[[], Any]) -> Callable[[bytes], None]:
    """What a table has taken over it writes, and takes over again."""

    def run(data: bytes) -> None:
        first, again = make(), make()
        first.decode(data)
        written = first.encode()
        again.decode(written)
        assert again.encode() == written, (written, again.encode())

    return run


def table_steps(data: bytes) -> None:
    """A master's table, read in steps, is what it is at once, or isn't for the same reason."""
    for kind in STEPPED:
        told: list[Any] = []
        for read in (partial(decode_body, data, kind[0]), lambda kind=kind: in_steps(data, kind)):
            try:
                told.append(read())
            except BadRegistration as error:
                told.append(error)
        once, steps = told
        if isinstance(once, BadRegistration) and not isinstance(steps, BadRegistration):
            # What isn't JSON was passed over.
            assert isinstance(once.__context__, fastjson.FastjsonError), (once, steps)
            assert decode_body(encode_body(steps), kind[0]) == steps
        else:
            assert str(once) == str(steps)
            assert type(once) is type(steps)


STEPPED = (
    (TopicTable, TopicConfig, "topic_config_table"),
    (GroupTable, GroupConfig, "subscription_group_table"),
)


def in_steps(data: bytes, kind: tuple[Any, ...]) -> Any:
    with mock.patch.multiple(tablesteps, SMALL=0, _ENTRIES=1):
        return at_once(tablesteps.decoding_table(data, *kind, {}))


def progress(data: bytes) -> None:
    """What master and slave tell each other of consumers."""
    found = parse_progress(data)
    parse_progress(encode_progress(found))
    offsets = ConsumerOffsetTable(Clock())
    offsets.follow(found)
    offsets.ahead_of(found)


def properties_file(data: bytes) -> None:
    check_text(data, "conf")
    entries = parse_properties(data, "conf")
    changes = {entry.key: entry.value for entry in entries if entry.key}
    again = {entry.key: entry.value for entry in parse_properties(with_properties(data, changes), "conf")}
    assert {key: again[key] for key in changes} == changes, (changes, again)


def broker_conf(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        loaded = load_broker_config(file.name, host=Host("h", "127.0.0.1", "/home"))
    effective_text(loaded)


def address(data: bytes) -> None:
    pattern = AddressPattern(data.decode("utf-8", "replace"))
    for text in ("127.0.0.1", "10.1.2.3", "::1", "fe80::1%eth0", pattern.text):
        pattern.matches(text)


def golden(name: str) -> Callable[[], list[bytes]]:
    return lambda: [(CONFIG / name).read_bytes()]


ACL = b"""globalWhiteRemoteAddresses: [10.*.1-9.{1,2}]
accounts:
- {accessKey: key, secretKey: "12345678", whiteRemoteAddress: , admin: false, defaultTopicPerm: DENY,
   defaultGroupPerm: SUB, topicPerms: [T=PUB|SUB], groupPerms: [g=SUB]}
"""
CONF = b"brokerName=b\nlistenPort=10911\ndeleteWhen = 4 \n# x\nstorePathRootDir=/a\\\n b\nbrokerRole=SLAVE\n"

FILES = {
    "topics": Target(
        table(lambda: TopicConfigTable(Clock(), FirstTopics(broker_name="b"))),
        (ValueError,),
        golden("topics.json"),
        tries=500,
    ),
    "groups": Target(
        table(lambda: SubscriptionGroupTable(Clock(), Role(BrokerRole.ASYNC_MASTER, 0))),
        (ValueError,),
        golden("subscriptionGroup.json"),
        tries=500,
    ),
    "table-steps": Target(
        table_steps,
        (),
        lambda: [
            *(
                answers()[f"GET_ALL_{each}_CONFIG"]["body"].encode()
                for each in ("TOPIC", "SUBSCRIPTIONGROUP")
            ),
            b'{"topicConfigTable":{"T":{"topicName":"T","perm":"x","perm":4,"x":"\xff"}}}',
            b'{"subscriptionGroupTable":{"g":{"groupName":"g","brokerId":"x"}},"forbiddenTable":{"g":{}}}',
            b'{"topicConfigTable":{T:{"topicName":"T"}}}',
        ],
        tries=300,
        once=tuple(partial(in_steps, kind=kind) for kind in STEPPED),
    ),
    "offsets": Target(
        table(lambda: ConsumerOffsetTable(Clock())), (ValueError,), golden("consumerOffset.json")
    ),
    "progress": Target(progress, (ValueError,), golden("consumerOffset.json")),
    "delays": Target(table(DelayOffsets), (ValueError,), golden("delayOffset.json")),
    "filters": Target(
        table(lambda: ConsumerFilterTable(Clock())),
        (ValueError,),
        lambda: [
            (CONFIG / "consumerFilter.json").read_bytes(),
            (SQL92 / "consumerFilter.json").read_bytes()[:4000],
        ],
        tries=500,
    ),
    "settings": Target(
        table(KvConfig), (ValueError,), lambda: [b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"b:4"}}}']
    ),
    "properties-file": Target(
        properties_file,
        (ConfigError,),
        lambda: [CONF],
        once=(lambda data: check_text(data, "conf"), lambda data: parse_properties(data, "conf")),
    ),
    "broker-conf": Target(broker_conf, (ConfigError,), lambda: [CONF], tries=300),
    "acl-file": Target(parse_acl_file, (ValueError,), lambda: [ACL]),
    "address-pattern": Target(
        address, (ValueError,), lambda: [b"10.*.1-9.{1,2}", b"*", b"fe80::{1,f}"], tries=1000
    ),
    "credentials": Target(
        lambda data: parse_credentials(data, "file"),
        (BadSetting,),
        lambda: [b"accessKey: a\nsecretKey: b\n"],
        tries=500,
    ),
}
