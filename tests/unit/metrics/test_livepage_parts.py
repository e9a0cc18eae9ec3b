"""What the live page is made of: the last hour, its lines, the last events."""

from __future__ import annotations

from twisted.logger import Logger, LogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.metrics.chart import HEIGHT, WIDTH, Chart, drawn
from hatwisted.metrics.eventfeed import LONGEST, MOST, EventFeed
from hatwisted.metrics.hour import MOMENTS, Hour, Totals, quantile
from hatwisted.metrics.livestate import seconds_text, size_text


class HourTests(SynchronousTestCase):
    def test_a_moment_is_the_difference_to_the_one_before(self) -> None:
        hour = Hour()
        hour.note(Totals(100.0, 1000, 10, {"append": [5, 0, 0]}), (0.1, 1.0), None)
        hour.note(Totals(110.0, 1500, 30, {"append": [5, 100, 0]}), (0.1, 1.0), 2.0)
        (moment,) = hour.moments
        self.assertEqual((moment.rate_in, moment.rate_out, moment.lag), (50.0, 2.0, 2.0))
        self.assertAlmostEqual(moment.stages["append"], 0.991)

    def test_a_stage_without_puts_has_no_figure(self) -> None:
        hour = Hour()
        for at in (1.0, 11.0):
            hour.note(Totals(at, 0, 0, {"flush": [7, 0]}), (0.1,), None)
        self.assertEqual(hour.moments[0].stages, {})

    def test_an_hour_is_kept(self) -> None:
        hour = Hour()
        for number in range(2 * MOMENTS):
            hour.note(Totals(number * 10.0, number, 0, {}), (), None)
        self.assertEqual(len(hour.moments), MOMENTS)

    def test_what_is_beyond_the_last_bound_is_at_least_that(self) -> None:
        self.assertEqual(quantile([0, 0, 9], (0.1, 1.0), 0.99), 1.0)


class ChartTests(SynchronousTestCase):
    def test_the_highest_figure_is_at_the_top_and_now_at_the_right(self) -> None:
        text = drawn(Chart("Lag", seconds_text, {"lag": [(400.0, 0.0), (1000.0, 4.0)]}), 1000.0)
        self.assertIn(f'points="0.0,{HEIGHT - 18}.0 {WIDTH}.0,8.0"', text)

    def test_a_gap_parts_the_line(self) -> None:
        points = [(10.0, 1.0), (20.0, None), (30.0, 2.0)]
        self.assertEqual(drawn(Chart("Lag", seconds_text, {"lag": points}), 30.0).count("<polyline"), 2)

    def test_nothing_yet_is_drawn_as_nothing(self) -> None:
        self.assertNotIn("<polyline", drawn(Chart("<Lag>", seconds_text, {"lag": []}), 30.0))
        self.assertIn("&lt;Lag&gt;", drawn(Chart("<Lag>", seconds_text, {"lag": []}), 30.0))


class EventFeedTests(SynchronousTestCase):
    def setUp(self) -> None:
        publisher = LogPublisher()
        self.log = Logger(observer=publisher)
        self.feed = EventFeed(publisher)
        self.feed.start()

    def test_named_events_and_warnings_are_kept(self) -> None:
        self.log.info("a line like many")
        self.log.info("slave lag", event="slave.lag")
        self.log.info("slave {peer} left", event="slave.left", peer="10.0.0.2")
        self.log.warn("no\nspace")
        self.assertEqual(
            [(told.level, told.name, told.text) for told in self.feed.told],
            [("info", "slave.left", "slave 10.0.0.2 left"), ("warn", "", "no space")],
        )

    def test_they_have_a_number_and_a_length(self) -> None:
        for number in range(MOST + 5):
            self.log.error("{text}", text=f"{number} " + "x" * 1000)
        self.assertEqual(len(self.feed.told), MOST)
        self.assertTrue(all(len(told.text) == LONGEST for told in self.feed.told))

    def test_nothing_is_heard_after_its_stop(self) -> None:
        self.feed.stop()
        self.log.error("too late")
        self.assertEqual(list(self.feed.told), [])


class TextTests(SynchronousTestCase):
    def test_figures_in_words(self) -> None:
        self.assertEqual(
            [size_text(size) for size in (0, 1023, 1536, 5 << 30)], ["0 B", "1,023 B", "1.5 KiB", "5.0 GiB"]
        )
        self.assertEqual(
            [seconds_text(each) for each in (0, 0.00025, 0.0101, 5, 600)],
            ["0 s", "250 µs", "10.1 ms", "5.0 s", "10 min"],
        )
