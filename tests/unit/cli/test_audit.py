"""`hatwisted audit` of a master and its slave, both whole nodes in memory, with bytes changed at rest."""

from __future__ import annotations

import json
from typing import Any, cast

import click
from click.testing import CliRunner
from twisted.internet.defer import Deferred

from hatwisted.broker.admin import logbytes
from hatwisted.cli.cluster import audit as command
from hatwisted.cli.cluster.clusterrun import Interrupt
from hatwisted.cli.main import main
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.errors import Refused
from hatwisted.logcodec import logdrift
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.logrange import MOST_DIGESTED, MOST_READ, LogRange
from hatwisted.wire.remoting import RemotingCommand
from tests.support.auditedpair import MASTER, SLAVE, AuditedPair
from tests.support.memorynode import CLIENT_HOST, NAME_SERVER

FILE_SIZE = 1 << 20


class AuditCase(AuditedPair):
    """The command, asking both."""

    def outcome(self, *words: str) -> tuple[Any, str]:
        """One run of the command: how it ended, and what it said."""
        planned: list[Any] = []
        words = ("audit", f"{MASTER}:10911", f"{SLAVE}:10911", *words)
        CliRunner().invoke(main, words, obj=lambda *plan: planned.append(plan) or 0)
        network = self.nodes.network.host(CLIENT_HOST)
        cluster = Cluster(self.nodes.clock, NAME_SERVER, connecting=network, client_id="audit")
        said: list[str] = []
        self.patch(click, "echo", lambda text: said.append(text if isinstance(text, str) else text.decode()))
        self.addCleanup(lambda: self.nodes.result(cluster.close()))
        ended = Deferred.fromCoroutine(planned[0][1](cluster, Interrupt()))
        return self.nodes.result(ended, 60), "\n".join(said)

    def audit(self, *words: str, code: int = 0) -> Any:
        """What it found, as JSON."""
        ended, said = self.outcome(*words, "--json")
        self.assertEqual(ended, code, said)
        return json.loads(said)


class AuditTests(AuditCase):
    def test_B171_equal_copies(self) -> None:
        found = self.audit()
        self.assertEqual((found["begin"], found["end"]), (0, self.end))
        self.assertEqual((found["complete"], found["differences"]), (True, []))
        self.assertIn(": equal", self.outcome()[1])

    def test_B171_a_bit_that_rotted_on_one_side_is_found_to_the_byte_with_its_message(self) -> None:
        for host, side in ((SLAVE, "slave"), (MASTER, "master")):
            begin, end = self.place(17)
            self.spoil(host, begin + 100)
            (difference,) = self.audit(code=1)["differences"]
            self.assertEqual((difference["begin"], difference["end"]), (begin + 100, begin + 101))
            place = {"begin": begin, "end": end, "topic": "T", "queueId": 0, "queueOffset": 17}
            self.assertEqual(difference["records"], [place | {"rotten": side}])
            self.assertIn(f"T, queue 0, offset 17: the {side}'s copy is rotten", self.outcome()[1])
            self.spoil(host, begin + 100)

    def test_B171_what_differs_in_valid_records_is_shown_and_not_judged(self) -> None:
        _, end = self.place(17)
        self.spoil(SLAVE, end - 1)
        (difference,) = self.audit(code=1)["differences"]
        self.assertEqual([each["rotten"] for each in difference["records"]], ["undecided"])

    def test_B173_what_is_rotten_on_the_slave_is_repaired_on_request(self) -> None:
        begin, _ = self.place(17)
        self.spoil(SLAVE, begin + 100)
        (difference,) = self.audit("--repair")["differences"]
        self.assertIn("repair", difference["records"][0]["sideFile"])
        self.assertEqual(self.audit()["differences"], [])
        self.spoil(MASTER, begin + 100)
        self.assertEqual(len(self.audit("--repair", code=1)["differences"]), 1)

    def test_a_slave_that_answers_what_is_no_answer(self) -> None:
        self.spoil(SLAVE, self.place(17)[0] + 100)
        ask, bodies = command.BrokerPair._ask_one, [b"", b"{}", b"[]", b'{"records":[{}]}']

        async def answer(pair: Any, address: str, code: RequestCode, ext: Any) -> RemotingCommand:
            if code != RequestCode.REPAIR_LOG:
                return await ask(pair, address, code, ext)
            return RemotingCommand(0, body=bodies[0])

        self.patch(command.BrokerPair, "_ask_one", answer)
        while bodies:
            (difference,) = self.audit("--repair", code=1)["differences"]
            self.assertIn(f"{SLAVE}:10911: unreadable answer", difference["problem"])
            del bodies[0]

    def test_only_the_range_that_was_asked_for(self) -> None:
        begin, end = self.place(17)
        self.spoil(SLAVE, begin + 100)
        self.assertEqual(self.audit("--from", str(end))["differences"], [])
        self.assertEqual(self.audit("--to", str(begin))["end"], begin)
        with self.assertRaisesRegex(click.ClickException, "nothing to compare: both logs hold"):
            self.outcome("--from", str(self.end))

    def test_copies_in_which_everything_differs_end_the_search(self) -> None:
        self.patch(command, "MOST_DIFFERENCES", 1)
        for number in (0, 39):
            self.spoil(SLAVE, self.place(number)[0] + 100)
        self.assertEqual(len(self.audit(code=1)["differences"]), 1)
        self.assertIn("see 'hatwisted log compare'", self.outcome()[1])

    def test_as_do_ranges_of_many_records(self) -> None:
        self.patch(command, "MOST_RECORDS", 2)
        for number in (0, 19, 39):
            self.spoil(SLAVE, self.place(number)[0] + 100)
        found = self.audit(code=1)
        self.assertLess(len(found["differences"]), 3)
        self.assertFalse(found["complete"])

    def test_what_was_not_looked_at_after_too_many_differences_is_not_said_to_be_well(self) -> None:
        self.patch(command, "MOST_DIFFERENCES", 1)
        for number in (0, 39):
            self.spoil(SLAVE, self.place(number)[0] + 100)
        found = self.audit("--repair", code=1)
        self.assertEqual([each["records"][0]["queueOffset"] for each in found["differences"]], [0])
        self.assertEqual((found["complete"], found["end"]), (False, self.place(0)[0] + 101))
        self.assertEqual(self.audit("--repair", code=1)["differences"][0]["records"][0]["queueOffset"], 39)
        self.assertTrue(self.audit()["complete"])

    def test_all_of_a_long_range_is_judged_and_repaired(self) -> None:
        self.patch(logdrift, "MOST_JUDGED", 3)
        for number in range(3, 12):
            self.spoil(SLAVE, self.place(number)[0] + 100)
        found = self.audit("--repair")["differences"]
        self.assertEqual([[each["queueOffset"] for each in one["records"]] for one in found][0], [3, 4, 5])
        self.assertEqual([each["queueOffset"] for one in found for each in one["records"]], [*range(3, 12)])
        self.assertEqual(self.audit()["differences"], [])

    def test_what_was_repaired_is_said_also_if_the_rest_cant_be(self) -> None:
        for number in (0, 39):
            self.spoil(SLAVE, self.place(number)[0] + 100)
        repair, places = command.BrokerPair.repair, list[int]()

        async def refused_later(pair: command.BrokerPair, difference: command.Difference) -> None:
            places.append(difference.begin)
            if len(places) > 1:
                raise Refused(f"{SLAVE}:10911", 1, "its master is away")
            await repair(pair, difference)

        self.patch(command.BrokerPair, "repair", refused_later)
        first, second = self.audit("--repair", code=1)["differences"]
        self.assertIn("repair", first["records"][0]["sideFile"])
        self.assertNotIn("sideFile", second["records"][0])
        self.assertIn("its master is away", second["problem"])
        places[:] = [0]
        self.assertIn("  not repaired: " + second["problem"], self.outcome("--repair")[1])

    def test_a_broker_that_makes_no_checksums_is_named(self) -> None:
        factory = self.master._factories[0]
        factory.serve(factory.table.without(RequestCode.LOG_DIGESTS))
        with self.assertRaisesRegex(click.ClickException, rf"{MASTER}:10911 can't checksum.*log compare"):
            self.outcome()

    def test_a_busy_broker_is_asked_again(self) -> None:
        self.patch(command, "BUSY_TRIES", 3)
        self.patch(logbytes, "RATE", self.end)
        for _ in range(3):
            self.ask(RequestCode.LOG_DIGESTS, begin=0, end=self.end, block=4096)
        self.assertEqual(self.audit()["differences"], [])

    def expiring(self, steps: list[int]) -> command.LogAudit:
        """An audit of 4 spans of 10 bytes, at 10 a second, during which the logs come to begin at each of `steps`
        in its turn: 0 stands for an answer."""

        class Pair:
            addresses = "m:1", "s:1"
            span = LogRange(0, 40)
            seconds = 0.0

            async def look(self) -> LogRange:
                return self.span

            async def pause(self, seconds: float) -> None:
                self.seconds += seconds

            async def digests(self, span: LogRange, block: int) -> tuple[bytes, bytes]:
                begin = steps.pop(0)
                if begin:
                    self.span = LogRange(begin, 40)
                    raise Refused("m:1", ResponseCode.PULL_OFFSET_MOVED, "")
                return b"", b""

        self.patch(command, "SPAN", 10)
        self.pair = Pair()
        work = command.compare(cast(command.BrokerPair, self.pair), (None, None), 10, Interrupt())
        return self.nodes.result(Deferred.fromCoroutine(work))

    def test_what_expires_meanwhile_is_not_said_to_be_equal(self) -> None:
        found = self.expiring([15, 0, 35, 0])
        self.assertEqual((found.begin, found.end, found.expired, found.complete), (15, 40, 10, True))
        self.assertEqual(self.pair.seconds, 1.5)  # for what was read
        self.assertIn("10 B in between expired before they were compared", list(command.audit_lines(found)))
        with self.assertRaisesRegex(click.ClickException, "has expired meanwhile"):
            self.expiring([45])

    # ---- the requests themselves

    def ask(self, code: RequestCode, **ext: object) -> Any:
        return self.nodes.ask(f"{MASTER}:10911", code, **ext)

    def test_B171_requests_outside_the_log_and_its_limits_are_refused(self) -> None:
        digests, read = RequestCode.LOG_DIGESTS, RequestCode.READ_LOG
        for code, ext, answer in (
            (digests, {"begin": 0, "end": self.end + 1, "block": 4096}, ResponseCode.INVALID_PARAMETER),
            (digests, {"begin": 0, "end": self.end}, ResponseCode.SYSTEM_ERROR),
            (digests, {"begin": 0, "end": self.end, "block": 4095}, ResponseCode.SYSTEM_ERROR),
            (digests, {"begin": 0, "end": MOST_DIGESTED + 1, "block": 4096}, ResponseCode.SYSTEM_ERROR),
            (digests, {"begin": -1, "end": 9, "block": 4096}, ResponseCode.SYSTEM_ERROR),
            (digests, {"begin": 9, "end": 9, "block": 4096}, ResponseCode.SYSTEM_ERROR),
            (read, {"begin": self.end, "end": self.end + 1}, ResponseCode.INVALID_PARAMETER),
            (read, {"begin": 0, "end": MOST_READ + 1}, ResponseCode.SYSTEM_ERROR),
            (read, {"begin": 0, "end": 9}, ResponseCode.SUCCESS),
        ):
            self.assertEqual(self.ask(code, **ext).code, answer, (code, ext))

    def test_B171_a_file_that_has_expired_is_not_read(self) -> None:
        log = self.master.parts.store.log
        log.files.starts = [FILE_SIZE]
        answer = self.ask(RequestCode.READ_LOG, begin=0, end=9)
        log.files.starts = [0]
        self.assertEqual(answer.code, ResponseCode.PULL_OFFSET_MOVED)

    def test_B171_more_than_the_rate_is_told_to_come_back(self) -> None:
        ranges = {"begin": 0, "end": self.end, "block": 4096}
        processor_rate = self.end / 2
        self.patch(logbytes, "RATE", processor_rate)
        codes = [self.ask(RequestCode.LOG_DIGESTS, **ranges).code for _ in range(3)]
        self.assertEqual(codes[0], ResponseCode.SUCCESS)
        self.assertEqual(codes[-1], ResponseCode.SYSTEM_BUSY)
        self.nodes.pass_time(6)
        self.assertEqual(self.ask(RequestCode.LOG_DIGESTS, **ranges).code, ResponseCode.SUCCESS)
