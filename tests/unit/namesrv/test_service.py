"""The whole name server, on a network in memory: what brokers, clients and operators ask."""

import json
from functools import partial
from pathlib import Path

import msgspec
from twisted.internet import defer, task
from twisted.logger import Logger, formatEvent
from twisted.trial.unittest import TestCase

from hatwisted.acl import audittrail
from hatwisted.config.schema import NamesrvConfig
from hatwisted.namesrv import topicqueues
from hatwisted.namesrv.largeregistrations import MAX_OF_CONNECTION
from hatwisted.namesrv.service import NameServerPort, NameServerService
from hatwisted.remoting.client import RemotingClient
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.wire.registerbody import body_checksum, encode_register_body
from hatwisted.wire.registration import DataVersion, RegisterBody, TopicConfig, TopicTable, encode_body
from hatwisted.wire.remoting import RemotingCommand
from tests.support import golden
from tests.support.loopback import loopback
from tests.support.manualworker import ManualWorker


class ServiceCase(TestCase):
    """A running name server, and verbs to speak to it."""

    def setUp(self):
        self.clock = task.Clock()
        folder = Path(self.mktemp())
        folder.mkdir()
        self.settings_path = str(folder / "kvConfig.json")
        self.config_path = str(folder / "namesrv.properties")
        self.start()

    def start(self, worker=None):
        self.service = NameServerService(
            NamesrvConfig(
                listen_port=0, kv_config_path=self.settings_path, config_store_path=self.config_path
            ),
            self.clock,
            PosixFileSystem(),
            InlineWorker() if worker is None else worker,
            NameServerPort(partial(loopback.listen, 0, interface="127.0.0.1")),
        )
        self.service.startService()
        self.addCleanup(self.service.stopService)
        self.client = self.new_client()

    def new_client(self):
        client = RemotingClient(loopback, self.clock)
        self.addCleanup(client.close)
        return client

    def ask(self, code, body=b"", client=None, **ext):
        command = RemotingCommand(code, ext={k: str(v) for k, v in ext.items()}, body=body)
        return (client or self.client).call(self.service.address, command, 5)

    @defer.inlineCallbacks
    def get(self, code, **ext):
        answer = yield self.ask(code, **ext)
        self.assertEqual(answer.code, 0, answer.remark)
        return json.loads(answer.body)

    def register(
        self, broker=0, names=("T",), compressed=False, client=None, crc=None, as_id=None, ha=None, **fields
    ):
        wrapper = TopicTable(
            data_version=DataVersion(counter=1, timestamp=5),
            topic_config_table={
                name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, **fields)
                for name in names
            },
        )
        body = encode_register_body(RegisterBody(topic_config_serialize_wrapper=wrapper), compressed)
        return self.ask(
            103,
            body,
            client,
            brokerName="broker-a",
            brokerAddr=f"127.0.0.1:109{broker + 1}1",
            clusterName="DefaultCluster",
            haServerAddr=ha or f"127.0.0.1:109{broker + 1}2",
            brokerId=broker if as_id is None else as_id,
            compressed=str(compressed).lower(),
            bodyCrc32=body_checksum(body) if crc is None else crc,
        )


class TestBrokers(ServiceCase):
    @defer.inlineCallbacks
    def test_B109_B110_register_and_route_like_the_captured_answers(self):
        captured = golden.answers()
        master = yield self.register(0, names=("TopicA",))
        slave = yield self.register(1)
        self.assertEqual(master.ext, {})
        self.assertEqual(slave.ext, {"haServerAddr": "127.0.0.1:10912", "masterAddr": "127.0.0.1:10911"})
        route = yield self.get(105, topic="TopicA")
        wanted = (
            captured["NAMESRV_GET_ROUTEINFO_BY_TOPIC"]["body"].replace("{0:", '{"0":').replace(",1:", ',"1":')
        )
        self.assertEqual(route, json.loads(wanted))
        info = yield self.get(106)
        wanted = (
            captured["NAMESRV_GET_BROKER_CLUSTER_INFO"]["body"]
            .replace("{0:", '{"0":')
            .replace(",1:", ',"1":')
        )
        self.assertEqual(info, json.loads(wanted))

    @defer.inlineCallbacks
    def test_B109_compressed_body(self):
        answer = yield self.register(names=("A", "B"), compressed=True)
        self.assertEqual(answer.code, 0)
        self.assertEqual(sorted((yield self.get(206))["topicList"]), ["A", "B"])

    @defer.inlineCallbacks
    def test_B109_wrong_checksum_is_refused(self):
        answer = yield self.register(crc=1)
        self.assertEqual((answer.code, answer.remark), (1, "crc32 not match"))
        self.assertEqual((yield self.get(206))["topicList"], [])
        self.assertEqual((yield self.register(crc=0)).code, 0)

    @defer.inlineCallbacks
    def test_unreadable_body_or_missing_field_is_answered(self):
        answer = yield self.ask(103, b"{", brokerName="b", brokerAddr="h:1", clusterName="C", brokerId=0)
        self.assertEqual(answer.code, 1)
        answer = yield self.ask(103, b"", brokerName="b", brokerAddr="h:1", clusterName="C")
        self.assertEqual((answer.code, answer.remark), (1, "request field brokerId is missing"))

    @defer.inlineCallbacks
    def test_B113_closing_the_brokers_connection_removes_its_routes_at_once(self):
        broker = self.new_client()
        yield self.register(client=broker)
        yield self.get(105, topic="T")
        yield broker.close()
        answer = yield self.ask(105, topic="T")
        self.assertEqual(answer.code, 17)
        self.assertIn("for the topic: T", answer.remark)

    @defer.inlineCallbacks
    def test_B113_silent_broker_is_dropped_and_its_connection_closed(self):
        lost = defer.Deferred()
        broker = self.new_client()
        broker.on_lost(lost.callback)
        yield self.register(client=broker)
        for _ in range(13):
            # The other connection is not idle.
            yield self.ask(206)
            self.clock.advance(10)
        self.assertEqual((yield self.get(206))["topicList"], [])
        self.assertEqual((yield lost), self.service.address)

    @defer.inlineCallbacks
    def test_unregister(self):
        yield self.register()
        answer = yield self.ask(
            104, brokerName="broker-a", brokerAddr="127.0.0.1:10911", clusterName="DefaultCluster", brokerId=0
        )
        self.assertEqual(answer.code, 0)
        self.assertEqual((yield self.get(106)), {"brokerAddrTable": {}, "clusterAddrTable": {}})

    @defer.inlineCallbacks
    def test_B187_another_host_neither_unregisters_a_broker_nor_keeps_it_alive(self):
        broker, again = self.new_client(), self.new_client()
        stranger = RemotingClient(loopback.network.host("10.7.0.50"), self.clock)
        self.addCleanup(stranger.close)
        identity = {
            "brokerName": "broker-a",
            "brokerAddr": "127.0.0.1:10911",
            "clusterName": "C",
            "brokerId": 0,
        }
        same = encode_body(DataVersion(counter=1, timestamp=5))
        yield self.register(client=broker)
        answer = yield self.ask(104, client=stranger, **identity)
        remark = "127.0.0.1:10911 isn't of 10.7.0.50, and unregisters itself"
        self.assertEqual((answer.code, answer.remark), (16, remark))
        self.assertEqual(self.service.bad_requests, 1)
        yield self.get(105, topic="T")
        for _ in range(13):
            yield self.ask(904, client=stranger, **identity)
            answer = yield self.ask(322, same, stranger, **identity)
            self.assertEqual(answer.ext, {"changed": "true"})
            self.clock.advance(10)
        self.assertEqual((yield self.get(206))["topicList"], [])
        yield self.register(client=again)
        answer = yield self.ask(104, **identity)
        self.assertEqual(answer.code, 0)
        self.assertEqual((yield self.get(206))["topicList"], [])

    @defer.inlineCallbacks
    def test_B179_a_host_that_fills_its_share_leaves_room_for_others(self):
        self.patch(topicqueues, "MAX_ROUTES", 4)
        stranger = RemotingClient(loopback.network.host("10.7.0.50"), self.clock)
        self.addCleanup(stranger.close)
        answer = yield self.register(5, names=("A", "B", "C"), client=stranger, as_id=0)
        self.assertEqual((answer.code, "its share" in answer.remark), (1, True))
        answer = yield self.register(5, names=("A", "B"), client=stranger, as_id=0)
        self.assertEqual(answer.code, 0)
        answer = yield self.register(0, names=("C", "D"))
        self.assertEqual(answer.code, 0)

    @defer.inlineCallbacks
    def test_query_data_version(self):
        identity = {
            "brokerName": "broker-a",
            "brokerAddr": "127.0.0.1:10911",
            "clusterName": "C",
            "brokerId": 0,
        }
        same = encode_body(DataVersion(counter=1, timestamp=5))
        answer = yield self.ask(322, same, **identity)
        self.assertEqual((answer.ext, answer.body), ({"changed": "true"}, b""))
        yield self.register()
        answer = yield self.ask(322, same, **identity)
        self.assertEqual((answer.ext, answer.body), ({"changed": "false"}, same))
        answer = yield self.ask(322, encode_body(DataVersion(counter=2, timestamp=5)), **identity)
        self.assertEqual((answer.ext, answer.body), ({"changed": "true"}, same))

    @defer.inlineCallbacks
    def test_oneway_registration_of_one_new_topic_is_merged(self):
        yield self.register(names=("A", "B"))
        body = encode_register_body(
            RegisterBody(
                topic_config_serialize_wrapper=TopicTable(
                    data_version=DataVersion(counter=2, timestamp=6),
                    topic_config_table={"C": TopicConfig(topic_name="C")},
                )
            )
        )
        ext = {
            "brokerName": "broker-a",
            "brokerAddr": "127.0.0.1:10911",
            "clusterName": "DefaultCluster",
            "haServerAddr": "127.0.0.1:10912",
            "brokerId": "0",
        }
        self.client.oneway(self.service.address, RemotingCommand(103, ext=ext, body=body))
        self.assertEqual(sorted((yield self.get(206))["topicList"]), ["A", "B", "C"])

    @defer.inlineCallbacks
    def test_B113_a_slave_that_was_made_master_has_one_place_and_brings_its_topics(self):
        yield self.register(1)
        answer = yield self.ask(105, topic="T")
        self.assertEqual(answer.code, 17)
        yield self.register(1, as_id=0)
        route = yield self.get(105, topic="T")
        self.assertEqual(route["brokerDatas"][0]["brokerAddrs"], {"0": "127.0.0.1:10921"})

    @defer.inlineCallbacks
    def test_B110_slave_hears_the_masters_new_ha_address(self):
        yield self.register(0)
        yield self.register(0, ha="10.0.0.9:20912")
        answer = yield self.register(1)
        self.assertEqual(answer.ext, {"haServerAddr": "10.0.0.9:20912", "masterAddr": "127.0.0.1:10911"})

    @defer.inlineCallbacks
    def test_what_5x_brokers_may_ask(self):
        yield self.register(names=("A",))
        queues = [
            {"brokerName": name, "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}
            for name in ("broker-a", "x")
        ]
        answer = yield self.ask(217, json.dumps({"queueDatas": queues}).encode(), topic="One")
        self.assertEqual(answer.code, 0)
        route = yield self.get(105, topic="One")
        self.assertEqual([data["brokerName"] for data in route["queueDatas"]], ["broker-a"])
        group = yield self.get(901, clusterName="DefaultCluster", brokerName="broker-a")
        self.assertEqual(group["brokerMemberGroup"]["brokerAddrs"], {"0": "127.0.0.1:10911"})
        group = yield self.get(901, clusterName="DefaultCluster", brokerName="x")
        self.assertEqual(group, {})
        for _ in range(13):
            yield self.ask(904, brokerAddr="127.0.0.1:10911", brokerName="broker-a")
            self.clock.advance(10)
        self.assertIn("A", (yield self.get(206))["topicList"])

    @defer.inlineCallbacks
    def test_registration_of_5x_with_its_own_fields(self):
        body = (
            b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,'
            b'"timestamp":5},"mappingDataVersion":{"counter":0},"topicConfigTable":{"T":{"attributes":{"+a":"b"},'
            b'"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T",'
            b'"topicSysFlag":0,"writeQueueNums":4}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
        )
        answer = yield self.ask(
            103,
            body,
            brokerName="broker-a",
            brokerAddr="127.0.0.1:10911",
            clusterName="C",
            brokerId=0,
            enableActingMaster="false",
            heartbeatTimeoutMillis=1000,
            bodyCrc32=body_checksum(body),
        )
        self.assertEqual(answer.code, 0)
        self.assertEqual((yield self.get(206))["topicList"], ["T"])


class TestLargeRegistrations(ServiceCase):
    NAMES = tuple(f"Topic{index}" for index in range(3000))

    @defer.inlineCallbacks
    def answers(self, *asked):
        """All of them, once they are there."""
        for _ in range(1000):
            if all(answer.called for answer in asked):
                break
            self.clock.advance(0)
            yield self.ask(105, topic="?", client=self.other)
        return [self.successResultOf(answer) for answer in asked]

    @defer.inlineCallbacks
    def codes(self, *asked):
        """Of all answers."""
        return [answer.code for answer in (yield self.answers(*asked))]

    def setUp(self):
        super().setUp()
        self.other = self.new_client()

    @defer.inlineCallbacks
    def test_others_are_answered_between_its_steps(self):
        for compressed in (False, True):
            yield self.ask(105, topic="?", client=self.other)
            entered = self.register(names=self.NAMES, compressed=compressed)
            self.assertNoResult(entered)
            self.assertEqual((yield self.ask(105, topic="Topic2999", client=self.other)).code, 17)
            self.assertNoResult(entered)
            # It doesn't overtake: this one says that all topics but one are read only.
            later = self.register(names=("Topic7",), perm=4)
            self.assertEqual((yield self.codes(entered, later)), [0, 0])
            listed = self.ask(206)
            self.assertEqual((yield self.ask(105, topic="Topic2999", client=self.other)).code, 0)
            self.assertNoResult(listed)
            (answer,) = yield self.answers(listed)
            self.assertEqual(len(json.loads(answer.body)["topicList"]), 3000)
            yield self.ask(
                104, brokerName="broker-a", brokerAddr="127.0.0.1:10911", clusterName="C", brokerId=0
            )

    @defer.inlineCallbacks
    def test_what_is_wrong_with_it_is_answered_and_counted(self):
        self.assertEqual((yield self.codes(self.register(names=(*self.NAMES, "x" * 256)))), [1])
        entered = [self.register(names=self.NAMES) for _ in range(MAX_OF_CONNECTION + 1)]
        answer = yield entered.pop()
        self.assertEqual(answer.code, 2)
        self.assertEqual(self.service.bad_requests, 2)
        self.assertEqual((yield self.codes(*entered)), [0] * MAX_OF_CONNECTION)

    @defer.inlineCallbacks
    def test_nothing_stays_of_a_broker_that_has_gone(self):
        broker = self.new_client()
        entered = self.register(names=self.NAMES, client=broker)
        entered.addErrback(lambda _: None)
        yield self.ask(206)
        yield broker.close()
        yield self.ask(206)
        self.clock.advance(0)
        self.assertEqual((yield self.get(206))["topicList"], [])
        self.assertEqual(self.service.routes.size().routes, 0)


class TestOperators(ServiceCase):
    @defer.inlineCallbacks
    def test_unsupported_code_is_answered_with_3(self):
        answer = yield self.ask(9999)
        self.assertEqual((answer.code, answer.remark), (3, " request type 9999 not supported"))

    @defer.inlineCallbacks
    def test_write_permission_and_deletion(self):
        yield self.register(names=("A", "B"))
        answer = yield self.ask(205, brokerName="broker-a")
        self.assertEqual(answer.ext, {"wipeTopicCount": "2"})
        self.assertEqual((yield self.get(105, topic="A"))["queueDatas"][0]["perm"], 4)
        answer = yield self.ask(327, brokerName="broker-a")
        self.assertEqual(answer.ext, {"addTopicCount": "2"})
        self.assertEqual((yield self.get(105, topic="A"))["queueDatas"][0]["perm"], 6)
        yield self.ask(216, topic="A", clusterName="DefaultCluster")
        self.assertEqual((yield self.get(206))["topicList"], ["B"])

    @defer.inlineCallbacks
    def test_topic_lists(self):
        yield self.register(names=("A", "B"), topic_sys_flag=1)
        self.assertEqual((yield self.get(224, cluster="DefaultCluster"))["topicList"], ["A", "B"])
        system = yield self.get(304)
        self.assertEqual(
            system, {"topicList": ["DefaultCluster", "broker-a"], "brokerAddr": "127.0.0.1:10911"}
        )
        self.assertEqual((yield self.get(311))["topicList"], ["A", "B"])
        self.assertEqual((yield self.get(312))["topicList"], [])
        self.assertEqual((yield self.get(313))["topicList"], [])

    @defer.inlineCallbacks
    def test_an_edited_file_is_taken_over(self):
        before = self.service.config.config
        after = msgspec.structs.replace(before, order_message_enable=True, server_socket_backlog=7)
        Path(self.config_path).write_text("# edited\norderMessageEnable=true\nserverSocketBacklog=7\n")
        said = []
        self.patch(self.service, "_log", Logger(observer=lambda event: said.append(formatEvent(event))))
        audited = []
        self.patch(audittrail, "_log", Logger(observer=lambda event: audited.append(formatEvent(event))))
        self.service.reread(before, after)
        (line,) = audited
        self.assertEqual(
            json.loads(line.removeprefix("audit config.reread ")),
            {
                "by": None,
                "from": "file",
                "before": {"orderMessageEnable": "false"},
                "after": {"orderMessageEnable": "true"},
                "waiting": ["serverSocketBacklog"],
            },
        )
        self.assertEqual(
            said,
            ["configuration read again: in effect: orderMessageEnable; after a restart: serverSocketBacklog"],
        )
        yield self.ask(100, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        yield self.register()
        self.assertEqual((yield self.get(105, topic="T"))["orderTopicConf"], "broker-a:4")
        self.assertTrue(Path(self.config_path).read_text().startswith("# edited"), "a reading wrote it")
        yield self.ask(318, b"orderMessageEnable=false")
        self.assertEqual(
            Path(self.config_path).read_text(),
            "# edited\norderMessageEnable=false\nserverSocketBacklog=7\n",
        )

    @defer.inlineCallbacks
    def test_the_configuration_is_shown_and_changed(self):
        Path(self.config_path).write_text("# ours\norderMessageEnable=false\nlistenPort=9876\n")
        yield self.service.stopService()
        self.start()
        yield self.ask(100, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        yield self.register(names=("T", "U"))
        self.assertNotIn("orderTopicConf", (yield self.get(105, topic="T")))
        answer = yield self.ask(318, b"orderMessageEnable=true\nclusterTest=true\nserverSocketBacklog=7")
        self.assertEqual(answer.code, 0)
        self.assertEqual((yield self.get(105, topic="T"))["orderTopicConf"], "broker-a:4")
        self.assertNotIn("orderTopicConf", (yield self.get(105, topic="U")))
        shown = (yield self.ask(319)).body.decode().splitlines()
        self.assertIn("orderMessageEnable=true", shown)
        self.assertIn("serverSocketBacklog=7", shown)
        self.assertEqual(
            Path(self.config_path).read_text(),
            "# ours\norderMessageEnable=true\nlistenPort=9876\nserverSocketBacklog=7\n",
        )
        self.assertEqual((yield self.ask(318)).code, 0)

    @defer.inlineCallbacks
    def test_paths_are_not_changed_from_outside_and_wrong_values_change_nothing(self):
        before = (yield self.ask(319)).body
        for key in ("kvConfigPath", "configStorePath"):
            answer = yield self.ask(318, f"orderMessageEnable=true\n{key}=/etc/passwd".encode())
            self.assertEqual((answer.code, answer.remark), (16, "Can not update config path"))
        answer = yield self.ask(318, b"orderMessageEnable=true\nserverSocketBacklog=many")
        self.assertEqual(answer.code, 1)
        self.assertIn("serverSocketBacklog: can't be 'many'", answer.remark)
        answer = yield self.ask(318, b"orderMessageEnable=\\u12")
        self.assertEqual(answer.code, 1)
        self.assertEqual((yield self.ask(319)).body, before)
        self.assertFalse(Path(self.config_path).exists())

    @defer.inlineCallbacks
    def test_a_change_is_answered_once_it_is_in_its_file(self):
        worker = ManualWorker()
        self.start(worker)
        asked = self.ask(100, namespace="N", key="k", value="v")
        yield self.ask(319)
        for _ in range(2):  # what the change itself begins, and what its answer waits for
            worker.fail(OSError("the disk is full"))
        answer = yield asked
        self.assertEqual(answer.code, 0)
        told = f"done here, but not written to a file yet: {self.settings_path}: the disk is full"
        self.assertEqual(answer.remark, told)
        for code, body, ext in (
            (100, b"", {"namespace": "N", "key": "k", "value": "v"}),
            (102, b"", {"namespace": "N", "key": "k"}),
            (318, b"orderMessageEnable=true\n", {}),
        ):
            asked = self.ask(code, body, **ext)
            yield self.ask(319)
            self.assertNoResult(asked)
            worker.work()
            answer = yield asked
            self.assertEqual((answer.code, answer.remark), (0, None))

    @defer.inlineCallbacks
    def test_settings_survive_a_restart_and_reach_brokers(self):
        answer = yield self.ask(101, namespace="N", key="k")
        self.assertEqual(answer.code, 22)
        answer = yield self.ask(219, namespace="ORDER_TOPIC_CONFIG")
        self.assertEqual(answer.code, 22)
        self.assertEqual((yield self.register()).body, b"")
        yield self.ask(100, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        self.assertEqual((yield self.register()).body, b'{"table":{"T":"broker-a:4"}}')
        yield self.service.stopService()
        self.start()
        answer = yield self.ask(101, namespace="ORDER_TOPIC_CONFIG", key="T")
        self.assertEqual(answer.ext, {"value": "broker-a:4"})
        yield self.ask(102, namespace="ORDER_TOPIC_CONFIG", key="T")
        self.assertEqual((yield self.get(219, namespace="ORDER_TOPIC_CONFIG")), {"table": {}})
        written = json.loads(Path(self.settings_path).read_text())
        self.assertEqual(written, {"configTable": {"ORDER_TOPIC_CONFIG": {}}})
