"""The port of figures of a name server: what it shows is what it knows, and who asks."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.nameserver import build_name_server
from hatwisted.assembly.namesrvmonitoring import monitored_name_server
from hatwisted.clientcore.api import Tls
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerRole, NamesrvConfig
from hatwisted.config.tlskeys import TlsMode
from hatwisted.namesrv.routeinfo import LEASE
from hatwisted.remoting.client import RemotingClient
from hatwisted.tls.tlsconnecting import encrypted
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand
from tests.support.certificate import Issued, authority
from tests.support.figures import Figures, Once, Reader, page
from tests.support.memorynode import CLIENT_HOST, NAME_SERVER, MemoryNodes

HOST = NAME_SERVER.rpartition(":")[0]
FIGURES = f"{HOST}:5557"


class NamesrvMonitoringTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.nodes.folder.mkdir(parents=True, exist_ok=True)

    def config(self, **more: Any) -> NamesrvConfig:
        made = {
            "kv_config_path": str(self.nodes.folder / "kv.json"),
            "admin_allow_list": "*",
            "metrics_port": 5557,
            "metrics_address": HOST,
        }
        return NamesrvConfig(**made | more)

    def start(self, **more: Any) -> Any:
        parts = self.nodes.parts(HOST)
        service: Any = monitored_name_server(build_name_server(self.config(**more), parts), parts)
        service.startService()
        self.addCleanup(self.nodes.stop, service)
        return service

    def figures(self) -> Figures:
        self.nodes.pass_time(2)
        status, text = page(self.nodes, FIGURES, "/metrics")
        self.assertEqual(status, 200)
        return Figures(text)

    def register(self, client: RemotingClient, number: int = 0, group: str = "a", topics: int = 3) -> int:
        """As the broker whose connection `client` is."""
        table = {
            f"T{each}": {"topicName": f"T{each}", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
            for each in range(topics)
        }
        version = {"counter": 1, "timestamp": 1}
        body = {"topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table}}
        ext = {"brokerName": group, "brokerAddr": f"10.0.0.{number + 1}:10911", "clusterName": "c"}
        ext |= {"haServerAddr": "h:1", "brokerId": str(number), "compressed": "false", "bodyCrc32": "0"}
        made = self.request(RequestCode.REGISTER_BROKER, json.dumps(body).encode(), **ext)
        return int(self.nodes.result(client.call(NAME_SERVER, made, 15)).code)

    def request(self, code: int, body: bytes = b"", **ext: str) -> RemotingCommand:
        return RemotingCommand(code, ext=ext, body=body)

    def client(self) -> RemotingClient:
        made = RemotingClient(self.nodes.network.host("10.0.0.1"), self.nodes.clock)
        self.addCleanup(made.close)
        return made

    def test_without_a_port_there_is_none(self) -> None:
        parts = self.nodes.parts(HOST)
        service = build_name_server(self.config(metrics_port=None), parts)
        self.assertIs(monitored_name_server(service, parts), service)
        service.stopService()

    def test_what_brokers_have_registered(self) -> None:
        self.start()
        master, slave = self.client(), self.client()
        self.assertEqual(self.register(master), 0)
        self.assertEqual(self.register(slave, number=1), 0)
        self.assertEqual(self.register(master, number=4, group="b"), 0)  # of which no master is there
        shown = self.figures()
        for name, figure in (
            ("brokers", 3),
            ("broker_groups", 2),
            ("leaderless_groups", 1),
            ("topics", 3),
            ("routes", 3),
        ):
            self.assertEqual(shown(f"hatwisted_namesrv_{name}"), figure, name)
        self.assertEqual(shown("hatwisted_connections"), 2)

    def test_why_brokers_have_gone(self) -> None:
        self.start()
        master, slave, silent = self.client(), self.client(), self.client()
        self.register(slave, number=1)
        self.register(silent, number=2)
        self.register(master)
        self.nodes.result(slave.close())
        gone = self.request(
            RequestCode.UNREGISTER_BROKER,
            brokerName="a",
            brokerAddr="10.0.0.1:10911",
            brokerId="0",
            clusterName="c",
        )
        self.nodes.result(master.call(NAME_SERVER, gone, 15))
        self.assertEqual(self.figures()("hatwisted_namesrv_brokers"), 1)
        for _ in range(2):
            # Others speak on the connection, so it isn't idle; nobody speaks for the broker.
            self.nodes.pass_time(LEASE / 2 + 6, 1)
            self.nodes.result(silent.call(NAME_SERVER, self.request(RequestCode.GET_NAMESRV_CONFIG), 15))
        self.nodes.pass_time(12, 1)
        shown = self.figures()
        reasons = ("unregistered", "connection_closed", "lease_expired", "renamed")
        name = "hatwisted_namesrv_brokers_gone_total"
        self.assertEqual([shown(name, reason=reason) for reason in reasons], [1, 1, 1, 0])
        self.assertEqual(shown("hatwisted_namesrv_brokers"), 0)

    def test_what_is_asked_and_what_cant_be_read(self) -> None:
        self.start()
        client = self.client()
        for _ in range(3):
            self.nodes.result(
                client.call(NAME_SERVER, self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T"), 15)
            )
        for code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, 31_999):
            self.nodes.result(client.call(NAME_SERVER, self.request(code), 15))
        put = self.request(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
        self.nodes.result(client.call(NAME_SERVER, put, 15))
        shown = self.figures()
        asked = shown.labels("hatwisted_namesrv_requests_total")
        self.assertEqual(
            sorted(each["request"] for each in asked), ["GET_ROUTEINFO_BY_TOPIC", "PUT_KV_CONFIG"]
        )
        self.assertEqual(shown("hatwisted_namesrv_requests_total", request="GET_ROUTEINFO_BY_TOPIC"), 4)
        self.assertEqual(shown("hatwisted_namesrv_bad_requests_total"), 1)
        self.assertEqual(shown("hatwisted_namesrv_settings"), 2)

    def test_who_isnt_let_in(self) -> None:
        self.start(admin_allow_list="10.0.0.200", address_request_rate=2)
        client = self.client()
        put = self.request(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
        self.nodes.result(client.call(NAME_SERVER, put, 15))
        self.nodes.pass_time(5)
        for _ in range(6):
            self.nodes.result(client.call(NAME_SERVER, self.request(RequestCode.GET_NAMESRV_CONFIG), 15))
        self.nodes.visit(NAME_SERVER, Reader(b"\0\0\x10\0" + bytes(1000)))
        shown = self.figures()
        name = "hatwisted_requests_refused_total"
        self.assertEqual(shown(name, reason="administration"), 1)
        self.assertGreater(shown(name, reason="address_rate"), 0)
        self.assertEqual(shown("hatwisted_namesrv_requests_total", request="GET_NAMESRV_CONFIG"), 6)
        self.assertEqual(shown("hatwisted_incomplete_request_bytes"), 1004)

    def test_a_list_of_networks_keeps_others_from_both_ports(self) -> None:
        self.start(listen_allow_list=f"{CLIENT_HOST}")
        for address in (NAME_SERVER, FIGURES):
            stranger = Reader(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            self.nodes.visit(address, stranger, "10.0.0.66")
            self.assertTrue(stranger.closed)
            self.assertEqual(stranger.answer, b"")
        self.assertEqual(self.figures()("hatwisted_connections_refused_total"), 1)

    def test_connections_of_a_proxy_without_its_header_are_counted_there(self) -> None:
        self.start(proxy_protocol_from="10.0.0.66")
        stranger = Reader(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        self.nodes.visit(NAME_SERVER, stranger, "10.0.0.66")
        self.assertTrue(stranger.closed)
        self.assertEqual(self.figures()("hatwisted_connections_refused_total"), 1)

    def test_probes(self) -> None:
        service = self.start()
        for path in ("/healthz", "/readyz"):
            self.assertEqual(page(self.nodes, FIGURES, path), (200, "ok\n"))
        (_, names) = list(service)
        names.running = False  # as long as it starts or stops
        self.addCleanup(setattr, names, "running", True)
        self.assertEqual(
            page(self.nodes, FIGURES, "/readyz"), (503, "the name server is starting or stopping\n")
        )
        self.assertEqual(page(self.nodes, FIGURES, "/healthz"), (200, "ok\n"))

    def test_the_port_is_closed_with_the_name_server(self) -> None:
        service = self.start()
        self.nodes.stop(service)
        parts = self.nodes.parts(HOST)
        for port, interface in ((9876, ""), (5557, HOST)):
            parts.listening.claim(port, interface)

    def test_a_port_in_use_ends_the_start_and_gives_the_other_back(self) -> None:
        parts = self.nodes.parts(HOST)
        parts.listening.claim(5557, HOST)
        with self.assertRaises(SettingError) as raised:
            monitored_name_server(build_name_server(self.config(), parts), parts)
        self.assertEqual(raised.exception.key, "metricsPort")
        parts.listening.claim(9876, "")

    def test_over_tls_with_the_certificate_of_the_name_server(self) -> None:
        folder = self.nodes.folder
        Issued((HOST,), signed_by=authority()).write(folder, "server")
        authority().write(folder, "authority")
        self.start(
            metrics_tls_mode=TlsMode.ENFORCING,
            tls_server_mode=TlsMode.DISABLED,
            tls_server_cert_path=str(folder / "server.pem"),
            tls_server_key_path=str(folder / "server.key"),
        )
        self.assertEqual(page(self.nodes, FIGURES, "/metrics"), (0, ""))
        reader = Reader(f"GET /metrics HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        network = self.nodes.network.host(CLIENT_HOST)
        connecting = encrypted(network, self.nodes.clock, Tls(trust_file=str(folder / "authority.pem")))
        connecting.endpoint(HOST, 5557, 5.0).connect(Once(reader))
        self.nodes.pass_time(2)
        head, _, text = reader.answer.partition(b"\r\n\r\n")
        self.assertIn(b" 200 OK", head[:20])
        shown = Figures(text.decode())
        self.assertEqual(shown("hatwisted_tls_handshakes_total", result="completed"), 1)
        path = str(folder / "server.pem")
        self.assertGreater(
            shown("hatwisted_certificate_expiry_timestamp_seconds", path=path), self.nodes.clock.seconds()
        )

    def test_a_whole_group_is_seen(self) -> None:
        self.start()
        self.nodes.start(
            "10.0.0.1", broker_role=BrokerRole.SYNC_MASTER, namesrv_addr=NAME_SERVER, vip_listen_enable=False
        )
        self.nodes.start(
            "10.0.0.2",
            broker_role=BrokerRole.SLAVE,
            broker_id=1,
            namesrv_addr=NAME_SERVER,
            vip_listen_enable=False,
        )
        self.nodes.pass_time(12)
        shown = self.figures()
        self.assertEqual(shown("hatwisted_namesrv_brokers"), 2)
        self.assertEqual(shown("hatwisted_namesrv_leaderless_groups"), 0)
        self.assertGreaterEqual(shown("hatwisted_namesrv_requests_total", request="REGISTER_BROKER"), 2)
