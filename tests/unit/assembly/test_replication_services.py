"""Which ports a broker of either role opens, whom it dials, and where a slave looks for its master."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.schema import BrokerRole
from hatwisted.ha.master import HAService
from hatwisted.wire.registerbody import body_checksum, encode_register_body
from hatwisted.wire.registration import RegisterBody, TopicTable
from tests.support.memorynode import NAME_SERVER, MemoryNodes, Visitor

MASTER, SLAVE = "10.0.0.1", "10.0.0.2"
CONFIGURED, REGISTERED = "10.0.0.3:10912", "10.0.0.4:10912"
"""HA addresses of masters: as haMasterAddress says, and as the name server does."""

REGISTER_BROKER = 103
MASTER_LOOKS = 4.0
"""Seconds in which a slave without a master has asked the name servers again and dialled what they said."""


class RoleCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)

    def slave(self, **changes: Any) -> Any:
        return self.nodes.start(SLAVE, broker_role=BrokerRole.SLAVE, broker_id=1, **changes)

    def listening(self, host: str) -> set[int]:
        return {port for address, port in self.nodes.network.listening if address == host}

    def register_master(self, ha_address: str = REGISTERED) -> None:
        """Tell the name server of a master of the same group at another host."""
        body = encode_register_body(RegisterBody(topic_config_serialize_wrapper=TopicTable()), False)
        host = ha_address.rpartition(":")[0]
        answer = self.nodes.ask(
            NAME_SERVER,
            REGISTER_BROKER,
            body,
            brokerName="broker-a",
            brokerAddr=f"{host}:10911",
            clusterName="DefaultCluster",
            haServerAddr=ha_address,
            brokerId=0,
            bodyCrc32=body_checksum(body),
        )
        self.assertEqual(answer.code, 0, answer.remark)


class PortTests(RoleCase):
    def test_B15_master_and_slave_listen_for_clients_slaves_and_on_the_vip_port(self) -> None:
        self.nodes.start(MASTER, listen_port=20911)
        self.slave()
        self.assertEqual(self.listening(MASTER), {20909, 20911, 20912})
        self.assertEqual(self.listening(SLAVE), {10909, 10911, 10912})

    def test_B15_a_slaves_ha_port_accepts_and_feeds_nobody_who_does_not_report(self) -> None:
        node = self.slave()
        stranger = Visitor()
        self.nodes.visit(f"{SLAVE}:10912", stranger)
        self.assertEqual((stranger.connected, node.parts.ha.accepted_total), (1, 1))
        self.nodes.pass_time(10)
        self.assertEqual(stranger.received, b"")

    def test_B15_the_ha_address_told_to_the_name_server_is_the_port_that_is_open(self) -> None:
        self.nodes.start_name_server()
        self.nodes.start(MASTER, listen_port=20911, namesrv_addr=NAME_SERVER)
        node = self.slave(namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(MASTER_LOOKS)
        self.assertEqual(node.parts.master.ha, f"{MASTER}:20912")
        self.assertEqual(node.services.ha_client.status().state, "transfer")


class OrderTests(RoleCase):
    def test_B16_a_master_dials_nobody_whatever_it_is_told(self) -> None:
        configured, registered = self.nodes.accept(CONFIGURED), self.nodes.accept(REGISTERED)
        self.nodes.start_name_server()
        self.register_master()
        node = self.nodes.start(MASTER, ha_master_address=CONFIGURED, namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(40)
        self.assertEqual((configured.links, registered.links, node.parts.ha.running), ([], [], True))

    def test_B16_a_slave_listens_before_it_dials_and_has_hung_up_before_it_stops_listening(self) -> None:
        order: list[tuple[str, object]] = []

        class Watched(Visitor):
            def connectionMade(its) -> None:
                order.append(("dialled", 10912 in self.listening(SLAVE)))

        stop = HAService.stopService

        def stopping(service: HAService) -> object:
            link = node.services.ha_client.status()
            order.append((link.state, link.reported_offset))
            return stop(service)

        self.patch(HAService, "stopService", stopping)
        self.nodes.accept(CONFIGURED, Watched)
        node = self.slave(ha_master_address=CONFIGURED)
        self.nodes.pass_time(1)
        self.nodes.stop(node)
        self.assertEqual(order, [("dialled", True), ("stopped", -1)])
        self.assertEqual(self.listening(SLAVE), set())


class MasterAddressTests(RoleCase):
    def test_B17_ha_master_address_outranks_the_name_server(self) -> None:
        configured, registered = self.nodes.accept(CONFIGURED), self.nodes.accept(REGISTERED)
        self.nodes.start_name_server()
        self.register_master()
        node = self.slave(ha_master_address=CONFIGURED, namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(MASTER_LOOKS)
        configured.hang_up()
        self.nodes.pass_time(40)
        self.assertGreater(len(configured.links), 1)
        self.assertEqual((registered.links, node.parts.master.ha), ([], CONFIGURED))

    def test_B17_without_it_the_name_server_says_and_is_followed(self) -> None:
        registered, moved = self.nodes.accept(REGISTERED), self.nodes.accept("10.0.0.5:10912")
        self.nodes.start_name_server()
        self.register_master()
        self.slave(namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(MASTER_LOOKS)
        self.assertEqual(len(registered.links), 1)
        self.register_master("10.0.0.5:10912")
        self.nodes.pass_time(35)
        registered.hang_up()
        self.nodes.pass_time(6)
        self.assertEqual(len(moved.links), 1)

    def test_B100_tables_come_from_the_registered_master_although_another_is_dialled(self) -> None:
        self.nodes.start_name_server()
        self.nodes.accept(CONFIGURED)
        node = self.slave(ha_master_address=CONFIGURED, namesrv_addr=NAME_SERVER)
        asked = self.nodes.accept("10.0.0.3:10911"), self.nodes.accept("10.0.0.4:10911")
        self.nodes.pass_time(15)
        self.assertEqual((asked[1].links, node.parts.master.tables), ([], None), "nobody has registered")
        self.register_master()
        self.nodes.pass_time(35)
        self.assertTrue(asked[1].links)
        self.assertEqual(node.parts.master.tables, "10.0.0.4:10911")

    def test_B181_tables_come_from_the_linked_master_whoever_registers_in_its_place(self) -> None:
        self.nodes.start_name_server()
        master = self.nodes.start(MASTER, namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(3)  # or it would outdo the stranger just before each registration of the slave
        slave = self.slave(namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(MASTER_LOOKS)
        stranger = self.nodes.accept("10.0.0.4:10911"), self.nodes.accept("10.0.0.4:10909")
        registered = set()
        for _ in range(70):
            self.register_master()
            self.nodes.pass_time(0.5)
            registered.add(slave.parts.master.registered)
        self.assertIn("10.0.0.4:10911", registered)
        master.parts.tables.topics.for_send("T", "TBW102", 4)
        self.nodes.pass_time(1)
        self.assertIsNotNone(slave.parts.tables.topics.get("T"))
        self.assertEqual([each.links for each in stranger], [[], []])

    def test_B181_without_a_link_nobody_is_asked(self) -> None:
        self.nodes.start_name_server()
        asked = self.nodes.accept("10.0.0.4:10911"), self.nodes.accept("10.0.0.4:10909")
        self.register_master()
        self.slave(namesrv_addr=NAME_SERVER)
        self.nodes.pass_time(30)
        self.assertEqual([each.links for each in asked], [[], []])

    def test_B100_without_any_name_server_the_port_before_ha_master_address_is_asked(self) -> None:
        self.nodes.accept(CONFIGURED)
        node = self.slave(ha_master_address=CONFIGURED)
        asked = self.nodes.accept("10.0.0.3:10911")
        self.nodes.pass_time(15)
        self.assertTrue(asked.links)
        self.assertEqual(node.parts.master.tables, "10.0.0.3:10911")
