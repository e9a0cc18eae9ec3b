"""A node that takes another role while it runs. Nothing decides to do so yet; but all that a role brings along
comes and goes with it, and all that asks for the role hears of the new one."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import role_services
from hatwisted.config.schema import BrokerRole
from hatwisted.ha.slavewatch import ALONE_LIMIT
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from tests.support.memorynode import NAME_SERVER, MemoryNodes
from tests.unit.ha.rig import LogCatcher

HOST = "10.0.0.1"
ADDRESS = f"{HOST}:10911"
SENT, NO_SLAVE, NOT_HERE = 0, 11, 14


class RoleChangeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.names = self.nodes.start_name_server()
        self.parts = self.nodes.parts(HOST)

    def start(self, role: BrokerRole) -> Any:
        node = self.nodes.start(
            HOST,
            self.parts,
            broker_role=role,
            broker_id=int(role is BrokerRole.SLAVE),
            namesrv_addr=NAME_SERVER,
            message_delay_level="1s 5s",
        )
        node.parts.tables.topics.for_send("T", "TBW102", 4)
        self.nodes.pass_time(1)
        return node

    def become(self, node: Any, role: BrokerRole, broker_id: int) -> None:
        node.services.stop_taking()
        self.nodes.result(node.services.stop())
        node.parts.role.become(role, broker_id)
        node.take_role(role_services(node.parts, self.parts))
        node.services.start()
        node.parts.registration.register_now()
        self.nodes.pass_time(1)

    def brokers(self) -> dict[str, str]:
        """What the name server tells of the group: address by id."""
        answer = self.nodes.ask(NAME_SERVER, RequestCode.GET_BROKER_CLUSTER_INFO)
        group = fastjson.loads(answer.body)["brokerAddrTable"]["broker-a"]
        return {str(number): address for number, address in group["brokerAddrs"].items()}

    def listeners(self, node: Any) -> list[int]:
        """How many listen to whatever lives longer than a role."""
        parts = node.parts
        return [
            len(parts.store._listeners),
            len(parts.master._listeners),
            len(parts.runtime._sources),
            len(parts.registration._master_listeners),
            len(parts.config._listeners),
        ]

    def test_a_slave_becomes_a_master(self) -> None:
        node = self.start(BrokerRole.SLAVE)
        self.assertEqual(self.nodes.send(ADDRESS), NOT_HERE)
        self.become(node, BrokerRole.ASYNC_MASTER, 0)
        self.assertEqual(self.nodes.send(ADDRESS), SENT)
        self.assertEqual(self.brokers()["0"], ADDRESS)

    def test_a_master_becomes_a_slave(self) -> None:
        node = self.start(BrokerRole.ASYNC_MASTER)
        self.assertEqual(self.nodes.send(ADDRESS), SENT)
        self.become(node, BrokerRole.SLAVE, 1)
        self.assertEqual(self.nodes.send(ADDRESS), NOT_HERE)
        self.assertEqual(self.brokers()["1"], ADDRESS)

    def test_puts_wait_for_slaves_and_a_lonely_master_says_so_from_then_on(self) -> None:
        node = self.start(BrokerRole.SLAVE)
        caught = LogCatcher(self)
        self.nodes.pass_time(ALONE_LIMIT + 1)
        self.assertEqual([text for text in caught.texts("warn") if "no slave" in text], [])
        self.become(node, BrokerRole.SYNC_MASTER, 0)
        self.assertEqual(self.nodes.send(ADDRESS), NO_SLAVE)
        self.nodes.pass_time(ALONE_LIMIT + 1)
        self.assertEqual(len([text for text in caught.texts("warn") if "no slave has connected" in text]), 1)

    def test_progress_that_a_slave_took_over_ends_where_the_queues_of_the_new_master_do(self) -> None:
        node = self.start(BrokerRole.SLAVE)
        offsets = node.parts.tables.offsets
        offsets.commit("g", "T", 0, 10)
        self.become(node, BrokerRole.ASYNC_MASTER, 0)
        self.assertEqual(offsets.query("g", "T", 0), 0)
        self.assertEqual(node.parts.consumers.progress.stale.standing("g", "T", 0, 10), 0)
        self.become(node, BrokerRole.SLAVE, 1)
        self.assertIsNone(node.parts.consumers.progress.stale.standing("g", "T", 0, 10))

    def test_what_a_role_listens_to_it_leaves_with_its_end(self) -> None:
        node = self.start(BrokerRole.SLAVE)
        as_slave = self.listeners(node)
        timers = len(self.nodes.clock.getDelayedCalls())
        self.become(node, BrokerRole.SYNC_MASTER, 0)
        as_master = self.listeners(node)
        for _ in range(3):
            self.become(node, BrokerRole.SLAVE, 1)
            self.assertEqual(self.listeners(node), as_slave)
            self.become(node, BrokerRole.SYNC_MASTER, 0)
            self.assertEqual(self.listeners(node), as_master)
        self.become(node, BrokerRole.SLAVE, 1)
        self.nodes.pass_time(1)
        self.assertEqual(len(self.nodes.clock.getDelayedCalls()), timers)
