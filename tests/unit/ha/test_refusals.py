from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha.refusals import RefusalLog
from hatwisted.timing.throttle import MAX_SOURCES
from tests.unit.ha.rig import LogCatcher


class ComplaintTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.caught = LogCatcher(self)
        self.clock = Clock()
        self.complaints = RefusalLog(self.clock)

    def test_one_line_per_source_and_minute_and_all_are_counted(self) -> None:
        for _ in range(120):
            self.complaints.complain("10.0.0.1", "garbage")
            self.complaints.complain("10.0.0.2", "garbage")
            self.clock.advance(1)
        self.assertEqual(self.complaints.total, 240)
        self.assertEqual(len(self.caught.texts("warn")), 4)
        self.assertIn("(59 more like it were not logged)", self.caught.texts("warn")[2])

    def test_any_number_of_sources_costs_bounded_memory(self) -> None:
        for number in range(MAX_SOURCES + 10):
            self.complaints.complain(f"source {number}", "garbage")
        self.assertFalse(self.complaints.complain(f"source {MAX_SOURCES}", "again"))
        self.assertTrue(self.complaints.complain("source 0", "forgotten by now"))

    def test_what_needs_an_operator_is_an_error(self) -> None:
        self.complaints.complain("slave", "lacks bytes", error=True)
        self.assertEqual(self.caught.texts("error"), ["HA link, slave: lacks bytes"])
