"""How far a copy has come, and how long it takes yet, on a clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.node.copyreport import CopyReport
from hatwisted.wire.quantities import size_text, time_text
from tests.unit.ha.rig import LogCatcher

MIB = 1 << 20


class Copying(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.log: Any = SimpleNamespace(min_offset=0, max_offset=0)
        self.end = 3000 * MIB
        self.rate = 0
        self.peer: str | None = "m:10912"
        self.caught = LogCatcher(self)
        self.reachable = True
        self.report = CopyReport(self.clock, self.log, self.ask, lambda: self.peer)
        self.report.start()
        self.addCleanup(self.report.stop)

    def ask(self) -> Deferred[Any]:
        if not self.reachable:
            return fail(OSError("no answer"))
        return succeed({"commitLogMaxOffset": str(self.end), "brokerVersionDesc": "V5_3_3"})

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.log.max_offset = min(self.end, self.log.max_offset + self.rate)
            self.clock.advance(1)

    def said(self) -> list[str]:
        return self.caught.texts("info")

    def test_percent_rate_and_time_left(self) -> None:
        self.rate = 10 * MIB
        self.pass_time(11)
        first, progress = self.said()
        self.assertEqual(first, "copying from master m:10912 (V5_3_3): 2.9 GiB behind")
        self.assertEqual(progress, "copying 3 %: 100.0 MiB of 2.9 GiB, 10.0 MiB/s, 5 min left")
        self.pass_time(300)
        self.assertTrue(self.report.level)
        self.assertEqual(len(self.said()), 2 + 4 + 1)
        self.assertRegex(self.said()[-1], "level with its master at offset 3145728000, after 5 min")

    def test_a_copy_that_never_gets_there(self) -> None:
        self.pass_time(11)
        self.assertIn("0 B/s, not catching up", self.said()[-1])

    def test_a_master_that_does_not_answer_is_asked_again(self) -> None:
        self.reachable = False
        self.pass_time(30)
        self.assertEqual(self.said(), [])
        self.reachable = True
        self.pass_time(5)
        self.assertEqual(len(self.said()), 1)

    def test_behind_again_after_it_was_level(self) -> None:
        self.log.max_offset = self.end
        self.pass_time(10)
        self.assertTrue(self.report.level)
        self.end += 100 * MIB
        self.pass_time(60)
        self.assertTrue(self.report.level)
        self.pass_time(10)
        self.assertFalse(self.report.level)
        self.assertIn("copying 96 %", self.said()[-1])

    def test_without_a_link_nothing_is_level(self) -> None:
        self.log.max_offset = self.end
        self.pass_time(5)
        self.peer = None
        self.pass_time(5)
        self.assertFalse(self.report.level)
        self.assertEqual(self.report.master_end, self.end)


class Quantities(SynchronousTestCase):
    def test_sizes(self) -> None:
        self.assertEqual(
            [size_text(n) for n in (0, 1023, 1536, 5 << 40)], ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]
        )

    def test_times(self) -> None:
        given = (0.4, 59.4, 60, 3599, 3600, 7500, 86400, 93600, -5)
        shown = ["0 s", "59 s", "1 min", "1 h", "1 h", "2 h 5 min", "1 d", "1 d 2 h", "0 s"]
        self.assertEqual([time_text(n) for n in given], shown)
