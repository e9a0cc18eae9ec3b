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
        history.add(self.path, "send-sync", [figure("send", [3, 1, 2], [4, 5]), figure("nobody's", [], [1])])
        (kept,) = history.read(self.path)
        self.assertEqual((kept.row, kept.label, kept.ours, kept.other), ("send-sync", "send", 2, 4.5))

    def test_before_the_first_run_there_is_nothing(self) -> None:
        self.assertEqual(history.read(self.path), [])

    def test_a_row_is_drawn_by_its_first_figure_and_its_masters_cost(self) -> None:
        cost = "send: CPU time of the master for a message"
        for ours in (10, 15):
            figures = [figure("send", [ours], [10]), figure(cost, [100 / ours], [20])]
            history.add(self.path, "send-sync", figures)
            history.add(self.path, "idle", figures)
        past = history.read(self.path)
        # Both runs are of one minute here, and count as one.
        self.assertEqual([ratio for _, ratio in history.ratios(past)["SYNC 4 x 64"]], [1.0])
        self.assertEqual(set(history.ratios(past)), {"SYNC 4 x 64"})
        costs = history.costs(past)
        self.assertEqual([each for _, each in costs["a message by itself"]], [10.0, 100 / 15])
