"""Counters of topics, while some are deleted and others get messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.metrics.trafficfigures import Labels, TrafficFigures, TrafficParts

Counts = dict[str, list[int]]


class CounterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.puts: Counts = {"A": [10, 1000, 1], "B": [20, 2000, 1], "%DLQ%g": [3, 300, 1]}
        self.gets: Counts = {"A@g": [10, 1000, 1], "B@g": [20, 2000, 1]}
        self.figures = self.shown(0)

    def shown(self, topics: int) -> TrafficFigures:
        """The figures with so many topics by themselves."""
        stats = SimpleNamespace(topic_puts=self.puts)
        parts: Any = SimpleNamespace(
            store=SimpleNamespace(stats=stats), stats=SimpleNamespace(gets=self.gets)
        )
        parts.labels, parts.topics = Labels("c", "broker", "b"), topics
        return TrafficFigures(cast(TrafficParts, parts))

    def scrape(self) -> dict[str, dict[str, float]]:
        """By name and topic."""
        found: dict[str, dict[str, float]] = {}
        for family in (*self.figures._in(), *self.figures._out()):
            for sample in () if family is None else family.samples:
                name = sample.name.removeprefix("rocketmq_")
                found.setdefault(name, {})[sample.labels.get("topic", "")] = sample.value
        return found

    def test_no_counter_falls_when_a_topic_is_deleted(self) -> None:
        before = self.scrape()
        self.assertEqual(before["messages_in_total"], {"(others)": 33})
        self.assertEqual(before["throughput_out_total"], {"(others)": 3000})
        for counts, name in ((self.puts, "B"), (self.puts, "%DLQ%g"), (self.gets, "B@g")):
            del counts[name]
        self.assertEqual(self.scrape(), before)
        self.puts["A"][0] += 5
        self.puts["B"] = [7, 70, 1]
        self.puts["%DLQ%g"] = [1, 10, 1]
        after = self.scrape()
        self.assertEqual(after["messages_in_total"], {"(others)": 33 + 5 + 7 + 1})
        self.assertEqual(after["send_to_dlq_messages_total"], {"": 4})

    def test_the_others_get_nothing_from_a_topic_that_was_shown_by_itself(self) -> None:
        self.figures = self.shown(1)
        self.assertEqual(self.scrape()["messages_in_total"], {"A": 10, "(others)": 23})
        del self.puts["A"]
        self.puts["%DLQ%g"][0] += 1
        self.assertEqual(self.scrape()["messages_in_total"], {"B": 20, "(others)": 24})

    def test_what_comes_during_a_scrape_takes_nothing_from_the_others(self) -> None:
        self.figures = self.shown(1)
        self.scrape()
        bytes_of_others = []
        for family in self.figures._in():
            self.puts["A"][1] += 1500
            for sample in () if family is None else family.samples:
                if (sample.name, sample.labels.get("topic")) == ("rocketmq_throughput_in_total", "(others)"):
                    bytes_of_others.append(sample.value)
        self.assertEqual(bytes_of_others, [2300])
