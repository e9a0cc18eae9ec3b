"""The port of figures of whole nodes: what it shows is what the broker has."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from cryptography import x509
from twisted.internet.base import DelayedCall
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.monitoring import monitored, sources
from hatwisted.assembly.pageports import metrics_address
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerRole
from hatwisted.metrics import trafficfigures
from hatwisted.metrics.exposition import Exposition
from hatwisted.metrics.health import Health
from hatwisted.metrics.linkwatch import LinkWatch
from hatwisted.metrics.web import MAX_CONNECTIONS, metrics_site
from hatwisted.timing.garbage import Pauses
from hatwisted.wire.codes import RequestCode
from tests.support.certificate import Issued, authority, link_keys
from tests.support.figures import Figures, Reader, page
from tests.support.growth import calls_of_steps
from tests.support.memorynode import NAME_SERVER, MemoryNodes

MASTER, SLAVE = "10.0.0.1", "10.0.0.2"

CALLS_OF_A_STEP = 20_000
"""Some two milliseconds. A hundred samples written down are half of it."""


class TurnClock(Clock):
    """A turn of the loop takes a second: what is put off until the next one isn't done in this one."""

    def callLater(self, when: float, what: Callable[..., object], *args: Any, **kwargs: Any) -> DelayedCall:
        return super().callLater(max(1.0, when), what, *args, **kwargs)


class MonitoredTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.nodes.start_name_server()
        self.services: dict[str, Any] = {}

    def start(self, host: str, role: BrokerRole = BrokerRole.ASYNC_MASTER, **more: Any) -> Any:
        parts = self.nodes.parts(host)
        made = {"namesrv_addr": NAME_SERVER, "metrics_port": 5557, "metrics_address": host}
        config = self.nodes.config(host, broker_role=role, **made | more)
        node = build_broker(config, parts)
        service = self.services[host] = monitored(node, parts)
        service.startService()
        self.addCleanup(self.nodes.stop, service)
        return node

    def pair(self, **more: Any) -> tuple[Any, Any]:
        nodes = (
            self.start(MASTER, BrokerRole.SYNC_MASTER, **more),
            self.start(SLAVE, BrokerRole.SLAVE, broker_id=1, **more),
        )
        self.nodes.pass_time(12)
        return nodes

    def send(self, count: int = 1, topic: str = "T") -> None:
        for _ in range(count):
            self.assertEqual(self.nodes.send(f"{MASTER}:10911", bytes(100), topic=topic), 0)

    def figures(self, host: str = MASTER) -> Figures:
        self.nodes.pass_time(2)
        status, text = page(self.nodes, f"{host}:5557", "/metrics")
        self.assertEqual(status, 200)
        return Figures(text)

    def test_figures_of_a_pair_are_those_of_its_logs(self) -> None:
        master, slave = self.pair()
        self.send(7)
        self.nodes.pass_time(6)
        end = master.parts.store.log.max_offset
        shown = self.figures()
        self.assertEqual(shown("hatwisted_log_end_offset"), end)
        self.assertEqual(shown("hatwisted_puts_total", status="PUT_OK"), 7)
        self.assertEqual(shown("rocketmq_messages_in_total", topic="(others)"), 7)
        self.assertEqual(shown("hatwisted_ha_slaves"), 1)
        self.assertEqual(shown("hatwisted_ha_copies_in_sync"), 2)
        self.assertEqual(shown("hatwisted_ha_links", state="live"), 1)
        self.assertEqual(shown("hatwisted_ha_link_acked_offset"), end)
        self.assertEqual(shown("hatwisted_ha_link_lag_bytes"), 0)
        self.assertEqual(shown("hatwisted_ha_link_lag_seconds"), 0)
        self.assertEqual(shown("hatwisted_ha_link_info", certificate=""), 1)
        for stage in ("append", "replicate"):
            self.assertEqual(shown("hatwisted_put_seconds_count", stage=stage), 7)
        own = self.figures(SLAVE)
        self.assertEqual(own("hatwisted_log_end_offset"), slave.parts.store.log.max_offset)
        self.assertEqual(own("hatwisted_ha_slave_state", state="transfer"), 1)
        self.assertEqual(own("hatwisted_ha_slave_master_end_offset"), end)
        self.assertEqual(own("hatwisted_ha_slave_lag_bytes"), 0)
        self.assertLess(own("hatwisted_ha_slave_tables_age_seconds"), 15)
        info = {"broker": "broker-a", "broker_id": "1", "role": "SLAVE", "cluster": "DefaultCluster"}
        self.assertEqual(own("hatwisted_broker_info", **info), 1)

    def test_a_slave_is_named_by_its_certificate(self) -> None:
        self.start(MASTER, **link_keys(self.nodes.folder, "master-1"))
        self.start(SLAVE, BrokerRole.SLAVE, broker_id=1, **link_keys(self.nodes.folder, "slave-1"))
        self.nodes.pass_time(12)
        self.assertEqual(self.figures()("hatwisted_ha_link_info", certificate="slave-1"), 1)

    def test_a_slave_that_stands_still_is_behind_in_bytes_and_seconds(self) -> None:
        self.start(MASTER)
        end = self.nodes_log(MASTER).max_offset
        played = self.nodes.play_slave("10.0.0.5", f"{MASTER}:10912", end)
        played.acks = False
        self.send(3)
        self.nodes.pass_time(10)
        shown = self.figures()
        self.assertEqual(shown("hatwisted_ha_link_lag_bytes"), self.nodes_log(MASTER).max_offset - end)
        self.assertTrue(9 <= shown("hatwisted_ha_link_lag_seconds") <= 15)

    def nodes_log(self, host: str) -> Any:
        (node,) = [each for each in self.services[host] if hasattr(each, "parts")]
        return node.parts.store.log

    def test_ends_of_links_are_counted_by_reason(self) -> None:
        master, _ = self.pair()
        self.nodes.stop(self.services[MASTER])
        self.nodes.pass_time(3)
        shown = self.figures(SLAVE)
        ends = {
            labels["reason"]: shown("hatwisted_ha_slave_link_ends_total", **labels)
            for labels in shown.labels("hatwisted_ha_slave_link_ends_total")
        }
        self.assertEqual(ends["closed by the master or the network"], 1)
        self.assertGreater(ends["master can't be reached"], 0)
        self.assertEqual(shown.labels("hatwisted_ha_slave_lag_bytes"), [])
        self.assertEqual(shown("hatwisted_ready"), 0)

    def test_a_refused_report_is_counted(self) -> None:
        self.start(MASTER)
        self.nodes.play_slave("10.0.0.5", f"{MASTER}:10912", 1 << 30)
        self.nodes.pass_time(1)
        reason = "offset ahead of the log"
        self.assertEqual(self.figures()("hatwisted_ha_refused_reports_total", reason=reason), 1)

    def test_topics_are_shown_if_asked_for_and_never_more_than_that(self) -> None:
        self.start(MASTER, metrics_topics=2)
        for number, topic in enumerate(("A", "B", "C", "D")):
            self.send(number + 1, topic)
        shown = self.figures()
        found = {
            labels["topic"]: shown("rocketmq_messages_in_total", topic=labels["topic"])
            for labels in shown.labels("rocketmq_messages_in_total")
        }
        self.assertEqual(found, {"A": 1, "B": 2, "(others)": 7})

    def test_lag_of_groups_as_rocketmq_5_and_the_exporter_show_it(self) -> None:
        self.start(MASTER, metrics_groups=1)
        self.send(5, "A")
        self.send(2, "B")
        for group, topic, offset in (("g", "A", 1), ("h", "B", 1)):
            self.nodes.ask(
                f"{MASTER}:10911",
                RequestCode.UPDATE_CONSUMER_OFFSET,
                consumerGroup=group,
                topic=topic,
                queueId=0,
                commitOffset=offset,
            )
        self.nodes.pass_time(3)
        shown = self.figures()
        self.assertEqual(shown("rocketmq_consumer_lag_messages", consumer_group="g", topic="A"), 4)
        self.assertEqual(shown("rocketmq_group_diff", group="g", topic="A", countOfOnlineConsumers="0"), 4)
        self.assertTrue(3000 <= shown("rocketmq_consumer_lag_latency", topic="A") <= 9000)
        self.assertEqual(len(shown.labels("rocketmq_group_diff")), 1)
        self.assertEqual(shown("hatwisted_consumer_lag_all_messages"), 5)
        self.assertEqual(shown("hatwisted_consumer_lag_left_out"), 1)

    def test_more_groups_than_are_walked_over_are_said_to_be_left_out(self) -> None:
        self.start(MASTER)
        self.patch(trafficfigures, "MAX_WALKED", 2)
        self.send(1, "A")
        for group in ("g", "h", "i"):
            fields = {"consumerGroup": group, "topic": "A", "queueId": 0, "commitOffset": 1}
            self.nodes.ask(f"{MASTER}:10911", RequestCode.UPDATE_CONSUMER_OFFSET, **fields)
        shown = self.figures()
        self.assertEqual(len(shown.labels("rocketmq_group_diff")), 2)
        self.assertEqual(shown("hatwisted_consumer_lag_left_out"), 1)

    def test_no_step_of_a_scrape_is_long_however_much_there_is_to_show(self) -> None:
        """Puts wait for a step. It's measured in calls, which every machine counts alike."""
        node = self.start(MASTER, metrics_topics=2000, metrics_groups=2000)
        tables, stats = node.parts.tables, node.parts.store.stats
        first = tables.topics.ensure("topic", 4)
        for number in range(2500):
            topic = f"topic-{number}"
            tables.topics._topics[topic] = first  # making each in order takes a minute
            stats.topic_puts[topic] = array("q", (number, number, 1))
            node.parts.consumer_admin.stats.count_get("g", topic, 1, 100)
            tables.offsets.commit("g", topic, 0, 0)
        watch = LinkWatch(self.nodes.clock, lambda: 0, lambda: None)
        exposition = Exposition(self.nodes.clock, sources(node, watch, Health(node), Pauses()))
        steps = calls_of_steps(exposition._make())
        self.assertGreater(len(steps), 200)
        self.assertLess(max(steps), CALLS_OF_A_STEP)

    def test_a_certificates_end_is_shown(self) -> None:
        self.nodes.folder.mkdir(parents=True, exist_ok=True)
        issued = Issued((MASTER,), signed_by=authority())
        issued.write(self.nodes.folder, "server")
        path = str(self.nodes.folder / "server.pem")
        key = str(self.nodes.folder / "server.key")
        self.start(MASTER, tls_server_cert_path=path, tls_server_key_path=key)
        self.assertEqual(
            self.figures()("hatwisted_certificate_expiry_timestamp_seconds", path=path),
            issued.certificate.not_valid_after_utc.timestamp(),
        )

    def test_so_is_that_of_the_ha_links_at_either_end(self) -> None:
        folder = self.nodes.folder
        self.start(MASTER, BrokerRole.SYNC_MASTER, **link_keys(folder, "master-1"))
        self.start(SLAVE, BrokerRole.SLAVE, broker_id=1, **link_keys(folder, "slave-1"))
        for host, name in ((MASTER, "master-1"), (SLAVE, "slave-1")):
            path = folder / f"{name}.pem"
            shown = self.figures(host)
            self.assertEqual(
                shown.labels("hatwisted_certificate_expiry_timestamp_seconds"), [{"path": str(path)}]
            )
            self.assertEqual(
                shown("hatwisted_certificate_expiry_timestamp_seconds", path=str(path)),
                x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp(),
            )

    def test_probes_say_why(self) -> None:
        master, slave = self.pair(min_in_sync_replicas=2, in_sync_replicas=2)
        for host in (MASTER, SLAVE):
            for path in ("/healthz", "/readyz"):
                self.assertEqual(page(self.nodes, f"{host}:5557", path), (200, "ok\n"))
        self.nodes.stop(self.services[SLAVE])
        self.nodes.pass_time(2)
        self.assertEqual(
            page(self.nodes, f"{MASTER}:5557", "/readyz"),
            (503, "puts are refused: in-sync replicas not enough: 1 copies in sync, 2 needed\n"),
        )
        self.assertEqual(page(self.nodes, f"{MASTER}:5557", "/healthz")[0], 200)
        master.parts.store.log.stop_appends("fdatasync failed")
        self.assertEqual(
            page(self.nodes, f"{MASTER}:5557", "/healthz"),
            (503, "the log takes nothing more: fdatasync failed\n"),
        )

    def test_a_slave_without_its_master_isnt_ready_and_lives(self) -> None:
        self.start(SLAVE, BrokerRole.SLAVE, broker_id=1)
        self.nodes.pass_time(3)
        status, text = page(self.nodes, f"{SLAVE}:5557", "/readyz")
        self.assertEqual(status, 503)
        self.assertIn("the link to the master is in state", text)
        self.assertEqual(page(self.nodes, f"{SLAVE}:5557", "/healthz")[0], 200)

    def test_who_may_not_connect_to_the_broker_sees_no_figures(self) -> None:
        self.start(MASTER, listen_allow_list="10.0.0.0/28")
        self.assertEqual(page(self.nodes, f"{MASTER}:5557", "/metrics", "10.0.0.200"), (0, ""))
        self.assertEqual(page(self.nodes, f"{MASTER}:5557", "/metrics", "10.0.0.7")[0], 200)

    def test_connections_have_a_number_and_a_time(self) -> None:
        self.start(MASTER)
        idle = [Reader(b"GET /metrics HTTP/1.1\r\n") for _ in range(MAX_CONNECTIONS + 1)]
        for reader in idle:
            self.nodes.visit(f"{MASTER}:5557", reader)
        self.nodes.pass_time(1)
        self.assertEqual([reader.closed for reader in idle].count(True), 1)
        self.nodes.pass_time(40)
        self.assertTrue(all(reader.closed for reader in idle))

    def test_who_keeps_most_connections_loses_the_oldest_of_them_and_probes_come_through(self) -> None:
        self.start(MASTER)
        visitor = Reader(b"GET /metrics HTTP/1.1\r\n")
        self.nodes.visit(f"{MASTER}:5557", visitor, "10.0.0.8")
        idle = [Reader(b"GET /metrics HTTP/1.1\r\n") for _ in range(MAX_CONNECTIONS + 5)]
        for reader in idle:
            self.nodes.visit(f"{MASTER}:5557", reader, "10.0.0.66")
        self.assertEqual([each.closed for each in idle], [True] * 6 + [False] * (MAX_CONNECTIONS - 1))
        self.assertEqual(page(self.nodes, f"{MASTER}:5557", "/healthz", "10.0.0.9"), (200, "ok\n"))
        self.assertFalse(visitor.closed)

    def test_requests_that_come_at_once_have_a_turn_each(self) -> None:
        """Else a stranger's thousand are answered before anybody else's one."""
        node, clock = self.start(MASTER), TurnClock()
        watch = LinkWatch(clock, lambda: 0, lambda: None)
        exposition = Exposition(clock, sources(node, watch, Health(node), Pauses()))
        channel = metrics_site(exposition, Health(node), clock).buildProtocol(None)
        assert channel is not None
        transport = StringTransportWithDisconnection()
        transport.protocol = channel
        channel.makeConnection(transport)
        channel.dataReceived(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        for turn in range(1, 4):
            self.assertEqual(transport.value().count(b"200 OK"), turn)
            clock.advance(1)
        transport.loseConnection()
        clock.advance(1)
        self.assertEqual(transport.value().count(b"200 OK"), 4)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_a_body_is_dropped_and_other_pages_arent_there(self) -> None:
        self.start(MASTER)
        body = b"x" * 200_000
        reader = Reader(
            b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\nConnection: close\r\n\r\n" + body
        )
        self.nodes.visit(f"{MASTER}:5557", reader)
        self.nodes.pass_time(2)
        self.assertIn(b" 405 ", reader.answer[:30])
        self.assertEqual(page(self.nodes, f"{MASTER}:5557", "/nowhere")[0], 404)

    def test_a_port_in_use_names_its_key_and_gives_the_brokers_back(self) -> None:
        self.nodes.accept(f"{MASTER}:5557")
        parts = self.nodes.parts(MASTER)
        node = build_broker(self.nodes.config(MASTER, metrics_port=5557, metrics_address=MASTER), parts)
        with self.assertRaises(SettingError) as raised:
            monitored(node, parts)
        self.assertEqual(raised.exception.key, "metricsPort")
        parts.listening.claim(10911, "")

    def test_figures_are_for_this_host_alone_unless_the_operator_says_so(self) -> None:
        config = self.nodes.config
        self.assertEqual(metrics_address(config(MASTER)), "127.0.0.1")
        self.assertEqual(metrics_address(config(MASTER, bind_address=MASTER)), MASTER)
        self.assertEqual(metrics_address(config(MASTER, metrics_address="0.0.0.0")), "0.0.0.0")

    def test_a_broker_without_the_key_is_itself(self) -> None:
        parts = self.nodes.parts(MASTER)
        node = build_broker(self.nodes.config(MASTER), parts)
        self.assertIs(monitored(node, parts), node)
        node.parts.release_ports()
