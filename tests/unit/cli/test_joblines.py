"""A job that follows logs, told line by line."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.pipeline.joblines import EVERY, JobLines

MIB = 1 << 20


class JobLinesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.said = Clock(), list[str]()
        self.lines = JobLines("land", self.said.append, self.clock.seconds)

    def taken(self) -> list[str]:
        said = list(self.said)
        self.said.clear()
        return said

    def test_what_is_waited_for_has_its_line_at_once(self) -> None:
        for what in ("reading the table", "reading the table", "Spark's start"):
            self.lines.waits_for(what)
        self.assertEqual(self.taken(), ["land: reading the table", "land: Spark's start"])

    def test_what_is_read_is_told_from_time_to_time(self) -> None:
        self.lines(MIB, 4 * MIB)
        self.assertEqual(self.taken(), ["land: 1.0 MiB of log read, 3.0 MiB to go"])
        self.clock.advance(EVERY / 2)
        self.lines(4 * MIB, 4 * MIB)
        self.assertEqual(self.taken(), [])
        self.clock.advance(EVERY / 2)
        self.lines(2 * MIB, 2 * MIB)  # of the next round
        self.assertEqual(self.taken(), ["land: 6.0 MiB of log read, all that there was"])

    def test_a_second_run_over_the_same_place_is_no_round(self) -> None:
        self.lines(MIB, 4 * MIB)
        self.clock.advance(EVERY)
        self.lines(MIB, 4 * MIB)
        self.assertEqual(self.taken()[1:], ["land: 1.0 MiB of log read, 3.0 MiB to go"])
