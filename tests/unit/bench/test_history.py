"""What becomes of a row's figures in the file that keeps them, and what of it is drawn."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench import history
from bench.figures import Figure
from testbed.processes import REPOSITORY


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


class DrawnTests(SynchronousTestCase):
    """Of what is kept, what is drawn, over revisions."""

    def past(self, *runs: tuple[str, str, list[Figure]]) -> list[history.Past]:
        """Of runs: (revision, row, figures), an hour each."""
        return [
            history.of(f"2026-11-21T{hour:02}:00+00:00", version, row, each)
            for hour, (version, row, figures) in enumerate(runs)
            for each in figures
        ]

    def test_a_curve_has_the_figure_that_it_names_whichever_of_the_row_that_is(self) -> None:
        sends = [
            figure("send, ASYNC_MASTER, 8 x 256 in flight", [30], [10]),
            figure("send, SYNC_MASTER, 8 x 256 in flight", [15], [10]),
            figure("send, SYNC_MASTER, 8 x 256 in flight: CPU time of the master", [7], [10]),
        ]
        past = self.past(("v1", "sync-cost", sends), ("v2", "send-sync", sends))
        curve = history.Curve("sync-cost", "send, SYNC_MASTER", "SYNC 8 x 256")
        self.assertEqual(history.values(past, curve, ratio=True), {"v1": 1.5})
        self.assertEqual(history.values(past, curve, ratio=False), {"v1": 15})

    def test_one_value_a_revision_the_median_of_its_runs(self) -> None:
        runs = [("v1", 10), ("v2", 20), ("v1", 14), ("v1", 30)]
        past = self.past(*((version, "pull", [figure("pull", [ours], [10])]) for version, ours in runs))
        curve = history.Curve("pull", "pull", "pull")
        self.assertEqual(history.values(past, curve, ratio=True), {"v1": 1.4, "v2": 2.0})

    def test_without_the_other_side_there_is_no_ratio(self) -> None:
        past = self.past(("v1", "pull", [figure("pull", [10], [])]))
        curve = history.Curve("pull", "pull", "pull")
        self.assertEqual(history.values(past, curve, ratio=True), {})
        self.assertEqual(history.values(past, curve, ratio=False), {"v1": 10})

    def test_revisions_stand_in_the_order_of_their_first_times_if_any_figure_of_theirs_is_drawn(self) -> None:
        pulled = [figure("pull, 4 consumers", [1], [1])]
        past = self.past(
            ("v2", "pull", pulled), ("v3", "idle", pulled), ("v1", "pull", pulled), ("v2", "pull", pulled)
        )
        self.assertEqual(history.revisions(past), ["v2", "v1"])

    def test_as_many_revisions_are_named_as_there_is_room_for_and_the_last_is(self) -> None:
        self.assertEqual(list(history.ticks(3, 20)), [0, 1, 2])
        for count in range(1, 200):
            named = history.ticks(count, 20)
            self.assertTrue(0 < len(named) <= 20, count)
            self.assertEqual(named[-1], count - 1)

    def test_each_curve_has_been_measured_under_its_words(self) -> None:
        """A row whose labels change must keep them, or the curve ends unnoticed."""
        past = history.read(REPOSITORY / "bench" / "results" / "history.jsonl")
        for plot in history.PLACES.values():
            for curve in plot.curves:
                with self.subTest(curve=curve):
                    self.assertTrue(history.values(past, curve, ratio=plot.ratio))
                    last = [each for each in past if each.row == curve.row][-1].at
                    labels = [each.label for each in past if (each.at, each.row) == (last, curve.row)]
                    self.assertTrue([each for each in labels if curve.figure in each], labels)

    def test_each_plot_has_its_place_and_few_enough_curves(self) -> None:
        self.assertEqual(set(history.PLACES), set(history.LAYOUT) - {";"})
        self.assertEqual(set(history.PLACES), set(history.MOST_TICKS))
        for plot in history.PLACES.values():
            self.assertLessEqual(len(plot.curves), 6)
            self.assertEqual(len({curve.name for curve in plot.curves}), len(plot.curves))
