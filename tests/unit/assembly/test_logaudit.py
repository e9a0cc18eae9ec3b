"""A slave compares its log with its master's, round after round, and repairs it when it's told to."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred

from hatwisted.broker.node import logaudit, logrepair
from hatwisted.broker.node.logaudit import ROUND_PAUSE
from hatwisted.broker.node.logrepair import MOST_WAITING
from hatwisted.logcodec.logdrift import DriftedRecord
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.layout import file_name
from hatwisted.wire.logrange import LogRange
from hatwisted.wire.remoting import RemotingCommand
from tests.support.auditedpair import MASTER, SLAVE, AuditedPair
from tests.unit.ha.rig import LogCatcher

RATE = 2000


class LogAuditCase(AuditedPair):
    """The slave compares RATE bytes a second."""

    slave_keys = {"ha_audit_rate": RATE}

    def setUp(self) -> None:
        super().setUp()
        self.logged = LogCatcher(self)

    def file(self, host: str) -> Path:
        return self.nodes.folder / host / "commitlog" / file_name(0)

    def figures(self) -> dict[str, str]:
        return json.loads(self.nodes.ask(f"{SLAVE}:10911", RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]

    def one_round(self) -> None:
        before = self.figures()["haAuditRounds"]
        self.nodes.pass_time(ROUND_PAUSE + self.end / RATE + 5, step=0.5)
        self.assertEqual(int(self.figures()["haAuditRounds"]), int(before) + 1)

    def repair(self, begin: int, end: int, host: str = SLAVE) -> Any:
        return self.nodes.ask(f"{host}:10911", RequestCode.REPAIR_LOG, begin=begin, end=end)


class RoundTests(LogAuditCase):
    def test_B172_equal_logs_are_gone_over_in_silence(self) -> None:
        self.one_round()
        self.assertEqual(self.figures()["haAuditDifferences"], "0")
        self.assertEqual([line for line in self.logged.texts("warn") if "differ" in line], [])

    def test_B172_a_bit_that_rots_at_rest_is_reported_within_one_round_with_its_place(self) -> None:
        begin, end = self.place(23)
        for host, verdict in ((SLAVE, "ours is rotten"), (MASTER, "the master's copy is rotten")):
            self.spoil(host, begin + 120)
            self.one_round()
            self.assertEqual(self.figures()["haAuditDifferences"], "1")
            told = [line for line in self.logged.texts("warn") if "differ in bytes" in line][-1]
            self.assertIn(f"bytes {begin + 120} to {begin + 121}: record {begin} to {end}", told)
            self.assertIn(f"(T, queue 0, offset 23): {verdict}", told)
            self.spoil(host, begin + 120)

    def test_B172_of_many_differences_the_log_names_some(self) -> None:
        self.patch(logaudit, "MOST_TOLD", 2)
        for number in (3, 13, 23, 33):
            self.spoil(SLAVE, self.place(number)[0] + 120)
        self.one_round()
        self.assertEqual(self.figures()["haAuditDifferences"], "4")
        lines = self.logged.texts("warn")
        self.assertEqual(len([line for line in lines if "differ in bytes" in line]), 2)
        self.assertEqual(len([line for line in lines if "differ in 4 ranges" in line]), 1)

    def test_B172_no_more_is_read_than_the_rate(self) -> None:
        self.nodes.pass_time(ROUND_PAUSE - 13, step=0.5)
        reached = []
        while self.figures()["haAuditRounds"] == "0":
            self.nodes.pass_time(0.5, step=0.5)
            reached.append(int(self.figures()["haAuditOffset"]))
        steps = [offset for offset in reached if offset > 0]
        self.assertGreater(len(steps), 2)
        for before, after in itertools.pairwise(steps):
            self.assertLessEqual(after - before, RATE)

    def test_B172_without_a_link_nothing_is_compared(self) -> None:
        self.nodes.result(self.slave.services.ha_client.stopService())
        self.nodes.pass_time(2 * ROUND_PAUSE, step=0.5)
        self.assertEqual(self.figures()["haAuditRounds"], "0")

    def test_B172_a_difference_found_while_the_link_ended_is_nobodys_rot(self) -> None:
        """The master may have come back without its tail, and have put other messages there."""
        self.spoil(SLAVE, self.place(23)[0] + 120)
        logs = self.slave.services._audit._logs
        read = logs.read

        def link_ends(span: LogRange) -> Awaitable[tuple[bytes, bytes]]:
            self.slave.services.ha_client.stopService()
            return read(span)

        self.patch(logs, "read", link_ends)
        self.nodes.pass_time(2 * ROUND_PAUSE, step=0.5)
        self.assertFalse(self.slave.services.ha_client.agrees)
        self.assertEqual(self.figures()["haAuditDifferences"], "0")
        self.assertEqual([line for line in self.logged.texts("warn") if "differ" in line], [])

    def test_B172_a_difference_waits_for_a_word_on_the_link(self) -> None:
        """The broker that answers may be another one than the link's, back without its tail."""
        self.spoil(SLAVE, self.place(23)[0] + 120)
        self.nodes.pass_time(ROUND_PAUSE - 13, step=0.5)
        for end in self.nodes.network.transports:
            if (end.getHost().host, end.getHost().port) == (MASTER, 10912):
                end.stalled_until = self.nodes.clock.seconds() + 15
        self.nodes.pass_time(14, step=0.5)
        self.assertTrue(self.slave.services.ha_client.agrees)
        self.assertEqual(self.figures()["haAuditDifferences"], "0")
        self.nodes.pass_time(15, step=0.5)
        self.assertEqual(self.figures()["haAuditDifferences"], "1")

    def test_B172_a_master_that_knows_no_such_request_is_left_alone(self) -> None:
        factory = self.master._factories[0]
        factory.serve(factory.table.without(RequestCode.LOG_DIGESTS))
        self.nodes.pass_time(5 * ROUND_PAUSE, step=0.5)
        told = [line for line in self.logged.texts("info") if "isn't compared with this master's" in line]
        self.assertEqual(len(told), 1)


class OffTests(LogAuditCase):
    slave_keys = {"ha_audit_rate": 0}

    def test_B172_a_rate_of_0_is_off(self) -> None:
        self.nodes.pass_time(5 * ROUND_PAUSE, step=0.5)
        self.assertEqual(self.figures()["haAuditRounds"], "0")


class RepairTests(LogAuditCase):
    slave_keys = {"ha_audit_rate": 0}

    def test_B173_a_rotten_record_is_overwritten_and_the_old_bytes_are_kept(self) -> None:
        begin, end = self.place(23)
        self.spoil(SLAVE, begin + 120)
        rotten = self.file(SLAVE).read_bytes()[begin:end]
        answer = self.repair(begin + 120, begin + 121)
        (record,) = json.loads(answer.body)["records"]
        self.assertEqual((record["begin"], record["end"], record["rotten"]), (begin, end, "slave"))
        self.assertEqual(Path(record["sideFile"]).read_bytes(), rotten)
        self.assertEqual(Path(record["sideFile"]).parent.name, "repair")
        self.assertEqual(self.file(SLAVE).read_bytes(), self.file(MASTER).read_bytes())
        self.assertEqual(self.slave.parts.store.record_at(begin).body, bytes([23]) * 200)

    def test_B173_a_second_repair_keeps_both(self) -> None:
        begin, _ = self.place(23)
        kept = []
        for _ in range(2):
            self.spoil(SLAVE, begin + 120)
            answer = self.repair(begin + 120, begin + 121)
            kept += [record["sideFile"] for record in json.loads(answer.body)["records"]]
        self.assertEqual(len(set(kept)), 2)

    def test_B173_what_is_rotten_on_the_master_or_nobodys_fault_stays(self) -> None:
        begin, end = self.place(23)
        for host, at in ((MASTER, begin + 120), (SLAVE, end - 1)):
            self.spoil(host, at)
            before = self.file(SLAVE).read_bytes()
            (record,) = json.loads(self.repair(at, at + 1).body)["records"]
            self.assertEqual(record["sideFile"], "")
            self.assertEqual(self.file(SLAVE).read_bytes(), before)
            self.spoil(host, at)

    def test_B173_repairs_that_wait_have_a_number(self) -> None:
        judged: Deferred[list[DriftedRecord]] = Deferred()
        self.patch(logrepair, "judged_records", lambda logs, span: judged)
        fields = {"begin": str(self.place(3)[0]), "end": str(self.place(3)[1])}

        def begun() -> Deferred[RemotingCommand]:
            request = RemotingCommand(RequestCode.REPAIR_LOG, ext=dict(fields))
            return self.nodes.client.call(f"{SLAVE}:10911", request, 30)

        repairs = [begun() for _ in range(1 + MOST_WAITING)]
        self.nodes.pass_time(1)
        self.assertEqual(self.repair(*self.place(3)).code, ResponseCode.SYSTEM_BUSY)
        judged.callback([])
        self.assertEqual({self.nodes.result(each).code for each in repairs}, {0})

    def test_B173_only_a_linked_slave_repairs(self) -> None:
        self.assertEqual(self.repair(0, 1, MASTER).code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        self.nodes.result(self.slave.services.ha_client.stopService())
        self.assertEqual(self.repair(0, 1).code, ResponseCode.SERVICE_NOT_AVAILABLE)
