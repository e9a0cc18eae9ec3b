"""A slave that can't copy its master says so before it takes a byte; and what it says of a copy under way."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.node.joincheck import clock_warning
from hatwisted.config.pairing import pairing
from hatwisted.config.schema import BrokerConfig, BrokerRole
from hatwisted.wire.codes import RequestCode
from tests.support.memorynode import NAME_SERVER, NOW, MemoryNodes
from tests.unit.ha.rig import LogCatcher

MASTER, SLAVE = "10.0.0.1", "10.0.0.2"


class PairCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.nodes.start_name_server()
        self.caught = LogCatcher(self)
        self.master = self.nodes.start(MASTER, broker_role=BrokerRole.ASYNC_MASTER, namesrv_addr=NAME_SERVER)
        for _ in range(20):
            self.assertEqual(self.nodes.send(f"{MASTER}:10911", bytes(1000)), 0)
        self.nodes.pass_time(1)

    def slave(self, **more: Any) -> Any:
        changes: dict[str, Any] = {"namesrv_addr": NAME_SERVER, "broker_id": 1, **more}
        return self.nodes.start(SLAVE, broker_role=BrokerRole.SLAVE, **changes)

    def status(self, host: str = SLAVE) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self.nodes.ask(f"{host}:10911", RequestCode.GET_BROKER_HA_STATUS).body
        )
        return answer


class JoinCheckTests(PairCase):
    def test_another_file_size_is_refused_at_once_with_the_line_that_mends_it(self) -> None:
        slave = self.slave(mapped_file_size_commit_log=2 << 20)
        self.nodes.pass_time(2)  # it looks for its master once a second
        (line,) = self.caught.texts("error")
        self.assertIn("mappedFileSizeCommitLog is 2097152 here and 1048576 at the master", line)
        self.assertIn("set mappedFileSizeCommitLog=1048576", line)
        self.assertEqual(slave.parts.store.log.max_offset, 0, "something was copied")
        told = self.status()["haClientRuntimeInfo"]
        self.assertEqual(told["state"], "config mismatch")
        self.assertIn("set mappedFileSizeCommitLog=1048576", told["problem"])
        self.nodes.pass_time(40)
        self.assertEqual(slave.parts.store.log.max_offset, 0)
        self.assertLess(len(self.caught.texts("error")), 3)

    def test_what_only_a_promotion_would_show_is_a_warning(self) -> None:
        slave = self.slave()
        self.nodes.pass_time(5)
        end = slave.parts.store.log.max_offset
        self.assertGreater(end, 0)
        self.nodes.stop(slave)
        again = self.slave(max_index_num=40)
        self.nodes.pass_time(5)
        self.assertEqual(self.status()["haClientRuntimeInfo"]["state"], "transfer")
        (warning,) = [text for text in self.caught.texts("warn") if "maxIndexNum" in text]
        self.assertIn("maxIndexNum is 40 here and 20000000 at the master", warning)
        self.assertEqual(again.parts.store.log.max_offset, end)

    def test_a_slave_is_no_master(self) -> None:
        self.slave()
        self.nodes.start(
            "10.0.0.3", broker_role=BrokerRole.SLAVE, broker_id=2, ha_master_address=f"{SLAVE}:10912"
        )
        self.nodes.pass_time(2)
        (line,) = self.caught.texts("error")
        self.assertIn("the broker there is a SLAVE, no master", line)

    def test_what_the_two_configurations_say(self) -> None:
        def judged(**told: str) -> tuple[str, str]:
            found = pairing(BrokerConfig(broker_name="a"), told)
            return "; ".join(found.objections), "; ".join(found.warnings)

        self.assertEqual(judged(), ("", ""))
        same = {"brokerName": "a", "brokerRole": "SYNC_MASTER", "mappedFileSizeCommitLog": "1073741824"}
        self.assertEqual(judged(**same, enableDLegerCommitLog="false"), ("", ""))
        self.assertIn("DLedger", judged(enableDLegerCommitLog="true")[0])
        self.assertIn("controller mode", judged(enableControllerMode="true")[0])
        self.assertIn("set haTlsEnable=true", judged(haTlsEnable="true")[0])
        self.assertIn("set maxIndexNum=7", judged(maxIndexNum="7")[1])
        self.assertIn("set brokerName=b", judged(brokerName="b")[1])

    def test_a_clock_that_differs(self) -> None:
        told = {"bootTimestamp": "1000000", "runtime": "[ 0 days, 1 hours, 1 minutes, 1 seconds ]"}
        now = 1000 + 3661
        self.assertEqual(clock_warning(told, now + 20), [])
        self.assertEqual(
            clock_warning(told, now - 3600), ["this host's clock is 1 h behind the master's: set both by NTP"]
        )
        self.assertIn("is 1 min ahead of", clock_warning(told, now + 60)[0])
        self.assertEqual(clock_warning({}, NOW), [])


class CopyReportTests(PairCase):
    def test_it_says_whom_it_copies_and_that_it_is_level(self) -> None:
        self.slave()
        self.nodes.pass_time(12)
        said = [text for text in self.caught.texts("info") if "copying" in text or "level" in text]
        self.assertEqual(len(said), 2, said)
        self.assertIn(f"copying from master {MASTER}:10912 (hatwisted ", said[0])
        self.assertNotIn(": 0 B behind", said[0])
        end = self.master.parts.store.log.max_offset
        self.assertIn(f"level with its master at offset {end}", said[1])
        self.nodes.pass_time(300)
        self.assertEqual(len([text for text in self.caught.texts("info") if "level" in text]), 1)

    def test_a_slave_tells_its_masters_end(self) -> None:
        slave = self.slave()
        self.nodes.pass_time(12)
        end = self.master.parts.store.log.max_offset
        self.assertEqual(self.status()["masterCommitLogMaxOffset"], end)
        self.assertEqual(self.nodes.send(f"{MASTER}:10911", bytes(1000)), 0)
        self.nodes.pass_time(0.5)
        self.assertEqual(self.status()["masterCommitLogMaxOffset"], slave.parts.store.log.max_offset)
        self.nodes.stop(self.master)
        self.assertGreaterEqual(self.status()["masterCommitLogMaxOffset"], end)
