"""Keys and defaults, compared with the lists taken from RocketMQ 4.9.7's own classes."""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from pathlib import Path
from typing import get_args

from msgspec.structs import fields
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.host import Host
from hatwisted.config.rocketmqkeys import UNSUPPORTED_KEYS, UNUSED_BROKER_KEYS, UNUSED_NAMESRV_KEYS
from hatwisted.config.schema import BrokerConfig, BrokerRole, NamesrvConfig
from hatwisted.config.tlskeys import LinkTlsKeys, TlsClientKeys

# class, key, default as Java prints it; one line for every setter of RocketMQ's configuration classes
ROCKETMQ_KEYS = Path(__file__).with_name("rocketmq-4.9.7-keys.tsv")

PACKAGE = Path(__file__).parents[3] / "hatwisted"

BROKER_CLASSES = {"BrokerConfig", "MessageStoreConfig", "NettyServerConfig", "NettyClientConfig"}
NAMESRV_CLASSES = {"NamesrvConfig", "NettyServerConfig"}

NOT_IN_4_9_7 = {
    "haFirstSync",
    "haAck",
    "haAuditRate",
    "idlePollMicros",
    "inSyncReplicas",
    "minInSyncReplicas",
    "haMaxGapNotInSync",
    "bindAddress",
    "brokerConfigPath",
    "embeddedNamesrv",
    "embeddedNamesrvPort",
    "vipListenEnable",
    "aclPlainFile",
    "listenAllowList",
    "adminAllowList",
    "proxyProtocolFrom",
    "haAllowList",
    "maxConnectionsPerAddress",
    "maxUnreadAnswerBytes",
    "maxUnacknowledgedBytesPerAddress",
    "addressRequestRate",
    "addressByteRate",
    "accountRequestRate",
    "accountByteRate",
    "failedLoginRate",
    "credentialsFile",
    "slaveSyncFirstDelay",
    "slaveSyncInterval",
    "metricsPort",
    "metricsAddress",
    "metricsTlsMode",
    "metricsTopics",
    "metricsGroups",
    "dashboardPort",
    "dashboardAddress",
    "dashboardPasswordFile",
    "dashboardTlsMode",
    *(field.encode_name for field in fields(LinkTlsKeys) if field.encode_name.startswith("haTls")),
    # RocketMQ's -D properties.
    *(field.encode_name for field in fields(TlsClientKeys) if field.encode_name.startswith("tls.")),
}

# Deliberately other than what the class holds, and why.
OTHER_DEFAULTS = {
    "listenPort": "a server's; both start-up classes set their own before they read the file",
    "slaveTimeout": "B75: 5 s unless the file says otherwise",
}


def rocketmq_keys(classes: set[str]) -> dict[str, str]:
    rows = (line.split("\t") for line in ROCKETMQ_KEYS.read_text().splitlines())
    return {key: default for owner, key, default in rows if owner in classes}


def keys(schema: type) -> set[str]:
    return {field.encode_name for field in fields(schema)}


def as_java_prints(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_of_configs(tree: ast.AST) -> set[str]:
    """Attributes that are read from something called `config`, or `changed` as a newer one is."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and (getattr(node.value, "attr", None) or getattr(node.value, "id", None)) in ("config", "changed")
    }


def behind_properties(schema: type, read: set[str]) -> set[str]:
    """Fields that the schema's properties in `read` are made of."""
    (body,) = ast.parse(inspect.getsource(schema)).body
    assert isinstance(body, ast.ClassDef)
    made_of = {
        each.name: {
            node.attr
            for node in ast.walk(each)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
        }
        for each in body.body
        if isinstance(each, ast.FunctionDef)
    }
    found = set(read)
    while more := {name for each in found & made_of.keys() for name in made_of[each]} - found:
        found |= more
    return found


class Schema(SynchronousTestCase):
    def test_B14_every_broker_key_of_rocketmq_is_known(self) -> None:
        known = keys(BrokerConfig) | UNUSED_BROKER_KEYS
        self.assertEqual(set(rocketmq_keys(BROKER_CLASSES)) - known, set())

    def test_B14_every_namesrv_key_of_rocketmq_is_known(self) -> None:
        known = keys(NamesrvConfig) | UNUSED_NAMESRV_KEYS
        self.assertEqual(set(rocketmq_keys(NAMESRV_CLASSES)) - known, set())

    def test_no_key_is_both_used_and_unused(self) -> None:
        self.assertEqual(keys(BrokerConfig) & UNUSED_BROKER_KEYS, set())
        self.assertEqual(keys(NamesrvConfig) & UNUSED_NAMESRV_KEYS, set())
        self.assertEqual(set(UNSUPPORTED_KEYS) - UNUSED_BROKER_KEYS, set())

    def test_keys_besides_rocketmqs_are_the_documented_ones(self) -> None:
        self.assertEqual(keys(BrokerConfig) - set(rocketmq_keys(BROKER_CLASSES)), NOT_IN_4_9_7)

    def test_B18_defaults_are_rocketmqs(self) -> None:
        for schema, classes in ((BrokerConfig, BROKER_CLASSES), (NamesrvConfig, NAMESRV_CLASSES)):
            java = rocketmq_keys(classes)
            for field in fields(schema):
                key = field.encode_name
                if key in java and key not in OTHER_DEFAULTS and java[key] != "(of the host)":
                    self.assertEqual(as_java_prints(field.default), java[key], key)

    def test_every_key_has_a_reader(self) -> None:
        """A key that nothing reads would be a promise that isn't kept: it belongs to the unused ones."""
        texts = [path.read_text() for path in PACKAGE.rglob("*.py") if path.parent.name != "config"]
        reading = [text for text in texts if "config." in text or "changed." in text]
        read = {name for text in reading for name in read_of_configs(ast.parse(text))}
        for schema in (BrokerConfig, NamesrvConfig):
            read |= behind_properties(schema, read)
            for field in fields(schema):
                self.assertIn(field.name, read, field.encode_name)

    def test_a_reader_is_who_reads_from_a_configuration(self) -> None:
        text = (
            "self.one; config.two; self.config.three; parts.config.config.four; config.five = 5; settings.six"
        )
        self.assertEqual(read_of_configs(ast.parse(text)), {"two", "three", "config", "four"})
        self.assertIn("slave_timeout", behind_properties(BrokerConfig, {"slave_wait"}))
        self.assertNotIn("slave_timeout", behind_properties(BrokerConfig, {"name_servers"}))

    def test_B15_ports_follow_the_listen_port(self) -> None:
        config = BrokerConfig()
        self.assertEqual(
            (config.listen_port, config.ha_listen_port, config.vip_listen_port), (10911, 10912, 10909)
        )
        moved = BrokerConfig(listen_port=20911)
        self.assertEqual((moved.ha_listen_port, moved.vip_listen_port), (20912, 20909))
        self.assertEqual(NamesrvConfig().listen_port, 9876)

    def test_the_commit_log_lies_below_the_root(self) -> None:
        self.assertEqual(BrokerConfig(store_path_root_dir="/data/a").commit_log_path, "/data/a/commitlog")
        self.assertEqual(BrokerConfig(store_path_commit_log="/log").commit_log_path, "/log")

    def test_B75_slave_wait(self) -> None:
        self.assertEqual(BrokerConfig().slave_wait, 5000)
        self.assertEqual(BrokerConfig(sync_flush_timeout=700).slave_wait, 700)
        self.assertEqual(BrokerConfig(slave_timeout=3000).slave_wait, 3000)

    def test_B68_copies_to_wait_for(self) -> None:
        self.assertEqual(BrokerConfig().copies_to_wait_for, 1)
        self.assertEqual(BrokerConfig(broker_role=BrokerRole.SYNC_MASTER).copies_to_wait_for, 2)
        self.assertEqual(
            BrokerConfig(broker_role=BrokerRole.SYNC_MASTER, in_sync_replicas=3).copies_to_wait_for, 3
        )

    def test_name_servers(self) -> None:
        self.assertEqual(BrokerConfig(namesrv_addr="a:1; b:2;").name_servers, ["a:1", "b:2"])
        self.assertEqual(BrokerConfig().name_servers, [])

    def test_every_field_has_a_rule_that_reads_its_default(self) -> None:
        host = Host("here", "10.0.0.1", "/home/rocketmq")
        for config in (BrokerConfig(**host.of_broker()), NamesrvConfig(**host.of_name_server())):
            for field in fields(config):
                rule = get_args(field.type)[1]
                value = getattr(config, field.name)
                text = "" if value is None else as_java_prints(value)
                self.assertEqual(rule.parse(text), value, field.encode_name)
