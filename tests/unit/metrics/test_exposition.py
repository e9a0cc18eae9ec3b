"""The text of all figures: made in steps, shared, kept for a moment."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.metrics.exposition import KEPT, PIECE, Exposition, pieces
from hatwisted.metrics.families import Figures, gauge, labelled


class PiecesTests(SynchronousTestCase):
    def test_a_long_family_in_pieces_is_the_same_text(self) -> None:
        samples = [([f"topic-{number}"], float(number)) for number in range(3 * PIECE + 7)]
        family = labelled(CounterMetricFamily, "messages_total", "Messages.", ["topic"], samples)
        found = list(pieces(family))
        self.assertEqual(len(found), 4)
        text = b"".join(found).decode()
        self.assertEqual(text.count("# HELP"), 1)
        (read,) = text_string_to_metric_families(text)
        self.assertEqual([sample.value for sample in read.samples], [figure for _, figure in samples])

    def test_names_on_a_terminal_are_shown_and_not_obeyed(self) -> None:
        names = ["T\x7f\x9b2J\u202eevil\u200b\u2028", 'a\\b"c', "d\re", "f\ng", "Zürich"]
        family = labelled(GaugeMetricFamily, "lag", "Lag.", ["group"], [([name], 1) for name in names])
        (text,) = pieces(family)
        self.assertTrue(text.decode().replace("\n", "").isprintable(), text)
        (read,) = text_string_to_metric_families(text.decode())
        self.assertEqual(
            [sample.labels["group"] for sample in read.samples],
            ["T\\x7f\\x9b2J\\u202eevil\\u200b\\u2028", 'a\\b"c', "d\\re", "f\ng", "Zürich"],
        )

    def test_a_family_without_samples_isnt_there(self) -> None:
        self.assertEqual(list(pieces(GaugeMetricFamily("none", "None.", labels=["a"]))), [])


class ExpositionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.calls = 0
        self.exposition = Exposition(self.clock, [self.source])

    def source(self) -> Figures:
        self.calls += 1
        yield gauge("calls", "Calls.", self.calls)
        yield None
        yield gauge("others", "Others.", 1)

    def run_out(self) -> None:
        for _ in range(20):
            self.clock.advance(0)

    def test_who_asks_while_it_is_made_gets_the_same_one(self) -> None:
        first, second = self.exposition.text(), self.exposition.text()
        self.assertNoResult(first)
        self.run_out()
        text = self.successResultOf(first)
        self.assertIn(b"calls 1.0\n", text)
        self.assertIs(self.successResultOf(second), text)
        self.assertEqual(self.calls, 1)

    def test_a_text_is_given_again_for_a_moment(self) -> None:
        first = self.exposition.text()
        self.run_out()
        self.clock.advance(KEPT / 2)
        self.assertIs(self.successResultOf(self.exposition.text()), self.successResultOf(first))
        self.clock.advance(KEPT)
        later = self.exposition.text()
        self.run_out()
        self.assertIn(b"calls 2.0\n", self.successResultOf(later))

    def test_a_source_that_fails_fails_the_scrape_and_not_the_next(self) -> None:
        broken = [True]

        def source() -> Figures:
            yield gauge("one", "One.", 1)
            if broken:
                raise ValueError("broken")

        exposition = Exposition(self.clock, [source])
        asked = exposition.text()
        self.run_out()
        self.failureResultOf(asked, ValueError)
        broken.clear()
        asked = exposition.text()
        self.run_out()
        self.assertIn(b"one 1.0", self.successResultOf(asked))

    def test_its_own_longest_step_is_a_figure(self) -> None:
        def slow() -> Figures:
            self.clock.rightNow += 0.25
            yield gauge("slow", "Slow.", 1)

        exposition = Exposition(self.clock, [slow])
        asked = exposition.text()
        self.run_out()
        self.assertIn(b"hatwisted_metrics_longest_step_seconds 0.25\n", self.successResultOf(asked))
