"""The ports of figures and of the live page over TLS: each speaks it as its own key says."""

from __future__ import annotations

import base64
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.monitoring import monitored
from hatwisted.clientcore.api import Tls
from hatwisted.config.errors import SettingError
from hatwisted.config.tlskeys import TlsClientAuth, TlsMode
from hatwisted.metrics.web import MAX_CONNECTIONS
from hatwisted.tls.certificatefiles import WATCH_INTERVAL
from hatwisted.tls.handshakes import HANDSHAKE_TIMEOUT
from hatwisted.tls.tlsconnecting import encrypted
from tests.support.certificate import Issued, authority
from tests.support.figures import Once, Reader, page
from tests.support.memorynode import CLIENT_HOST, MemoryNodes

MASTER = "10.0.0.1"
PASSWORD = "operator:secret"
METRICS, DASHBOARD = f"{MASTER}:5557", f"{MASTER}:8080"


class MonitoredTlsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.folder = self.nodes.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.issued = self.issue("server")
        authority().write(self.folder, "authority")
        (self.folder / "password").write_text(f"{PASSWORD}\n")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def issue(self, name: str) -> Issued:
        issued = Issued((MASTER,), signed_by=authority())
        issued.write(self.folder, name)
        return issued

    def start(self, **more: Any) -> Any:
        made = {
            "metrics_port": 5557,
            "metrics_address": MASTER,
            "tls_server_cert_path": self.path("server.pem"),
            "tls_server_key_path": self.path("server.key"),
        }
        parts = self.nodes.parts(MASTER)
        node = build_broker(self.nodes.config(MASTER, **made | more), parts)
        self.service: Any = monitored(node, parts)
        self.service.startService()
        self.addCleanup(self.nodes.stop, self.service)
        self.nodes.pass_time(1)
        return node

    def start_dashboard(self, mode: TlsMode | None) -> None:
        self.start(
            dashboard_port=8080,
            dashboard_address=MASTER,
            dashboard_password_file=self.path("password"),
            dashboard_tls_mode=mode,
        )

    def connect(self, address: str, reader: Reader, tls: Tls | None = None) -> None:
        """Over TLS."""
        network = self.nodes.network.host(CLIENT_HOST)
        connecting = encrypted(network, self.nodes.clock, tls or Tls(trust_file=self.path("authority.pem")))
        host, _, port = address.rpartition(":")
        made = connecting.endpoint(host, int(port), 5.0).connect(Once(reader))
        made.addErrback(lambda failure: None)  # whom the port refuses gets no answer
        self.nodes.pass_time(2)

    def asked(self, address: str, path: str, tls: Tls | None = None) -> bytes:
        """The answer over TLS; nothing if there is none."""
        reader = Reader(f"GET {path} HTTP/1.1\r\nHost: {MASTER}\r\nConnection: close\r\n\r\n".encode())
        self.connect(address, reader, tls)
        return reader.answer

    def test_out_of_the_box_both_are_served_with_the_brokers_certificate(self) -> None:
        self.start()
        self.assertEqual(page(self.nodes, METRICS, "/healthz"), (200, "ok\n"))
        answer = self.asked(METRICS, "/metrics")
        self.assertIn(b" 200 OK", answer[:20])
        self.assertIn(b"hatwisted_up 1.0", answer)

    def test_each_port_has_a_mode_of_its_own(self) -> None:
        self.start_dashboard(TlsMode.ENFORCING)
        self.assertEqual(page(self.nodes, METRICS, "/healthz"), (200, "ok\n"))
        self.assertEqual(page(self.nodes, DASHBOARD, "/"), (0, ""))
        self.assertIn(b" 401 ", self.asked(DASHBOARD, "/")[:20])

    def test_a_port_that_speaks_tls_alone_says_nothing_in_plain_text(self) -> None:
        self.start(metrics_tls_mode=TlsMode.ENFORCING)
        self.assertEqual(page(self.nodes, METRICS, "/metrics"), (0, ""))
        self.assertIn(b" 200 OK", self.asked(METRICS, "/metrics")[:20])

    def test_a_plain_port_speaks_no_tls(self) -> None:
        for more in ({"metrics_tls_mode": TlsMode.DISABLED}, {"tls_server_mode": TlsMode.DISABLED}):
            with self.subTest(**more):
                self.start(**more)
                self.assertEqual(self.asked(METRICS, "/metrics"), b"")
                self.assertEqual(page(self.nodes, METRICS, "/healthz"), (200, "ok\n"))
                self.nodes.stop(self.service)

    def test_a_port_may_speak_tls_where_those_of_clients_dont(self) -> None:
        self.start(metrics_tls_mode=TlsMode.ENFORCING, tls_server_mode=TlsMode.DISABLED)
        self.assertIn(b" 200 OK", self.asked(METRICS, "/metrics")[:20])
        self.assertEqual(self.nodes.send(f"{MASTER}:10911", b"x"), 0)

    def test_where_clients_must_show_a_certificate_scrapers_must(self) -> None:
        self.start(
            metrics_tls_mode=TlsMode.ENFORCING,
            tls_server_need_client_auth=TlsClientAuth.REQUIRE,
            tls_server_auth_client=True,
            tls_server_trust_cert_path=self.path("authority.pem"),
        )
        self.assertEqual(self.asked(METRICS, "/metrics"), b"")
        self.issue("scraper")
        tls = Tls(
            trust_file=self.path("authority.pem"),
            certificate=self.path("scraper.pem"),
            key=self.path("scraper.key"),
        )
        self.assertIn(b" 200 OK", self.asked(METRICS, "/metrics", tls)[:20])

    def test_a_certificate_that_is_missing_ends_the_start_and_gives_ports_back(self) -> None:
        parts = self.nodes.parts(MASTER)
        config = self.nodes.config(
            MASTER,
            metrics_port=5557,
            metrics_address=MASTER,
            metrics_tls_mode=TlsMode.ENFORCING,
            tls_server_mode=TlsMode.DISABLED,
            tls_server_cert_path=self.path("gone.pem"),
            tls_server_key_path=self.path("gone.key"),
        )
        node = build_broker(config, parts)
        with self.assertRaises(SettingError) as raised:
            monitored(node, parts)
        self.assertEqual(raised.exception.key, "tls.server.certPath")
        for port, interface in ((10911, ""), (5557, MASTER)):
            parts.listening.claim(port, interface)

    def test_a_renewed_certificate_is_shown_without_a_restart(self) -> None:
        node = self.start(metrics_tls_mode=TlsMode.ENFORCING, tls_server_mode=TlsMode.DISABLED)
        (before,) = node.parts.expiries().values()
        Issued((MASTER,), signed_by=authority(), days=5).write(self.folder, "server")
        for name in ("server.pem", "server.key"):
            os.utime(self.path(name), (1, 1))
        self.nodes.pass_time(WATCH_INTERVAL + 1, 1)
        (after,) = node.parts.expiries().values()
        self.assertGreater(after, before)
        self.assertIn(b" 200 OK", self.asked(METRICS, "/metrics")[:20])

    def test_who_doesnt_end_his_handshake_is_closed(self) -> None:
        self.start(metrics_tls_mode=TlsMode.ENFORCING)
        idle = Reader(b"\x16\x03\x01")
        self.nodes.visit(METRICS, idle)
        self.nodes.pass_time(HANDSHAKE_TIMEOUT - 1)
        self.assertFalse(idle.closed)
        self.nodes.pass_time(2)
        self.assertTrue(idle.closed)

    def test_connections_have_a_number_over_tls_too(self) -> None:
        self.start()
        idle = [Reader(b"\x16\x03\x01") for _ in range(MAX_CONNECTIONS + 1)]
        for reader in idle:
            self.nodes.visit(METRICS, reader, "10.0.0.66")
        self.assertEqual([reader.closed for reader in idle].count(True), 1)
        self.assertIn(b" 200 OK", self.asked(METRICS, "/healthz")[:20])

    def test_the_stream_of_a_live_page_goes_on_over_tls(self) -> None:
        self.start_dashboard(TlsMode.ENFORCING)
        signed = base64.b64encode(PASSWORD.encode()).decode()
        reader = Reader(
            f"GET /stream HTTP/1.1\r\nHost: {MASTER}\r\nAuthorization: Basic {signed}\r\n\r\n".encode()
        )
        self.connect(DASHBOARD, reader)
        self.assertIn(b"event: state\n", reader.answer)
        reader.answer = b""
        self.nodes.send(f"{MASTER}:10911", bytes(100))
        self.nodes.pass_time(2)
        self.assertIn(b"event: state\n", reader.answer)
