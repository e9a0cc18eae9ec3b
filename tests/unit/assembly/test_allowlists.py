"""Who may connect, who may change what, and the line that says who has: whole nodes in memory."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from unittest import mock

from twisted.internet.defer import fail, gatherResults
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl.audittrail import MAX_STATE
from hatwisted.assembly.nameserver import embed_name_server
from hatwisted.broker.admin import auditedstate
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import ClientError
from hatwisted.config.schema import BrokerRole
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.processortable import response
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registerbody import encode_register_body
from hatwisted.wire.registration import DataVersion, RegisterBody, TopicTable
from hatwisted.wire.remoting import RemotingCommand
from tests.support.memorynode import CLIENT_HOST, NAME_SERVER, MemoryNodes, Visitor
from tests.unit.acl.files import ADMIN, SAMPLE, USER, request

MASTER, SLAVE, OTHER = "10.0.0.1", "10.0.0.2", "10.7.0.50"
ADDRESS = f"{MASTER}:10911"
TOPIC = {
    "topic": "Orders",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
}


class AllowListCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self.note)
        self.addCleanup(globalLogPublisher.removeObserver, self.note)

    def note(self, event: Any) -> None:
        self.lines.append(formatEvent(event))

    def ask(
        self,
        code: int,
        host: str = CLIENT_HOST,
        to: str = ADDRESS,
        account: Credentials | None = None,
        body: bytes = b"",
        **ext: str,
    ) -> RemotingCommand:
        client = RemotingClient(self.nodes.network.host(host), self.nodes.clock)
        try:
            return self.nodes.result(client.call(to, request(code, account, body, **ext), 5))
        finally:
            client.close()

    def audited(self) -> list[tuple[str, dict[str, Any]]]:
        """(event, what it says) of each line of the audit."""
        found = [line.split(" ", 2) for line in self.lines if line.startswith("audit ")]
        return [(event, json.loads(text)) for _, event, text in found]


class ListenTests(AllowListCase):
    def test_a_masters_own_name_server_lets_it_in(self) -> None:
        host, closed = "127.0.0.1", {"listen_allow_list": "10.7.0.0/16"}
        own = embed_name_server(self.nodes.config(host, **closed), self.nodes.parts(host))
        own.service.startService()
        self.addCleanup(self.nodes.stop, own.service)
        self.nodes.start(host, namesrv_addr=own.for_master, **closed)
        self.nodes.pass_time(1)
        self.assertIsNotNone(own.service.routes.group("broker-a"))
        self.assertRaises(ClientError, self.ask, RequestCode.GET_BROKER_CLUSTER_INFO, to=own.for_others)

    def test_only_those_of_the_list_are_let_in(self) -> None:
        self.nodes.start(MASTER, listen_allow_list="10.7.0.0/16;127.0.0.1")
        self.nodes.start_name_server(listen_allow_list="10.7.0.0/16")
        for address in (ADDRESS, f"{MASTER}:10909", NAME_SERVER):
            with self.assertRaises(ClientError):
                self.ask(RequestCode.GET_BROKER_CLUSTER_INFO, to=address)
            self.ask(RequestCode.GET_BROKER_CLUSTER_INFO, OTHER, to=address)
        refused = [line for line in self.lines if "listenAllowList doesn't have" in line]
        self.assertEqual(len(refused), 3, refused)
        self.assertIn(f"connection from {CLIENT_HOST} refused", refused[0])

    def test_B183_the_ha_port_has_a_list_of_its_own(self) -> None:
        node = self.nodes.start(MASTER, ha_allow_list=OTHER)
        stranger = Visitor()
        self.nodes.visit(f"{MASTER}:10912", stranger)
        self.assertFalse(stranger.transport.connected)  # type: ignore[union-attr]
        self.assertEqual((node.parts.ha.accepted_total, node.parts.ha.turned_away_total), (0, 1))
        self.nodes.play_slave(OTHER, f"{MASTER}:10912", 0)
        self.assertEqual(node.parts.ha.slave_hosts(), [OTHER])

    def test_who_is_not_in_it_is_closed_before_a_byte_is_read(self) -> None:
        node = self.nodes.start(MASTER, listen_allow_list="10.7.0.0/16")
        stranger = Visitor()
        self.nodes.visit(ADDRESS, stranger)
        self.assertFalse(stranger.transport.connected)  # type: ignore[union-attr]
        (factory,) = {each for each in node._factories if each.rejected_total}
        self.assertEqual((factory.rejected_total, dict(factory.connections)), (1, {}))


class AdministrationTests(AllowListCase):
    def test_B180_unless_an_operator_says_otherwise_only_its_own_host_changes_a_broker(self) -> None:
        self.nodes.start(MASTER, admin_allow_list=None)
        self.nodes.network.names[MASTER] = MASTER
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **TOPIC)
        self.assertEqual(answer.code, ResponseCode.NO_PERMISSION)
        self.assertIn("left to this host alone, not to 10.0.0.100", str(answer.remark))
        self.assertIn("adminAllowList", str(answer.remark))
        for code in (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.DELETE_EXPIRED_COMMITLOG):
            self.assertEqual(self.ask(code).code, ResponseCode.NO_PERMISSION)
        self.assertEqual(self.ask(RequestCode.GET_BROKER_CONFIG).code, ResponseCode.SUCCESS)
        self.assertEqual(self.nodes.send(ADDRESS), ResponseCode.SUCCESS)
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, MASTER, **TOPIC)
        self.assertEqual((answer.code, answer.remark), (ResponseCode.SUCCESS, None))

    def test_the_list_says_from_where(self) -> None:
        node = self.nodes.start(MASTER, admin_allow_list="10.7.0.0/16")
        for host, code in ((OTHER, 0), (CLIENT_HOST, 16), (MASTER, 16)):
            self.assertEqual(self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, host, **TOPIC).code, code, host)
        self.assertEqual(node.parts.entrance._admin_guard.denied_total, 2)

    def test_with_accounts_an_administrator_may_be_anywhere(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir()
        file.write_bytes(SAMPLE)
        acl = {"acl_enable": True, "acl_plain_file": str(file)}
        self.nodes.start(MASTER, admin_allow_list=None, **acl)
        self.assertEqual(self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, account=ADMIN, **TOPIC).code, 0)
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, account=USER, **TOPIC)
        self.assertIn("Need admin permission", str(answer.remark))
        ((event, said),) = self.audited()
        self.assertEqual((event, said["by"]), ("topic.put", ADMIN.access_key))

    def test_and_from_the_list_alone_if_there_is_one(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir()
        file.write_bytes(SAMPLE)
        self.nodes.start(MASTER, acl_enable=True, acl_plain_file=str(file), admin_allow_list="10.7.0.0/16")
        topic = RequestCode.UPDATE_AND_CREATE_TOPIC
        self.assertEqual(self.ask(topic, account=ADMIN, **TOPIC).code, ResponseCode.NO_PERMISSION)
        self.assertEqual(self.ask(topic, OTHER, account=ADMIN, **TOPIC).code, ResponseCode.SUCCESS)

    def test_who_is_let_in_is_not_changed_by_a_request(self) -> None:
        self.nodes.start(MASTER)
        self.nodes.start_name_server()
        for line in (
            b"adminAllowList=*",
            b"listenAllowList=10.7.0.0/16",
            b"aclEnable=false",
            b"proxyProtocolFrom=*",
        ):
            refused = self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=line)
            self.assertIn("edit its file", str(refused.remark), line)
            refused = self.ask(RequestCode.UPDATE_NAMESRV_CONFIG, to=NAME_SERVER, body=line)
            self.assertEqual(refused.code, ResponseCode.NO_PERMISSION, line)

    def test_a_name_server_too(self) -> None:
        self.nodes.start_name_server(admin_allow_list=None)
        put = {"namespace": "n", "key": "k", "value": "v"}
        refused = self.ask(RequestCode.PUT_KV_CONFIG, to=NAME_SERVER, **put)
        self.assertEqual(refused.code, ResponseCode.NO_PERMISSION)
        here = NAME_SERVER.rpartition(":")[0]
        self.assertEqual(self.ask(RequestCode.PUT_KV_CONFIG, here, NAME_SERVER, **put).code, 0)


class AuditTests(AllowListCase):
    def test_each_change_says_who_and_what_it_was_before_and_after(self) -> None:
        self.nodes.start(MASTER, broker_config_path=str(self.nodes.folder / "broker.conf"))
        self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **TOPIC)
        self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=48\ndeleteWhen=05\n")
        group = json.dumps({"groupName": "billing", "retryMaxTimes": 3}).encode()
        self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
        self.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="billing")
        self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="Orders")
        lines = self.audited()
        self.assertEqual(
            [event for event, _ in lines],
            ["topic.put", "config.put", "group.put", "group.delete", "topic.delete"],
        )
        made, config, group_made, group_deleted, deleted = [said for _, said in lines]
        self.assertEqual((made["by"], made["from"].partition(":")[0]), (None, CLIENT_HOST))
        self.assertEqual(made["request"]["topic"], "Orders")
        self.assertEqual((made["before"], made["after"]["writeQueueNums"]), (None, 4))
        self.assertEqual((deleted["before"], deleted["after"]), (made["after"], None))
        self.assertEqual(config["before"], {"fileReservedTime": "72", "deleteWhen": "04"})
        self.assertEqual(config["after"], {"fileReservedTime": "48", "deleteWhen": "05"})
        self.assertEqual((group_made["before"], group_made["after"]["retryMaxTimes"]), (None, 3))
        self.assertEqual((group_deleted["before"]["retryMaxTimes"], group_deleted["after"]), (3, None))

    def test_a_secret_of_the_configuration_is_not_in_the_log(self) -> None:
        self.nodes.start(MASTER, tls_server_key_password="hush-hush")
        self.nodes.start_name_server()
        for code, address in (
            (RequestCode.UPDATE_BROKER_CONFIG, ADDRESS),
            (RequestCode.UPDATE_NAMESRV_CONFIG, NAME_SERVER),
        ):
            self.assertNotEqual(self.ask(code, to=address, body=b"tls.server.keyPassword=hush-hush").code, 0)
        self.assertEqual([event for event, _ in self.audited()], ["config.put", "config.put"])
        self.assertNotIn("hush-hush", "".join(self.lines))
        self.assertNotIn(b"hush-hush", self.ask(RequestCode.GET_BROKER_CONFIG).body)

    def test_one_that_fails_says_how(self) -> None:
        self.nodes.start(MASTER)
        self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, **TOPIC | {"topic": "\x1b[31m\u2028red\x7f"})
        self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"nonsense=1")
        self.assertEqual(
            [(event, said["failed"]) for event, said in self.audited()], [("topic.put", 1), ("config.put", 1)]
        )
        (line, _) = [line for line in self.lines if line.startswith("audit ")]
        self.assertTrue(line.isascii() and line.isprintable(), line)

    def test_one_that_breaks_has_its_line(self) -> None:
        node = self.nodes.start(MASTER)
        raised = RuntimeError("the disk is gone")

        def broken(*_: object) -> None:
            raise raised

        table = node.parts.processors
        table.register(RequestCode.DELETE_TOPIC_IN_BROKER, broken)
        table.register(RequestCode.UPDATE_BROKER_CONFIG, lambda *_: fail(raised))
        node._factories[0].serve(node.parts.entrance.protect(table, node.parts.states))
        self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="Orders")
        self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"deleteWhen=05")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)
        for said in (said for _, said in self.audited()):
            self.assertEqual((said["failed"], said["remark"]), (1, "RuntimeError: the disk is gone"))
        self.assertEqual([event for event, _ in self.audited()], ["topic.delete", "config.put"])

    def test_who_deletes_its_own_account_is_named(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir()
        file.write_bytes(SAMPLE)
        self.nodes.start(MASTER, acl_enable=True, acl_plain_file=str(file))
        self.ask(RequestCode.DELETE_ACL_CONFIG, account=ADMIN, accessKey=ADMIN.access_key)
        ((event, said),) = self.audited()
        self.assertEqual((event, said["by"]), ("account.delete", ADMIN.access_key))

    def test_secrets_are_not_in_it_and_it_has_an_end(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir()
        file.write_bytes(SAMPLE)
        self.nodes.start(MASTER, acl_enable=True, acl_plain_file=str(file))
        entry = {"accessKey": "newcomer", "secretKey": "hush-hush", "topicPerms": ",".join(["T=PUB"] * 2000)}
        self.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account=ADMIN, **entry)
        self.ask(RequestCode.DELETE_ACL_CONFIG, account=ADMIN, accessKey="newcomer")
        self.assertEqual([event for event, _ in self.audited()], ["account.put", "account.delete"])
        (put, deleted) = [line for line in self.lines if line.startswith("audit ")]
        self.assertNotIn("hush-hush", "".join(self.lines))
        self.assertNotIn(ADMIN.secret_key, "".join(self.lines))
        self.assertLess(len(put), 3 * MAX_STATE + 1000)
        self.assertIn("newcomer", deleted)

    def test_another_secret_shows_without_being_shown(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir()
        file.write_bytes(SAMPLE)
        self.nodes.start(MASTER, acl_enable=True, acl_plain_file=str(file))
        put = partial(self.ask, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account=ADMIN, accessKey="RocketMQ")
        for secret in ("hush-hush", "hush-hush", "quite-another"):
            self.assertEqual(put(secretKey=secret, secretkey=secret).code, 0)
        marks = []
        for _, said in self.audited():
            before, after = said["before"].pop("secretKey"), said["after"].pop("secretKey")
            self.assertEqual(said["before"], said["after"])
            marks.append((before, after))
        (old, new), (same, again), (former, latest) = marks
        self.assertEqual((new, new, again), (same, again, former))
        self.assertEqual(len({old, new, latest}), 3)
        for secret in ("hush-hush", "quite-another", "12345678"):
            self.assertNotIn(secret, "".join(self.lines))

    def test_one_that_is_only_half_done_says_what_is_left(self) -> None:
        node = self.nodes.start(MASTER)
        left = "not in its file"
        table = node.parts.processors
        table.register(RequestCode.UPDATE_BROKER_CONFIG, lambda _, asked: response(asked, remark=left))
        node._factories[0].serve(node.parts.entrance.protect(table, node.parts.states))
        self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"deleteWhen=05")
        ((_, said),) = self.audited()
        self.assertEqual((said["remark"], said["after"]), (left, {"deleteWhen": "04"}))

    def test_a_name_servers_changes(self) -> None:
        self.nodes.start_name_server()
        self.nodes.start(MASTER, namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(1)
        self.ask(RequestCode.PUT_KV_CONFIG, to=NAME_SERVER, namespace="n", key="k", value="v")
        self.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, to=NAME_SERVER, brokerName="broker-a")
        self.ask(RequestCode.UPDATE_NAMESRV_CONFIG, to=NAME_SERVER, body=b"orderMessageEnable=true")
        self.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, to=NAME_SERVER, topic="TBW102")
        (put, wiped, config, deleted) = self.audited()
        self.assertEqual((put[0], put[1]["before"], put[1]["after"]), ("setting.put", None, "v"))
        self.assertEqual(wiped[0], "route.read-only")
        self.assertIn("6", wiped[1]["before"])
        self.assertNotIn("6", wiped[1]["after"])
        self.assertEqual(config[1]["after"], {"orderMessageEnable": "true"})
        self.assertEqual((deleted[0], deleted[1]["after"]), ("route.delete", None))

    def test_who_displaces_a_living_broker_has_a_line(self) -> None:
        self.nodes.start_name_server()
        self.nodes.start(MASTER, namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(31)  # it renews: no line
        self.nodes.start(SLAVE, namesrv_addr=NAME_SERVER, broker_role=BrokerRole.SLAVE, broker_id=1)
        self.nodes.pass_time(1)
        self.assertEqual(self.audited(), [])
        group = {"brokerName": "broker-a", "clusterName": "DefaultCluster"}
        mine = {**group, "brokerId": "0", "brokerAddr": f"{OTHER}:10911", "haServerAddr": ""}
        registered = RegisterBody(topic_config_serialize_wrapper=TopicTable(data_version=DataVersion()))
        body = encode_register_body(registered)

        def say(code: int, host: str, **fields: str) -> list[tuple[str, Any, Any, str]]:
            self.lines.clear()
            self.ask(code, host, NAME_SERVER, body=body, **fields)
            return [
                (event, said["before"], said["after"], said["from"].partition(":")[0])
                for event, said in self.audited()
            ]

        old, new = (f"broker-a id 0 at {host}:10911, from {host}" for host in (MASTER, OTHER))
        slave = f"broker-a id 1 at {SLAVE}:10911, from {SLAVE}"
        kept = RemotingClient(self.nodes.network.host(OTHER), self.nodes.clock)
        self.addCleanup(kept.close)

        def register_mine() -> None:
            self.nodes.result(kept.call(NAME_SERVER, request(103, None, body, **mine), 5))

        register_mine()
        self.assertEqual(
            [(event, said["before"], said["after"]) for event, said in self.audited()],
            [("broker.displace", [old], [new])],
        )
        taken = {**mine, "brokerAddr": f"{SLAVE}:10911"}
        found = f"broker-a id 0 at {SLAVE}:10911, from {CLIENT_HOST}"
        self.assertEqual(
            say(103, CLIENT_HOST, **taken),
            [("broker.displace", [slave, new], [found], CLIENT_HOST)],
            "the one's address, and the other's place",
        )
        register_mine()
        self.assertEqual(say(104, CLIENT_HOST, **mine), [], "not its to say")
        self.assertEqual(say(104, OTHER, **mine), [("broker.unregister", [new], [], OTHER)])
        self.assertEqual(say(104, OTHER, **mine), [], "it's gone already")

    def test_progress_that_a_report_takes_back_has_a_line(self) -> None:
        node = self.nodes.start(MASTER)
        self.assertEqual(self.nodes.send(ADDRESS), ResponseCode.SUCCESS)
        offsets, join = node.parts.tables.offsets, RequestCode.JOIN_CONSUMER_OFFSET
        offsets.commit("readers", "T", 0, 1)
        reported = json.dumps({"offsetTable": {"T@readers": {"0": 1}}})
        for body in (reported, "no table"):
            self.ask(join, body=body.encode())
            self.assertEqual(self.audited(), [])
        later = int(self.nodes.clock.seconds() * 1000) + 5
        back = {"offsetTable": {"T@readers": {"0": 0}}, "resetTable": {"T@readers": {"0": later}}}
        escaped = json.dumps(back).replace("resetTable", "\\u0072esetTable")
        self.ask(join, body=escaped.encode())
        ((event, said),) = self.audited()
        self.assertEqual((event, said["before"]), ("progress.join", {"T@readers": {"0": 1}}))
        self.assertEqual(said["after"], {"T@readers": {"0": 0}})
        gone = {"offsetTable": {}, "resetTable": {"T@readers": {"-1": later + 5}}}
        wanted = [({"T@readers": {"queues": 1}}, {"T@readers": {"queues": 0}})]
        for lines in (wanted, []):  # the second time there's nothing to change
            self.lines.clear()
            self.ask(join, body=json.dumps(gone).encode())
            self.assertEqual([(said["before"], said["after"]) for _, said in self.audited()], lines)
        self.assertIsNone(offsets.query("readers", "T", 0))

    def test_a_report_is_read_once_for_both_looks(self) -> None:
        self.nodes.start(MASTER)
        reading = mock.Mock(side_effect=auditedstate.parse_progress)
        self.patch(auditedstate, "parse_progress", reading)
        self.ask(
            RequestCode.JOIN_CONSUMER_OFFSET, body=b'{"offsetTable":{},"resetTable":{"T@readers":{"0":1}}}'
        )
        self.assertEqual(reading.call_count, 1)


class RateTests(AllowListCase):
    SENDS = 30

    def sends(
        self,
        host: str = CLIENT_HOST,
        account: Credentials | None = None,
        size: int = 1,
        properties: str = "",
    ) -> list[int]:
        """Codes of the answers to as many sends at once."""
        client = RemotingClient(self.nodes.network.host(host), self.nodes.clock)
        fields = {
            "a": "p",
            "b": "T",
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": "1",
            "h": "0",
            "i": properties,
        }
        fields |= {"j": "0", "k": "false", "m": "false"}
        send = partial(request, RequestCode.SEND_MESSAGE_V2, account, bytes(size), **fields)
        waiting = gatherResults([client.call(ADDRESS, send(), 5) for _ in range(self.SENDS)])
        answers = self.nodes.result(waiting)
        client.close()
        return [answer.code for answer in answers]

    def test_an_address_has_its_rate_and_is_told(self) -> None:
        node = self.nodes.start(MASTER, address_request_rate=8)
        codes = self.sends()
        self.assertEqual(codes, [0] * 9 + [ResponseCode.SYSTEM_BUSY] * 21)
        self.assertEqual(node.parts.store.queue_end("T", 0), 9)
        self.assertEqual(self.sends(OTHER), codes)
        self.nodes.pass_time(10)
        self.assertEqual(self.sends(), codes)
        said = [line for line in self.lines if "asks for more than" in line]
        self.assertEqual(
            said, [f"{host} asks for more than 8 requests a second" for host in (CLIENT_HOST, OTHER)]
        )

    def test_bytes_have_one_too(self) -> None:
        # The rest of a frame is 300 bytes, more or less.
        self.nodes.start(MASTER, address_byte_rate=32 << 10)
        self.assertEqual(self.sends(size=8 << 10), [0] * 4 + [ResponseCode.SYSTEM_BUSY] * 26)

    def test_bytes_of_headers_count_among_them(self) -> None:
        for key in ("address_byte_rate", "account_byte_rate"):
            nodes = self.nodes = MemoryNodes(self)
            file = nodes.folder / "plain_acl.yml"
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(SAMPLE)
            nodes.start(MASTER, acl_enable=True, acl_plain_file=str(file), **{key: 32 << 10})
            codes = self.sends(account=ADMIN, properties="KEYS\x01" + 8192 * "k")
            self.assertEqual(codes, [0] * 4 + [ResponseCode.SYSTEM_BUSY] * 26, key)

    def test_an_account_has_one_wherever_it_is(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir()
        file.write_bytes(SAMPLE)
        self.nodes.start(MASTER, acl_enable=True, acl_plain_file=str(file), account_request_rate=8)
        self.assertEqual(self.sends(account=ADMIN).count(0), 9)
        self.assertEqual(self.sends(OTHER, account=ADMIN).count(ResponseCode.SYSTEM_BUSY), 30)
        # Tries of keys have a limit of their own.
        wrong = self.sends(account=Credentials(ADMIN.access_key, "wrong-key"))
        self.assertEqual(wrong[:10], [1] * 10)

    def test_nobody_asks_at_anothers_expense(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir()
        file.write_bytes(SAMPLE)
        self.nodes.start(MASTER, acl_enable=True, acl_plain_file=str(file), account_request_rate=8)
        pretends = Credentials(ADMIN.access_key, "wrong-key")
        self.assertEqual(self.sends("192.168.0.7", pretends).count(0), 9)
        self.assertEqual(self.sends(account=ADMIN).count(0), 9)

    def test_without_rates_nobody_counts(self) -> None:
        node = self.nodes.start(MASTER)
        self.assertEqual(self.sends(), [0] * self.SENDS)
        handlers = node._factories[0].table.batch_handlers
        self.assertNotIsInstance(handlers[RequestCode.SEND_MESSAGE_V2], partial)
