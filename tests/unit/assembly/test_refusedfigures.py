"""What isn't let in is counted: an operator sees an attack in the figures, not only in the log."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.monitoring import monitored
from hatwisted.clientcore.api import Credentials
from hatwisted.remoting.client import RemotingClient
from hatwisted.wire.codes import RequestCode, ResponseCode
from tests.support.figures import Figures, Reader, page
from tests.support.memorynode import CLIENT_HOST, MemoryNodes
from tests.unit.acl.files import ADMIN, SAMPLE, request

MASTER = "10.0.0.1"
ADDRESS = f"{MASTER}:10911"
PRETENDS = Credentials(ADMIN.access_key, "wrong-key")


class FigureCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)

    def start(self, **more: Any) -> None:
        made = {"metrics_port": 5557, "metrics_address": MASTER}
        parts = self.nodes.parts(MASTER)
        node = build_broker(self.nodes.config(MASTER, **made | more), parts)
        service: Any = monitored(node, parts)
        service.startService()
        self.addCleanup(self.nodes.stop, service)

    def figures(self) -> Figures:
        self.nodes.pass_time(2)
        return Figures(page(self.nodes, f"{MASTER}:5557", "/metrics")[1])


class RefusedFigures(FigureCase):
    def refused(self, reason: str) -> float:
        return self.figures()("hatwisted_requests_refused_total", reason=reason)

    def ask(self, code: int, account: Credentials | None = None) -> int:
        answer = self.nodes.result(self.nodes.client.call(ADDRESS, request(code, account), 15))
        return int(answer.code)

    def test_requests_of_who_has_no_account(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(SAMPLE)
        self.start(acl_enable=True, acl_plain_file=str(file), account_request_rate=1)
        self.assertEqual(self.refused("account"), 0)
        for account in (None, PRETENDS):
            self.ask(RequestCode.GET_BROKER_RUNTIME_INFO, account)
        self.assertEqual(self.refused("account"), 2)
        for _ in range(4):
            self.ask(RequestCode.GET_BROKER_RUNTIME_INFO, ADMIN)
        self.assertGreater(self.refused("account_rate"), 0)

    def test_keys_are_not_tried_without_end(self) -> None:
        file = self.nodes.folder / "plain_acl.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(SAMPLE)
        self.start(acl_enable=True, acl_plain_file=str(file))
        self.ask(RequestCode.GET_BROKER_RUNTIME_INFO, ADMIN)
        self.assertEqual(self.refused("failed_logins"), 0)
        stranger = RemotingClient(self.nodes.network.host(CLIENT_HOST), self.nodes.clock)
        self.addCleanup(lambda: self.nodes.result(stranger.close()))
        waiting = [
            stranger.call(ADDRESS, request(RequestCode.GET_BROKER_RUNTIME_INFO, PRETENDS), 15)
            for _ in range(30)
        ]
        codes = [int(self.nodes.result(each).code) for each in waiting]
        self.assertEqual(codes[0], ResponseCode.SYSTEM_ERROR)
        self.assertEqual(codes[-1], ResponseCode.SYSTEM_BUSY)
        # From the same address, on a connection on which the account has signed before.
        self.assertEqual(self.ask(RequestCode.GET_BROKER_RUNTIME_INFO, ADMIN), 0)
        self.assertEqual(self.refused("failed_logins"), codes.count(ResponseCode.SYSTEM_BUSY))

    def test_changes_from_elsewhere_and_too_many_requests(self) -> None:
        self.start(admin_allow_list="10.0.0.200", address_request_rate=2)
        self.ask(RequestCode.UPDATE_BROKER_CONFIG)
        self.assertEqual(self.refused("administration"), 1)
        self.nodes.pass_time(5)
        for _ in range(6):
            self.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        self.assertGreater(self.refused("address_rate"), 0)

    def test_requests_that_nobody_answers_cost_an_address_as_much(self) -> None:
        self.start(address_request_rate=2, address_byte_rate=1 << 20)
        self.nodes.pass_time(5)
        codes = [self.ask(31_999) for _ in range(6)]
        self.assertEqual(codes[0], ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        self.assertEqual(codes[-1], ResponseCode.SYSTEM_BUSY)
        self.assertGreater(self.refused("address_rate"), 0)
        self.nodes.pass_time(5)
        # A body that isn't looked at has been sent all the same: it's worth two seconds.
        large = request(RequestCode.GET_BROKER_RUNTIME_INFO, None)
        large.body = bytes(2 << 20)
        self.assertEqual(self.nodes.result(self.nodes.client.call(ADDRESS, large, 15)).code, 1)
        self.assertEqual(self.ask(RequestCode.GET_BROKER_RUNTIME_INFO), ResponseCode.SYSTEM_BUSY)

    def test_a_broker_that_refuses_nobody_has_none_of_them(self) -> None:
        self.start(admin_allow_list="*", failed_login_rate=0)
        self.assertEqual(
            [labels["reason"] for labels in self.figures().labels("hatwisted_requests_refused_total")],
            ["administration"],
        )

    def test_bytes_of_frames_that_havent_ended(self) -> None:
        self.start()
        self.assertEqual(self.figures()("hatwisted_incomplete_request_bytes"), 0)
        self.nodes.visit(ADDRESS, Reader(b"\0\0\x10\0" + bytes(1000)))
        self.assertEqual(self.figures()("hatwisted_incomplete_request_bytes"), 1004)

    def test_handshakes(self) -> None:
        self.start()
        for address in (ADDRESS, f"{MASTER}:10909"):
            self.nodes.visit(address, Reader(b"\x16\x03\x01"))
        self.assertEqual(self.figures()("hatwisted_tls_handshakes_under_way"), 2)
        self.nodes.pass_time(11)
        shown = self.figures()
        self.assertEqual(shown("hatwisted_tls_handshakes_under_way"), 0)
        self.assertEqual(shown("hatwisted_tls_handshakes_total", result="failed"), 2)
        self.assertEqual(shown("hatwisted_tls_handshakes_total", result="completed"), 0)
