"""What the row of Spark's source `rocketmq` makes of its rounds, and where its figures stand."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from bench import report
from bench.arena import RowFailed
from bench.figures import Figure, Outcome
from bench.sourcepull import ALL, BODY, CONSUMER, LABELS, READER, tell


def run(seconds: float, cpu: float = 1.0) -> dict[str, float]:
    return {"rows": 1000, "seconds": seconds, "cpu": cpu, "broker": cpu / 2}


class SourcePullTests(SynchronousTestCase):
    def told(self) -> Outcome:
        """A slow round, and a fast one."""
        outcome = Outcome()
        rounds = [
            {READER: run(10, 0.001), CONSUMER: run(40, 0.004), ALL: run(20, 0.002), BODY: run(10, 0.003)},
            {READER: run(1, 0.003), CONSUMER: run(4, 0.006), ALL: run(1.25, 0.004), BODY: run(2, 0.005)},
        ]
        tell(outcome, rounds)
        return outcome

    def figure(self, *words: str) -> Figure:
        (found,) = [each for each in self.told().figures if all(word in each.label for word in words)]
        return found

    def test_each_has_its_rate_and_its_cost(self) -> None:
        rates = {what: self.figure(LABELS[what], "pull of a topic").ours for what in LABELS}
        self.assertEqual(rates, {READER: [100, 1000], CONSUMER: [25, 250], ALL: [50, 800], BODY: [100, 500]})
        for what, expected in {READER: (1, 3), CONSUMER: (4, 6), ALL: (2, 4), BODY: (3, 5)}.items():
            for cost, each in zip(self.figure(LABELS[what], "CPU time").ours, expected, strict=True):
                self.assertAlmostEqual(cost, each)

    def test_a_share_is_of_the_readers_rate_in_the_same_round_and_judged_by_its_median(self) -> None:
        everything, body = (self.figure(LABELS[what], "compared") for what in (ALL, BODY))
        self.assertEqual((everything.ours, everything.met), ([0.5, 0.8], False))
        self.assertEqual((body.ours, body.met), ([1.0, 0.5], True))

    def test_what_the_master_took_is_told_beside(self) -> None:
        notes = [each for each in self.told().notes if LABELS[BODY] in each]
        self.assertEqual(notes, [f"{LABELS[BODY]}: the master took 2.00 µs of CPU time a message besides"])

    def test_without_a_round_there_are_no_figures(self) -> None:
        self.assertRaises(RowFailed, tell, Outcome(), [])

    def test_the_row_stands_among_those_of_the_pipeline(self) -> None:
        row = {"title": "a pull", "seconds": 1.0, "date": "2026-11-26", **self.told().as_json()}
        frame = {"rocketmq": "4.9.7", "command": "make bench", "machine": {"processor": "two cores"}}
        text = report.markdown({**frame, "rows": {"source-pull": row}}, [])
        self.assertIn(LABELS[ALL], text.partition("## The data pipeline")[2].partition("## Notes")[0])
