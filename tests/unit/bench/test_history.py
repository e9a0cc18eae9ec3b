"""What becomes of a row's figures in the file that keeps them, and what of it is drawn."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench import history
from bench.figures import Figure


def figure(label: str, ours: list[float], java: list[float]) -> Figure:
    return Figure(label, "msgs/s", ours, java, "–")


class HistoryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp())

    def test_what_is_added_is_read_with_its_medians(self) -> None:
        history.add(
            self.path, "v1", "send-sync", [figure("send", [3, 1, 2], [4, 5]), figure("nobody's", [], [1])]
        )
        (kept,) = history.read(self.path)
        self.assertEqual((kept.revision, kept.row, kept.label), ("v1", "send-sync", "send"))
        self.assertEqual((kept.ours, kept.other), (2, 4.5))

    def test_before_the_first_run_there_is_nothing(self) -> None:
        self.assertEqual(history.read(self.path), [])

    def test_a_row_is_drawn_by_its_first_figure_and_its_masters_cost(self) -> None:
        cost = "send: CPU time of the master for a message"
        past = [
            history.of(f"2026-11-2{day}T10:00+00:00", "v1", row, each)
            for day, ours in ((1, 10), (2, 15))
            for row in ("send-sync", "idle")
            for each in (figure("send", [ours], [10]), figure(cost, [100 / ours], [20]))
        ]
        ratios, costs = history.ratios(past), history.costs(past)
        self.assertEqual((set(ratios), set(costs)), ({"SYNC 4 x 64"}, {"a message by itself"}))
        self.assertEqual([(at.day, each) for at, each in ratios["SYNC 4 x 64"]], [(21, 1.0), (22, 1.5)])
        self.assertEqual([each for _, each in costs["a message by itself"]], [10.0, 100 / 15])
