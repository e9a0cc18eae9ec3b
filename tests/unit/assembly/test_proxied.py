"""Ports behind a load balancer: whose requests they are, and who is believed about it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.nameserver import embed_name_server
from hatwisted.config.errors import SettingError
from hatwisted.remoting import proxyprotocol
from hatwisted.remoting.proxyprotocol import HEADER_TIMEOUT
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver, encode_command
from tests.support.memorynode import MemoryNodes, Visitor

MASTER, PROXY, CLIENT = "10.0.0.1", "10.8.0.1", "10.7.0.50"
ADDRESS = f"{MASTER}:10911"
HEADER = f"PROXY TCP4 {CLIENT} {MASTER} 50312 10911\r\n".encode()
LOOK = encode_command(RemotingCommand(RequestCode.GET_BROKER_CONFIG))
CHANGE = encode_command(RemotingCommand(RequestCode.DELETE_EXPIRED_COMMITLOG))


class ProxiedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)

    def start(self, **changes: Any) -> Any:
        return self.nodes.start(MASTER, **{"proxy_protocol_from": "10.8.0.0/16"} | changes)

    def visit(self, *pieces: bytes, host: str = PROXY) -> Visitor:
        visitor = Visitor()
        self.nodes.visit(ADDRESS, visitor, host)
        for piece in pieces:
            visitor.transport.write(piece)  # type: ignore[union-attr]
            self.nodes.pass_time(0.1)
        return visitor

    def codes(self, visitor: Visitor) -> list[int]:
        return [answer.code for answer in RemotingReceiver().receive(visitor.received)]

    def closed(self, visitor: Visitor) -> bool:
        return not visitor.transport.connected  # type: ignore[union-attr]

    def test_a_proxys_client_is_served_under_its_own_address(self) -> None:
        node = self.start()
        pieces = [HEADER[at : at + 7] for at in range(0, len(HEADER), 7)]
        whole, dripping = self.visit(HEADER + LOOK), self.visit(*pieces, LOOK)
        self.assertEqual((self.codes(whole), self.codes(dripping)), ([0], [0]))
        peers = {connection.peer for connection in node._factories[0].connections}
        self.assertEqual(peers, {f"{CLIENT}:50312"})

    def test_lists_look_at_the_client(self) -> None:
        self.start(listen_allow_list=CLIENT, admin_allow_list=None)
        self.assertEqual(self.codes(self.visit(HEADER + LOOK)), [0])
        self.assertTrue(self.closed(self.visit(HEADER.replace(CLIENT.encode(), b"10.7.0.51") + LOOK)))
        self.assertEqual(self.codes(self.visit(HEADER + CHANGE)), [ResponseCode.NO_PERMISSION])

    def test_nobody_behind_a_proxy_is_the_servers_own_host(self) -> None:
        self.start(admin_allow_list=None)
        for pretended in (b"127.0.0.1", MASTER.encode()):
            visitor = self.visit(HEADER.replace(CLIENT.encode(), pretended) + CHANGE)
            self.assertEqual(self.codes(visitor), [ResponseCode.NO_PERMISSION])

    def test_nor_is_whom_a_proxy_on_that_host_cant_name(self) -> None:
        self.start(admin_allow_list=None, proxy_protocol_from=MASTER)
        for header in (b"PROXY UNKNOWN\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0"):
            visitor = self.visit(header + CHANGE, host=MASTER)
            self.assertEqual(self.codes(visitor), [ResponseCode.NO_PERMISSION])

    def test_requests_that_came_with_the_header_of_a_client_too_many_are_not_served(self) -> None:
        node = self.start(max_connections_per_address=1)
        keeps = self.visit(HEADER + LOOK)
        change = RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=48")
        self.assertTrue(self.closed(self.visit(HEADER + encode_command(change))))
        self.assertEqual(node.parts.config.config.file_reserved_time, 72)
        self.assertFalse(self.closed(keeps))

    def test_a_proxy_has_to_send_the_header_and_nobody_else_may(self) -> None:
        node = self.start()
        self.assertTrue(self.closed(self.visit(LOOK)))
        self.assertEqual(node.refused_connections, 1)
        self.assertTrue(self.closed(self.visit(HEADER + LOOK, host=CLIENT)))
        self.assertEqual(node.refused_connections, 2)
        self.assertEqual(self.codes(self.visit(LOOK, host=CLIENT)), [0])

    def test_a_header_has_its_time_and_those_that_wait_their_number(self) -> None:
        self.patch(proxyprotocol, "MAX_WAITING", 2)
        node = self.start()
        silent, slow = self.visit(), self.visit(HEADER[:10])
        self.assertTrue(self.closed(self.visit(HEADER + LOOK)))
        self.assertEqual(node.refused_connections, 1)
        self.nodes.pass_time(HEADER_TIMEOUT)
        self.assertEqual(node.refused_connections, 3)
        self.assertEqual((self.closed(silent), self.closed(slow)), (True, True))
        self.assertEqual(self.codes(self.visit(HEADER + LOOK)), [0])
        self.assertEqual(len(node._factories[0].connections), 1)

    def test_a_master_isnt_a_proxy_to_the_name_server_that_it_starts(self) -> None:
        for bound, proxies in (("0.0.0.0", "127.0.0.0/8"), (MASTER, MASTER)):
            config = self.nodes.config(MASTER, bind_address=bound, proxy_protocol_from=proxies)
            error = self.assertRaises(SettingError, embed_name_server, config, self.nodes.parts(MASTER))
            self.assertEqual(error.key, "proxyProtocolFrom")

    def test_its_own_connections_are_its_own(self) -> None:
        node = self.start()
        check = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
        self.assertEqual(self.codes(self.visit(check + LOOK)), [0])
        (connection,) = node._factories[0].connections
        self.assertEqual(connection.address, PROXY)
