"""Looking through consumers' progress, some rows at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker import tables
from hatwisted.broker.admin import progresswalk
from hatwisted.broker.admin.progresswalk import at_once, groups_of, topics_by_group, topics_of
from hatwisted.broker.consumer.consumeroffset import ConsumerOffsetTable
from hatwisted.broker.tables import progress_text
from hatwisted.wire import fastjson


def steps(walk: Generator[None, None, Any]) -> int:
    return 1 + sum(1 for _ in walk)


class ProgressWalkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(progresswalk, "ROWS_PER_STEP", 4)
        self.offsets = ConsumerOffsetTable(Clock())
        for topic in ("T", "TT", "U"):
            for group in ("g", "gg", "a@g", "h"):
                self.offsets.commit(group, topic, 0, 7)
        self.offsets.remove_group("h")

    def test_topics_of_a_group(self) -> None:
        for group in ("g", "gg", "a@g", "h", "none", ""):
            self.assertEqual(
                at_once(topics_of(self.offsets, group)), self.offsets.topics_by_group().get(group, [])
            )

    def test_groups_of_a_topic(self) -> None:
        for topic in ("T", "TT", "U", "none", ""):
            self.assertEqual(at_once(groups_of(self.offsets, topic)), self.offsets.groups_of(topic))

    def test_all_groups(self) -> None:
        self.assertEqual(at_once(topics_by_group(self.offsets)), self.offsets.topics_by_group())

    def test_a_few_rows_are_one_step_and_more_are_several(self) -> None:
        for walk in (
            topics_of(self.offsets, "g"),
            groups_of(self.offsets, "T"),
            topics_by_group(self.offsets),
        ):
            self.assertEqual(steps(walk), 3)
        self.offsets = ConsumerOffsetTable(Clock())
        self.assertEqual(steps(topics_of(self.offsets, "g")), 1)
        self.offsets.commit("g", "T", 0, 7)
        self.assertEqual(steps(topics_of(self.offsets, "g")), 1)

    def test_a_large_table_is_written_without_blanks_and_read_as_the_same(self) -> None:
        self.assertEqual(progress_text(self.offsets), self.offsets.encode())
        self.patch(tables, "MAX_PRETTY_ROWS", 5)
        text = progress_text(self.offsets)
        self.assertNotIn(b"\n", text)
        self.assertEqual(fastjson.loads(text), fastjson.loads(self.offsets.encode()))
        again = ConsumerOffsetTable(Clock())
        again.decode(text)
        self.assertEqual(again.encode(), self.offsets.encode())
