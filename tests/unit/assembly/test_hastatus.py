"""GET_HA_STATUS (907) and what a master's log says of its slaves, on whole nodes."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.schema import BrokerRole
from hatwisted.wire.codes import RequestCode, ResponseCode
from tests.support.memorynode import NAME_SERVER, MemoryNodes
from tests.unit.ha.rig import LogCatcher


class HAStatusTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.clock, self.pass_time = self.nodes.clock, self.nodes.pass_time
        self.nodes.start_name_server()
        self.master = self.started("10.0.0.1", BrokerRole.SYNC_MASTER)
        self.slave = self.started("10.0.0.2", BrokerRole.SLAVE, broker_id=1)
        self.pass_time(12)

    def started(self, host: str, role: BrokerRole, **more: Any) -> Any:
        return self.nodes.start(host, broker_role=role, namesrv_addr=NAME_SERVER, **more)

    def send(self, **more: Any) -> int:
        return self.nodes.send("10.0.0.1:10911", bytes(100), **more)

    def ask(self, host: str, code: RequestCode) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.nodes.ask(f"{host}:10911", code).body)
        return answer

    def status(self, host: str) -> dict[str, Any]:
        return self.ask(host, RequestCode.GET_BROKER_HA_STATUS)

    def milliseconds(self) -> int:
        return int(self.clock.seconds() * 1000)

    def test_both_roles_tell_what_passes_over_the_link_and_when(self) -> None:
        for _ in range(12):
            self.assertEqual(self.send(), 0)
            self.pass_time(0.25)
        master, slave = self.status("10.0.0.1"), self.status("10.0.0.2")
        (link,) = master["haConnectionInfo"]
        self.assertEqual(link["certificate"], "")
        self.assertGreater(link["transferredByteInSecond"], 300)
        self.assertEqual(
            master["haClientRuntimeInfo"]["transferredByteInSecond"], link["transferredByteInSecond"]
        )
        client = slave["haClientRuntimeInfo"]
        self.assertGreater(client["transferredByteInSecond"], 150)
        for info in (master["haClientRuntimeInfo"], client):
            for stamp in ("lastReadTimestamp", "lastWriteTimestamp"):
                self.assertTrue(0 <= self.milliseconds() - info[stamp] <= 1500, (stamp, info))
        self.assertEqual(client["maxOffset"], self.master.parts.store.log.max_offset)
        self.assertEqual((slave["master"], client["state"], client["problem"]), (False, "transfer", ""))

    def test_an_idle_link_has_a_rate_of_heartbeats_alone(self) -> None:
        self.assertEqual(self.send(), 0)
        self.pass_time(30)
        (link,) = self.status("10.0.0.1")["haConnectionInfo"]
        self.assertLess(link["transferredByteInSecond"], 13)
        self.assertLess(self.status("10.0.0.2")["haClientRuntimeInfo"]["transferredByteInSecond"], 13)

    def test_the_slave_knows_how_far_its_masters_log_is_on_disk(self) -> None:
        self.assertEqual(self.status("10.0.0.2")["haClientRuntimeInfo"]["masterFlushOffset"], 0)
        self.assertEqual(self.send(), 0)
        self.pass_time(25)  # a thorough flush, and a look at the tables after it
        end = self.master.parts.store.log.max_offset
        self.assertEqual(self.status("10.0.0.1")["haClientRuntimeInfo"]["masterFlushOffset"], end)
        self.assertEqual(self.status("10.0.0.2")["haClientRuntimeInfo"]["masterFlushOffset"], end)

    def test_a_slave_without_its_master_says_zero_and_why(self) -> None:
        self.nodes.stop(self.master)
        client = self.status("10.0.0.2")["haClientRuntimeInfo"]
        self.assertEqual((client["lastReadTimestamp"], client["transferredByteInSecond"]), (0, 0))
        self.assertIn("10.0.0.1:10912", client["problem"])

    def test_figures_of_waits_for_slaves_are_a_masters(self) -> None:
        self.assertEqual(
            self.ask("10.0.0.1", RequestCode.GET_BROKER_RUNTIME_INFO)["table"]["slaveWaitsExpired"], "0"
        )
        self.assertNotIn(
            "slaveWaitsExpired", self.ask("10.0.0.2", RequestCode.GET_BROKER_RUNTIME_INFO)["table"]
        )

    def test_a_put_that_no_slave_has_is_reported_and_counted(self) -> None:
        caught = LogCatcher(self)
        self.nodes.stop(self.slave)
        self.assertEqual(self.send(properties="TAGS\x01red"), ResponseCode.SLAVE_NOT_AVAILABLE)
        self.nodes.play_slave(
            "10.0.0.5", "10.0.0.1:10912", self.master.parts.store.log.max_offset
        ).acks = False
        offset = self.master.parts.store.log.max_offset
        self.assertEqual(self.send(properties="TAGS\x01blue"), ResponseCode.FLUSH_SLAVE_TIMEOUT)
        missing, late = caught.texts("error")
        self.assertIn("put answered SLAVE_NOT_AVAILABLE, no slave is connected", missing)
        self.assertIn("topic T, tags red,", missing)
        self.assertIn(
            "put answered FLUSH_SLAVE_TIMEOUT, no slave has acknowledged it in time: topic T, tags blue, ",
            late,
        )
        self.assertIn(f"commit log offset {offset}, client 10.0.0.100:", late)
        self.assertTrue(
            any("slave 10.0.0.2:" in text and " left at" in text for text in caught.texts("warn"))
        )
        table = self.ask("10.0.0.1", RequestCode.GET_BROKER_RUNTIME_INFO)["table"]
        figures = ("FailedTimes", "SlaveNotAvailableTimes", "FlushSlaveTimeoutTimes", "TimesTotal")
        self.assertEqual([table[f"putMessage{name}"] for name in figures], ["2", "1", "1", "2"])
        self.assertEqual((table["slaveWaitsExpired"], table["slaveWaitsOpen"]), ("1", "0"))

    def test_two_slaves_with_one_id_are_told_apart_and_warned_about(self) -> None:
        caught = LogCatcher(self)
        self.started("10.0.0.4", BrokerRole.SLAVE, broker_id=1)
        self.pass_time(70)
        warnings = caught.texts("warn")
        by_master = [text for text in warnings if "2 slaves of this master have brokerId 1" in text]
        self.assertIn(len(by_master), (1, 2))
        self.assertIn(
            "10.0.0.2:10911 (asks from 10.0.0.2), 10.0.0.4:10911 (asks from 10.0.0.4)", by_master[0]
        )
        by_names = [text for text in warnings if "two brokers register as broker-a id 1" in text]
        self.assertIn(len(by_names), (1, 2))
        self.assertIn("10.0.0.2:10911", by_names[0])
        self.assertIn("10.0.0.4:10911", by_names[0])
        links = self.status("10.0.0.1")["haConnectionInfo"]
        self.assertEqual({link["addr"].partition(":")[0] for link in links}, {"10.0.0.2", "10.0.0.4"})
