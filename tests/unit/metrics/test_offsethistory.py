from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.metrics.offsethistory import SAMPLES, OffsetHistory
from hatwisted.timing.histogram import Histogram


class OffsetHistoryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.history = OffsetHistory()

    def test_seconds_since_the_log_is_longer(self) -> None:
        for second, end in enumerate((0, 100, 200, 300)):
            self.history.note(1000.0 + second, end)
        self.assertEqual(self.history.behind(300, 1003.5), 0.0)
        self.assertEqual(self.history.behind(250, 1003.5), 0.5)
        self.assertEqual(self.history.behind(0, 1003.5), 2.5)

    def test_a_pause_isnt_lag(self) -> None:
        """A log that was idle for an hour grows: who hasn't the new bytes yet is a second behind, not an hour."""
        for second in range(3600):
            self.history.note(float(second), 500)
        self.history.note(3600.0, 600)
        self.assertEqual(self.history.behind(500, 3600.5), 0.5)

    def test_who_is_further_behind_than_is_known_is_as_far_as_is_known(self) -> None:
        for second in range(3 * SAMPLES):
            self.history.note(float(second), second * 10 + 10)
        self.assertGreaterEqual(self.history.behind(0, 3.0 * SAMPLES), SAMPLES)

    def test_another_log_forgets_the_first(self) -> None:
        self.history.note(0.0, 1000)
        self.history.note(1.0, 10)
        self.assertEqual(self.history.behind(10, 5.0), 0.0)
        self.history.note(2.0, 20)
        self.assertEqual(self.history.behind(10, 5.0), 3.0)

    def test_nothing_is_known_of_an_unseen_log(self) -> None:
        self.assertEqual(self.history.behind(0, 5.0), 0.0)


class HistogramTests(SynchronousTestCase):
    def test_a_value_is_in_its_bucket_and_all_above(self) -> None:
        histogram = Histogram((0.1, 1.0))
        histogram.add(0.1, 3)
        histogram.add(0.5)
        histogram.add(7.0, 2)
        self.assertEqual(histogram.cumulative(), [(0.1, 3), (1.0, 4), (float("inf"), 6)])
        self.assertEqual(histogram.count, 6)
        self.assertAlmostEqual(histogram.total, 14.8)
