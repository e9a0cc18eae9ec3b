"""What a node writes is its owner's alone, and lies in its store whatever names come from the network."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.wire.codes import RequestCode
from tests.support.logbuilder import LogBuilder
from tests.support.memorynode import NAME_SERVER, MemoryNodes
from tests.unit.acl.files import ADMIN, SAMPLE, request

MASTER = "10.0.0.1"
ADDRESS = f"{MASTER}:10911"
ODD = (
    "../../escaped",
    "..",
    "/tmp/hatwisted-escaped",
    "a/b",
    "a\0b",
    "a\nb",
    ".",
    "x" * 4000,
    "config",
    "\ud800",
)


class PrivateFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.addCleanup(os.umask, os.umask(0o022))
        self.nodes = MemoryNodes(self)

    def modes(self) -> dict[str, int]:
        """Of all that lies in the test's folder."""
        return {str(path): path.stat().st_mode & 0o777 for path in self.nodes.folder.rglob("*")}

    def work(self, **changes: Any) -> None:
        """Have all kinds of files written: logs, queues, index, tables, settings, configuration, accounts."""
        acl = self.nodes.folder / "conf" / "plain_acl.yml"
        fs = self.nodes.parts(MASTER, **changes).file_system
        fs.makedirs(str(acl.parent))
        fs.open(str(acl), create=True).pwrite((SAMPLE,), 0)
        names = self.nodes.start_name_server()
        master = self.nodes.start(
            MASTER,
            self.nodes.parts(MASTER, **changes),
            namesrv_addr=NAME_SERVER,
            message_index_enable=True,
            max_hash_slot_num=100,
            max_index_num=100,
            acl_enable=True,
            acl_plain_file=str(acl),
            broker_config_path=str(self.nodes.folder / "conf" / "broker.conf"),
        )
        topic = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
        topic |= {"perm": "6", "topicFilterType": "SINGLE_TAG"}
        self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **topic)
        self.ask(RequestCode.UPDATE_BROKER_CONFIG, b"fileReservedTime=48")
        self.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, accessKey="newcomer", secretKey="hush-hush")
        self.nodes.ask(NAME_SERVER, RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
        fields = {"a": "p", "b": "T", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0"}
        fields |= {"i": "KEYS\x01k\x02", "j": "0", "k": "false", "m": "false"}
        self.ask(RequestCode.SEND_MESSAGE_V2, b"x", **fields)
        self.nodes.pass_time(15)
        self.nodes.stop(master)
        self.nodes.stop(names)

    def ask(self, code: int, body: bytes = b"", **ext: str) -> None:
        answer = self.nodes.result(self.nodes.client.call(ADDRESS, request(code, ADMIN, body, **ext), 15))
        self.assertEqual((answer.code, answer.remark), (0, None))

    def test_new_files_are_their_owners_alone(self) -> None:
        self.work()
        modes = self.modes()
        names = {Path(path).name for path in modes}
        self.assertLessEqual(
            {
                "commitlog",
                "consumequeue",
                "index",
                "topics.json",
                "kv.json",
                "broker.conf",
                "checkpoint",
                "lock",
            },
            names,
        )
        open_to_others = {path: oct(mode) for path, mode in modes.items() if mode & 0o077}
        self.assertEqual(open_to_others, {})

    def test_an_operators_mask_counts_instead(self) -> None:
        os.umask(0)
        self.work(file_system=PosixFileSystem(0o027))
        store = self.nodes.folder / MASTER
        found = {mode for path, mode in self.modes().items() if path.startswith(str(store))}
        self.assertEqual(found, {0o640, 0o750})


class OddNamesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.store = self.nodes.folder / MASTER

    def assert_nothing_outside(self) -> None:
        outside = [
            path for path in self.nodes.folder.iterdir() if path not in (self.store, self.store / "conf")
        ]
        self.assertEqual(outside, [])
        self.assertFalse(os.path.lexists("/tmp/hatwisted-escaped"))
        self.assertEqual([path for path in self.nodes.folder.parent.iterdir() if "escaped" in path.name], [])
        inside = {path.name for path in self.store.iterdir()}
        self.assertEqual(inside & {"escaped", "a", "0"}, set())

    def test_names_of_requests_make_no_files_elsewhere(self) -> None:
        self.nodes.start(MASTER)
        for name in ODD[:-1]:
            self.nodes.send(ADDRESS, topic=name)
            self.nodes.send(ADDRESS, topic=f"%RETRY%{name}")
            topic = {
                "topic": name,
                "defaultTopic": "TBW102",
                "readQueueNums": 1,
                "writeQueueNums": 1,
                "perm": 6,
            }
            self.nodes.ask(
                ADDRESS, RequestCode.UPDATE_AND_CREATE_TOPIC, topicFilterType="SINGLE_TAG", **topic
            )
            self.nodes.ask(ADDRESS, RequestCode.DELETE_TOPIC_IN_BROKER, topic=name)
            consumer = {"groupName": name, "subscriptionDataSet": [{"topic": name, "subString": "*"}]}
            beat = json.dumps({"clientID": name, "consumerDataSet": [consumer], "producerDataSet": []})
            self.nodes.ask(ADDRESS, RequestCode.HEART_BEAT, beat.encode())
            progress = {"consumerGroup": name, "topic": name, "queueId": 0, "commitOffset": 5}
            self.nodes.ask(ADDRESS, RequestCode.UPDATE_CONSUMER_OFFSET, **progress)
            group = json.dumps({"groupName": name}).encode()
            self.nodes.ask(ADDRESS, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group)
        self.nodes.pass_time(15)
        self.assert_nothing_outside()

    def test_names_of_a_copied_log_neither(self) -> None:
        """A hostile master's log has what it likes."""
        log = LogBuilder(file_size=1 << 20)
        for name in ODD[:7]:
            log.add(topic=name)
        log.add(topic="Honest")
        (self.store / "commitlog").mkdir(parents=True)
        (self.store / "commitlog" / f"{0:020}").write_bytes(bytes(log.data).ljust(1 << 20, b"\0"))
        node = self.nodes.start(MASTER)
        self.nodes.pass_time(1)
        self.assertEqual(node.parts.store.queue_end("Honest", 0), 1)
        self.assert_nothing_outside()
