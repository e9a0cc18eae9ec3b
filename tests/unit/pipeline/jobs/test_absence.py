"""What a landing tells of brokers that are away."""

from __future__ import annotations

from unittest import TestCase

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.pipeline.jobs.land.absence import Absence


def offsets(*brokers: str) -> dict[str, dict[str, dict[str, int]]]:
    return {"T": {broker: {"0": 5} for broker in brokers}}


class AbsenceTest(TestCase):
    def test_each_is_told_once_and_its_end(self) -> None:
        absence = Absence()
        reached = {**offsets("a", "b", "c"), ":last": offsets("x")}
        with self.assertLogs("hatwisted.pipeline.jobs.land", "WARNING") as told:
            for answered in (("a", "b", "c"), ("a",), ("a",), ("a", "c"), ("a", "b", "c")):
                absence.look([{"endOffset": reached, "latestOffset": offsets(*answered)}])
        self.assertEqual(
            [each.getMessage().split(":")[0] for each in told.records],
            ["broker b is away", "broker c is away", "broker c is back", "broker b is back"],
        )

    def test_a_progress_that_says_nothing(self) -> None:
        with self.assertNoLogs("hatwisted.pipeline.jobs.land", "WARNING"):
            for source in ({}, {"endOffset": None, "latestOffset": None}, {"endOffset": offsets("a")}):
                Absence().look([source])
