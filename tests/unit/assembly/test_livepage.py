"""The live page of whole nodes."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.monitoring import monitored
from hatwisted.config.errors import SettingError
from hatwisted.config.schema import BrokerRole
from hatwisted.metrics.groupwatch import INTERVAL, REMEMBERED, GroupWatch
from hatwisted.metrics.livepage import MAX_STREAMS
from tests.support.certificate import link_keys
from tests.support.figures import Reader, page
from tests.support.memorynode import NAME_SERVER, MemoryNodes

MASTER, SLAVE = "10.0.0.1", "10.0.0.2"
PASSWORD = "operator:s3cret"


def figures(text: str) -> dict[str, str]:
    return dict(re.findall(r'data-figure="(\w+)" data-value="([^"]*)"', text))


def members(text: str) -> list[list[str]]:
    """The cells of the group's table."""
    (table,) = re.findall(r'<table id="group">.*?</table>', text, re.DOTALL)
    rows = re.findall(r"<tr[^>]*>(<td.*?)</tr>", table)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]


def asks(path: str, *, host: str = MASTER, password: str | None = PASSWORD) -> bytes:
    signed = (
        "" if password is None else f"Authorization: Basic {base64.b64encode(password.encode()).decode()}\r\n"
    )
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{signed}\r\n".encode()


class LivePageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.nodes.start_name_server()
        self.password = Path(self.mktemp()).absolute()
        self.password.write_text(f"{PASSWORD}\n")

    def start(self, host: str, role: BrokerRole = BrokerRole.SYNC_MASTER, **more: Any) -> Any:
        made = {
            "namesrv_addr": NAME_SERVER,
            "dashboard_port": 8080,
            "dashboard_address": host,
            "dashboard_password_file": str(self.password),
        }
        parts = self.nodes.parts(host)
        node = build_broker(self.nodes.config(host, broker_role=role, **made | more), parts)
        service: Any = monitored(node, parts)
        service.startService()
        self.addCleanup(self.nodes.stop, service)
        return node

    def pair(self) -> tuple[Any, Any]:
        nodes = self.start(MASTER), self.start(SLAVE, BrokerRole.SLAVE, broker_id=1)
        self.nodes.pass_time(12)
        return nodes

    def ask(self, request: bytes, host: str = MASTER, seconds: float = 1.0) -> Reader:
        reader = Reader(request)
        self.nodes.visit(f"{host}:8080", reader)
        self.nodes.pass_time(seconds)
        return reader

    def shown(self, host: str = MASTER) -> str:
        head, _, body = self.ask(asks("/", host=host), host).answer.decode().partition("\r\n\r\n")
        self.assertIn(" 200 ", head[:20])
        return body

    def test_figures_are_the_brokers(self) -> None:
        master, slave = self.pair()
        for _ in range(3):
            self.nodes.send(f"{MASTER}:10911", bytes(100))
        self.nodes.pass_time(6)
        end = str(master.parts.store.log.max_offset)
        of_master, of_slave = figures(self.shown()), figures(self.shown(SLAVE))
        self.assertEqual((of_master["log_end"], of_master["acked"], of_master["lag"]), (end, end, "0"))
        self.assertEqual(of_master["in_rate"], "3")
        self.assertEqual((of_slave["log_end"], of_slave["acked"], of_slave["lag"]), (end, end, "0"))
        self.assertIn(">well</p>", self.shown())

    def test_a_slave_is_named_by_its_certificate(self) -> None:
        self.start(MASTER, **link_keys(self.nodes.folder, "master-1"))
        self.start(SLAVE, BrokerRole.SLAVE, broker_id=1, **link_keys(self.nodes.folder, "slave<1\x1b"))
        self.nodes.pass_time(12)
        self.assertRegex(self.shown(), rf"<td>{SLAVE}:\d+, slave&lt;1\\x1b</td>")

    def test_what_is_wrong_is_said_with_what_to_do(self) -> None:
        self.start(MASTER)
        self.nodes.pass_time(2)
        self.shown()  # it looks at the others once somebody does at it
        text = self.shown()
        self.assertIn(">1 problem</p>", text)
        self.assertIn("is a SYNC_MASTER without a slave", text)
        self.assertIn(f"hatwisted attach {NAME_SERVER} broker-a", text)
        self.start(
            SLAVE, BrokerRole.SLAVE, broker_id=1, namesrv_addr=None, ha_master_address="10.0.0.77:10912"
        )
        self.nodes.pass_time(2)
        self.assertIn("connect to the master&#39;s HA port", self.shown(SLAVE))

    def test_the_whole_group_is_shown_as_status_has_it(self) -> None:
        master, slave = self.pair()
        self.nodes.send(f"{MASTER}:10911", bytes(100))
        self.nodes.pass_time(6)
        for host in (MASTER, SLAVE):
            self.shown(host)
            rows = members(self.shown(host))
            self.assertEqual([row[0] for row in rows], ["0 SYNC_MASTER", "1 SLAVE", "name server"], host)
            self.assertEqual([row[1] for row in rows], ["up, 1 slave linked", "level", "up"], host)
            self.assertEqual(rows[1][3], f"{slave.parts.store.log.max_offset:,}")
        self.nodes.stop(slave)
        self.nodes.pass_time(2)
        self.shown()
        self.nodes.pass_time(3)
        text = self.shown()
        self.assertNotIn(">well</p>", text)
        self.assertIn("broker-a master: is a SYNC_MASTER without a slave", text)

    def test_what_happens_to_the_others_is_told_and_nothing_twice(self) -> None:
        _, slave = self.pair()
        self.shown()
        self.nodes.pass_time(3)
        self.assertNotIn("broker-left", self.shown())
        self.nodes.stop(slave)
        self.nodes.pass_time(3)
        self.shown()
        self.nodes.pass_time(3)
        self.shown()
        self.nodes.pass_time(3)
        text = self.shown()
        self.assertEqual(text.count("<code>broker-left</code>"), 1, text)
        self.assertRegex(text, r'<li class="warn"><time>[\d:]+</time> <span>broker-a slave 1: ')
        self.assertNotIn("<span>broker-a master: ", text)

    def test_one_that_has_left_is_missed_for_a_while(self) -> None:
        _, slave = self.pair()
        self.shown()
        self.nodes.stop(slave)
        self.nodes.pass_time(130)  # until the name server forgets it
        self.shown()
        self.nodes.pass_time(3)
        self.assertIn("broker-a slave 1: 10.0.0.2:10911 has left", self.shown())
        self.nodes.pass_time(REMEMBERED)
        self.shown()
        self.nodes.pass_time(3)
        self.assertNotIn("has left", self.shown())

    def test_a_slave_without_name_servers_shows_its_master(self) -> None:
        self.start(MASTER)
        self.start(
            SLAVE, BrokerRole.SLAVE, broker_id=1, namesrv_addr=None, ha_master_address=f"{MASTER}:10912"
        )
        self.nodes.pass_time(5)
        self.shown(SLAVE)
        rows = members(self.shown(SLAVE))
        self.assertEqual(
            [row[:2] for row in rows], [["0 SYNC_MASTER", "up, 1 slave linked"], ["1 SLAVE", "level"]]
        )

    def test_the_others_are_asked_once_in_a_while_however_many_look(self) -> None:
        self.start(MASTER)
        looks: list[float] = []

        def look(watch: GroupWatch) -> Any:
            looks.append(self.nodes.clock.seconds())
            return real(watch)

        real = GroupWatch._look
        self.patch(GroupWatch, "_look", look)
        for _ in range(5):
            self.ask(asks("/stream"), seconds=0.1)
        self.nodes.pass_time(20)
        self.assertGreater(len(looks), 5)
        self.assertGreaterEqual(min(later - earlier for earlier, later in pairwise(looks)), INTERVAL)

    def test_nobody_is_asked_while_nobody_looks(self) -> None:
        node = self.start(MASTER)
        asked = self.patch(GroupWatch, "_look", lambda watch: self.fail("asked")) and node
        self.nodes.pass_time(30)
        self.assertTrue(asked.running)

    def test_the_stream_sends_what_has_changed(self) -> None:
        self.pair()
        reader = self.ask(asks("/stream"))
        parts = dict(re.findall(r"event: (\w+)\ndata: (.*)\n", reader.answer.decode()))
        self.assertEqual(set(parts), {"state", "events", "hour"})
        self.assertIn("<svg", json.loads(parts["hour"]))
        reader.answer = b""
        self.nodes.send(f"{MASTER}:10911", bytes(100))
        self.nodes.pass_time(2)
        said = re.findall(r"event: (\w+)\n", reader.answer.decode())
        self.assertIn("state", said)
        self.assertNotIn("hour", said)

    def test_pages_kept_up_to_date_have_a_number(self) -> None:
        self.start(MASTER)
        readers = [self.ask(asks("/stream"), seconds=0.1) for _ in range(MAX_STREAMS + 1)]
        self.assertEqual([b" 503 " in reader.answer[:20] for reader in readers].count(True), 1)
        assert readers[0].transport is not None
        readers[0].transport.loseConnection()
        self.nodes.pass_time(1)
        self.assertIn(b" 200 ", self.ask(asks("/stream")).answer[:20])

    def test_without_the_password_nothing_is_shown(self) -> None:
        self.start(MASTER)
        for path in ("/", "/stream", "/live.js"):
            for password in (None, "operator:other", "operator"):
                answer = self.ask(asks(path, password=password)).answer
                self.assertIn(b" 401 ", answer[:20])
                self.assertNotIn(b"broker-a", answer)
            for given in (b"Basic \xff\xfe", b"\xff", b"Basic", b""):
                request = asks(path, password=None)[:-2] + b"Authorization: " + given + b"\r\n\r\n"
                self.assertIn(b" 401 ", self.ask(request).answer[:20], given)

    def test_passwords_are_not_tried_without_end(self) -> None:
        self.start(MASTER, metrics_port=5557, metrics_address=MASTER, failed_login_rate=4)
        answer = self.ask(asks("/")).answer
        self.assertIn(b" 200 ", answer[:20])
        (cookie,) = re.findall(rb"(?i)set-cookie: ([^;]+); Path=/; HttpOnly; SameSite=strict", answer)
        wrong, right, none = asks("/", password="operator:other"), asks("/"), asks("/", password=None)
        known = right[:-2] + b"Cookie: a=b; " + cookie + b"\r\n\r\n"
        forged = right[:-2] + b"Cookie: hatwisted-page=\xff\r\n\r\n"
        answer = self.ask(6 * wrong + right + none + known + forged, seconds=0).answer
        # Neither the right one nor the wrong one is looked at, but from a browser that had given the right one.
        self.assertEqual(
            re.findall(rb"HTTP/1.1 (\d+)", answer),
            [b"401"] * 5 + [b"429"] + [b"429", b"401", b"200", b"429"],
        )
        elsewhere = Reader(right)
        self.nodes.visit(f"{MASTER}:8080", elsewhere, "10.0.0.201")
        self.assertEqual(elsewhere.answer[9:12], b"200")
        text = page(self.nodes, f"{MASTER}:5557", "/metrics")[1]
        self.assertRegex(str(text), r'refused_total\{reason="failed_logins"\} [1-9]')
        self.nodes.pass_time(5)
        self.assertEqual(self.ask(right).answer[9:12], b"200")

    def test_other_hosts_need_a_password(self) -> None:
        parts = self.nodes.parts(MASTER)
        more = {"dashboard_port": 8080, "dashboard_address": MASTER}
        node = build_broker(self.nodes.config(MASTER, **more), parts)
        with self.assertRaises(SettingError) as raised:
            monitored(node, parts)
        self.assertEqual(raised.exception.key, "dashboardAddress")
        self.assertIn("set dashboardPasswordFile", str(raised.exception))
        parts.listening.claim(10911, "")

    def test_a_password_file_that_is_none_stops_the_start(self) -> None:
        for content, why in ((None, "can't be read"), ("secret", "one line"), ("a:b\nc:d", "one line")):
            self.password.unlink(missing_ok=True)
            if content is not None:
                self.password.write_text(content)
            with self.assertRaises(SettingError) as raised:
                self.start(MASTER)
            self.assertEqual(raised.exception.key, "dashboardPasswordFile")
            self.assertIn(why, str(raised.exception))

    def test_on_the_hosts_own_address_other_sites_names_are_refused(self) -> None:
        """A name of the DNS may be made to lead here: a page of that site could then read this one."""
        self.start("127.0.0.1", dashboard_address=None, dashboard_password_file=None)
        for name, status in (("localhost:8080", 200), ("127.0.0.1:8080", 200), ("evil.example", 403)):
            answer = self.ask(asks("/", host=name, password=None), "127.0.0.1").answer
            self.assertIn(f" {status} ".encode(), answer[:20], name)

    def test_names_of_others_are_text(self) -> None:
        node = self.start(MASTER)
        node.parts.store.watermark.note_full("<script>alert(1)</script>")
        self.assertIn("&lt;script&gt;", self.shown())
        self.assertNotIn("<script>alert", self.shown())

    def test_metrics_may_be_shown_beside_it(self) -> None:
        self.start(MASTER, metrics_port=5557, metrics_address=MASTER)
        self.assertEqual(page(self.nodes, f"{MASTER}:5557", "/healthz"), (200, "ok\n"))
        self.assertIn("broker-a", self.shown())
