"""A group whose brokers let in only who has an account: clients, administrators and the slave."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.nameserver import build_name_server
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.api import ConsumeFrom, Credentials, Message, Refused, SendFailed
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerRole, NamesrvConfig
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from tests.support.memorynode import CLIENT_HOST, NAME_SERVER, MemoryNodes
from tests.unit.acl.files import ADMIN, SAMPLE, SECRET, USER, request

MASTER, SLAVE, CLIENT = "10.0.0.1", "10.0.0.2", "10.0.0.50"
ADDRESS = f"{MASTER}:10911"


class AccountsCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.nodes.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.nodes.folder / "plain_acl.yml"
        self.file.write_bytes(SAMPLE)
        self.names = self.nodes.start_name_server()
        self.shared = {"namesrv_addr": NAME_SERVER, "acl_enable": True, "acl_plain_file": str(self.file)}

    def start_master(self, **changes: Any) -> Any:
        self.master = self.nodes.start(MASTER, **self.shared | changes)
        self.nodes.pass_time(1)
        return self.master

    def ask(
        self, code: int, account: Credentials | None = ADMIN, body: bytes = b"", **ext: str
    ) -> RemotingCommand:
        return self.nodes.result(self.nodes.client.call(ADDRESS, request(code, account, body, **ext), 15))

    def cluster(self, account: Credentials | None) -> Cluster:
        network = self.nodes.network.host(CLIENT)
        made = Cluster(self.nodes.clock, NAME_SERVER, connecting=network, credentials=account)
        self.addCleanup(lambda: self.nodes.result(made.close(), 60))
        return made


class ClientTests(AccountsCase):
    def test_who_may_publish_and_subscribe_does(self) -> None:
        self.start_master()
        cluster = self.cluster(USER)
        self.nodes.result(self.cluster(ADMIN).admin().create_topic("topicB", queues=4))
        producer = cluster.producer("p")
        for coalesce in (False, True):
            producer = cluster.producer(f"p{coalesce}", coalesce=coalesce)
            self.nodes.result(producer.send(Message(topic="topicB", body=b"x")))
        seen: list[bytes] = []

        async def take(messages: Any) -> None:
            seen.extend(message.body for message in messages)

        consumer = cluster.consumer(
            "groupB", {"topicB": "*"}, on_messages=take, consume_from=ConsumeFrom.FIRST
        )
        self.nodes.result(consumer.start())
        self.nodes.pass_time(5)
        self.assertEqual(seen, [b"x", b"x"])

    def test_others_are_refused_and_the_reason_is_given(self) -> None:
        self.start_master()
        self.nodes.result(self.cluster(ADMIN).admin().create_topic("topicC", queues=4))
        for account, reason in (
            (None, "No accessKey is configured"),
            (Credentials("RocketMQ", "wrong-secret"), "Check signature failed for accessKey=RocketMQ"),
            (USER, "No default permission for topic:topicC"),
        ):
            producer = self.cluster(account).producer("p", retries=0)
            with self.assertRaises((SendFailed, Refused)) as refused:
                self.nodes.result(producer.send(Message(topic="topicC", body=b"x")))
            self.assertIn(reason, str(refused.exception))
            self.assertNotIn(SECRET, str(refused.exception))
        self.assertEqual(self.master.parts.store.log.max_offset, 0)

    def test_a_transaction_is_ended_by_who_may_publish_to_its_topic(self) -> None:
        """Where its message is to go says the half message; a request needn't say, or may say something else."""
        self.start_master()
        for topic in ("topicB", "topicC"):
            self.nodes.result(self.cluster(ADMIN).admin().create_topic(topic, queues=1))
        send = dict.fromkeys("deghj", "0") | {"a": "p", "c": "TBW102", "f": "4", "g": "1"}
        for number, topic in enumerate(("topicB", "topicC")):
            said = {**send, "b": topic, "i": "TRAN_MSG\x01true\x02PGROUP\x01p\x02"}
            sent = self.ask(RequestCode.SEND_MESSAGE_V2, ADMIN, b"x", **said)
            self.assertEqual(sent.code, 0, sent.remark)
            end = {
                "producerGroup": "p",
                "tranStateTableOffset": str(number),
                "commitLogOffset": str(int(sent.ext["msgId"][-16:], 16)),
                "commitOrRollback": "12",
            }
            for named in ({}, {"topic": "topicB"}):
                answer = self.ask(RequestCode.END_TRANSACTION, USER, **end, **named)
                refused = None if topic == "topicB" else "No default permission for topic:topicC"
                self.assertEqual(refused, answer.remark and answer.remark.partition(": ")[2])
            self.assertEqual(self.ask(RequestCode.END_TRANSACTION, ADMIN, **end).code, 0)
        for odd in ({"commitLogOffset": "x"}, {"commitLogOffset": "7"}, {}):
            answer = self.ask(RequestCode.END_TRANSACTION, USER, commitOrRollback="8", **odd)
            self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR)

    def test_without_accounts_everybody_is_let_in(self) -> None:
        self.start_master(acl_enable=False)
        self.assertEqual(self.nodes.send(ADDRESS), ResponseCode.SUCCESS)
        self.assertEqual(self.ask(RequestCode.GET_BROKER_CLUSTER_ACL_INFO).code, 3)


class SlaveTests(AccountsCase):
    def start_slave(self, **changes: Any) -> Any:
        slave = {"broker_role": BrokerRole.SLAVE, "broker_id": 1}
        return self.nodes.start(SLAVE, **self.shared | slave | changes)

    def test_a_slave_with_an_account_copies_log_and_tables(self) -> None:
        self.start_master()
        mine = self.nodes.folder / "tools.yml"
        mine.write_bytes(b"accessKey: rocketmq2\nsecretKey: 12345678\n")
        slave = self.start_slave(credentials_file=str(mine))
        self.nodes.result(self.cluster(ADMIN).admin().create_topic("topicB", queues=4))
        self.nodes.result(self.cluster(USER).producer("p").send(Message(topic="topicB", body=b"x")))
        self.nodes.pass_time(15)
        self.assertEqual(slave.parts.store.log.max_offset, self.master.parts.store.log.max_offset)
        self.assertIsNotNone(slave.parts.tables.topics.get("topicB"))

    def test_a_slave_from_a_listed_address_needs_none(self) -> None:
        self.file.write_bytes(SAMPLE.replace(b"192.168.0.*", SLAVE.encode()))
        self.start_master()
        slave = self.start_slave()
        self.nodes.result(self.cluster(ADMIN).admin().create_topic("topicB", queues=4))
        self.nodes.pass_time(15)
        self.assertIsNotNone(slave.parts.tables.topics.get("topicB"))

    def test_a_slave_without_one_gets_no_tables(self) -> None:
        self.start_master()
        slave = self.start_slave()
        self.nodes.result(self.cluster(ADMIN).admin().create_topic("topicB", queues=4))
        self.nodes.pass_time(15)
        self.assertIsNone(slave.parts.tables.topics.get("topicB"))


class AdministrationTests(AccountsCase):
    def test_accounts_are_made_changed_and_deleted(self) -> None:
        self.start_master()
        fresh = Credentials("newcomer", "hush-hush")
        entry = {
            "accessKey": "newcomer",
            "secretKey": "hush-hush",
            "admin": "false",
            "topicPerms": "T=PUB,U=SUB",
        }
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, **entry)
        self.assertEqual((answer.code, answer.remark), (0, None))
        self.assertEqual(self.ask(RequestCode.GET_MAX_OFFSET, fresh, topic="T", queueId="0").code, 0)
        self.assertIn("No default", str(self.ask(RequestCode.SEND_MESSAGE_V2, fresh, b="U", a="p").remark))
        self.assertEqual(self.ask(RequestCode.DELETE_ACL_CONFIG, accessKey="newcomer").code, 0)
        self.assertIn("No acl config", str(self.ask(RequestCode.GET_MAX_OFFSET, fresh).remark))

    def test_only_administrators_do_that(self) -> None:
        self.start_master()
        for code in (50, 51, 53, 54):
            answer = self.ask(code, USER, accessKey="newcomer", secretKey="hush-hush", globalWhiteAddrs="*")
            self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR)
            self.assertIn(f"Need admin permission for request code={code}", str(answer.remark))
        self.assertEqual(self.file.read_bytes(), SAMPLE)

    def test_bad_changes_have_rocketmqs_codes(self) -> None:
        self.start_master()
        short = self.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, accessKey="new", secretKey="hush-hush")
        self.assertEqual((short.code, "accessKey must have 7" in str(short.remark)), (209, True))
        word = {"accessKey": "newcomer", "secretKey": "hush-hush", "defaultTopicPerm": "ALL"}
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, **word)
        self.assertEqual((answer.code, "'ALL' must be one of" in str(answer.remark)), (209, True))
        self.assertEqual(self.ask(RequestCode.DELETE_ACL_CONFIG, accessKey="nobody!").code, 210)
        listed = self.ask(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, globalWhiteAddrs="10.1")
        self.assertEqual(listed.code, 211)
        self.assertEqual(self.ask(RequestCode.DELETE_ACL_CONFIG).code, ResponseCode.SYSTEM_ERROR)
        self.assertEqual(self.file.read_bytes(), SAMPLE)

    def test_what_is_shown(self) -> None:
        self.start_master()
        listed = {"globalWhiteAddrs": "10.9.9.*,10.8.8.8", "aclFileFullPath": str(self.file)}
        self.assertEqual(self.ask(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, **listed).code, 0)
        info = self.ask(RequestCode.GET_BROKER_CLUSTER_ACL_INFO).ext
        self.assertEqual(json.loads(info["version"])["counter"], 1)
        self.assertEqual(list(json.loads(info["allAclFileVersion"])), [str(self.file)])
        self.assertEqual((info["brokerName"], info["brokerAddr"]), ("broker-a", ADDRESS))
        shown = json.loads(self.ask(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG).body)
        self.assertEqual(shown["globalWhiteAddrs"], ["10.9.9.*", "10.8.8.8"])
        self.assertEqual(
            [each["accessKey"] for each in shown["plainAccessConfigs"]], ["RocketMQ", "rocketmq2"]
        )
        self.assertEqual(shown["plainAccessConfigs"][0]["topicPerms"][1], "topicB=PUB|SUB")


class StartTests(AccountsCase):
    def refusal(self, **changes: Any) -> SettingError:
        return self.assertRaises(SettingError, self.nodes.start, MASTER, **self.shared | changes)

    def test_accounts_that_cannot_be_read_end_the_start(self) -> None:
        self.file.write_bytes(b"accounts: 7")
        error = self.refusal()
        self.assertEqual(
            (error.key, str(error)), ("aclEnable", f"{self.file}: accounts must be a list of accounts")
        )
        self.assertIn("set aclPlainFile, or rocketmqHome", str(self.refusal(acl_plain_file=None)))
        self.assertIn("doesn't exist", str(self.refusal(acl_plain_file=None, rocketmq_home="/nowhere")))

    def test_a_brokers_own_account_is_read_at_the_start(self) -> None:
        mine = self.nodes.folder / "tools.yml"
        error = self.refusal(credentials_file=str(mine))
        self.assertEqual(
            (error.key, str(error)), ("credentialsFile", f"{mine} can't be read: No such file or directory")
        )
        mine.write_bytes(b"accessKey: rocketmq2\n")
        self.assertIn("must have lines accessKey", str(self.refusal(credentials_file=str(mine))))


class NameServerTests(SynchronousTestCase):
    """A name server that asks for accounts: nobody else takes over a route, or is told one."""

    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.nodes.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.nodes.folder / "plain_acl.yml"
        self.file.write_bytes(SAMPLE)
        self.mine = self.nodes.folder / "tools.yml"
        self.mine.write_bytes(b"accessKey: rocketmq2\nsecretKey: 12345678\n")
        self.names = self.nodes.start_name_server(acl_enable=True, acl_plain_file=str(self.file))

    def ask(self, code: int, account: Credentials | None, **ext: str) -> RemotingCommand:
        return self.nodes.result(self.nodes.client.call(NAME_SERVER, request(code, account, b"", **ext), 15))

    def start_master(self, **changes: Any) -> None:
        self.nodes.start(MASTER, namesrv_addr=NAME_SERVER, **changes)
        self.nodes.pass_time(2)

    def test_a_broker_registers_as_an_administrator(self) -> None:
        self.start_master(credentials_file=str(self.mine))
        route = RequestCode.GET_ROUTEINFO_BY_TOPIC
        self.assertEqual(self.ask(route, USER, topic="TBW102").code, ResponseCode.SUCCESS)
        self.assertIn("No accessKey", str(self.ask(route, None, topic="TBW102").remark))

    def test_without_an_account_it_is_not_in_the_routes(self) -> None:
        self.start_master()
        self.assertEqual(self.names.routes.topics(), [])

    def test_an_account_that_is_none_of_an_administrator_takes_over_nothing(self) -> None:
        self.start_master(credentials_file=str(self.mine))
        stranger = {
            "brokerName": "broker-a",
            "brokerAddr": "203.0.113.66:10911",
            "clusterName": "DefaultCluster",
        }
        stranger |= {"brokerId": "0", "haServerAddr": "203.0.113.66:10912"}
        for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER):
            self.assertIn("Need admin permission", str(self.ask(code, USER, **stranger).remark))
        group = self.names.routes.group("broker-a")
        self.assertEqual(group.broker_addrs, {0: ADDRESS})

    def test_an_edited_file_holds(self) -> None:
        self.file.write_bytes(SAMPLE.replace(b"192.168.0.*", CLIENT_HOST.encode()))
        self.nodes.pass_time(6)
        self.assertEqual(self.ask(RequestCode.GET_BROKER_CLUSTER_INFO, None).code, ResponseCode.SUCCESS)

    def test_an_account_has_its_rate(self) -> None:
        self.nodes.result(self.names.stopService())
        self.nodes.start_name_server(acl_enable=True, acl_plain_file=str(self.file), account_request_rate=4)
        route = RequestCode.GET_ROUTEINFO_BY_TOPIC
        codes = [self.ask(route, USER, topic="T").code for _ in range(6)]
        self.assertEqual(codes, [ResponseCode.TOPIC_NOT_EXIST] * 5 + [ResponseCode.SYSTEM_BUSY])

    def test_one_without_accounts_to_read_gives_its_port_back(self) -> None:
        parts = self.nodes.parts("10.0.0.8")
        with self.assertRaisesRegex(SettingError, "doesn't exist"):
            build_name_server(NamesrvConfig(acl_enable=True, acl_plain_file="/nowhere"), parts)
        build_name_server(NamesrvConfig(), parts)
