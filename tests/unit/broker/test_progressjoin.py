"""A slave's and its master's progress are joined in steps as they would be at once."""

from __future__ import annotations

import random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer.consumeroffset import CHECK_GROUP, ConsumerOffsetTable
from hatwisted.broker.consumer.progressbody import Progress, encode_progress, parse_progress
from hatwisted.broker.node import progressjoin
from hatwisted.broker.node.progressjoin import joined


class ProgressJoinTests(SynchronousTestCase):
    def table(self, dice: random.Random) -> ConsumerOffsetTable:
        clock = Clock()
        table = ConsumerOffsetTable(clock)
        for _ in range(dice.randrange(40)):
            clock.advance(dice.randrange(3))
            group = dice.choice(["g", "h", "i@j", f"x@{CHECK_GROUP}", CHECK_GROUP])
            topic, queue_id, offset = f"T{dice.randrange(5)}", dice.randrange(2), dice.randrange(9)
            what = dice.random()
            if what < 0.7:
                table.commit(group, topic, queue_id, offset)
            elif what < 0.8:
                table.reset(group, topic, queue_id, offset)
            elif what < 0.9:
                table.remove_group(group)
            else:
                table.remove_topic(topic)
        return table

    def steps(
        self, table: ConsumerOffsetTable, theirs: Progress, *, may_send: bool = True
    ) -> tuple[int, Progress | None]:
        walk, count = joined(table, theirs, lambda: may_send), 1
        while True:
            try:
                next(walk)
            except StopIteration as end:
                return count, end.value
            count += 1

    def test_as_at_once(self) -> None:
        many = 0
        for seed in range(300):
            at_once, in_steps = (self.table(random.Random(seed)) for _ in range(2))
            theirs = self.table(random.Random(-seed - 1)).progress()
            copy = parse_progress(encode_progress(theirs))
            at_once.follow(copy)
            self.patch(progressjoin, "ROWS_PER_STEP", 3)
            count, ahead = self.steps(in_steps, theirs)
            many += count > 4
            self.assertEqual(in_steps.encode(), at_once.encode(), seed)
            self.assertEqual(ahead, at_once.ahead_of(copy), seed)
        self.assertGreater(many, 100)

    def test_a_small_table_is_one_step(self) -> None:
        self.assertEqual(
            self.steps(self.table(random.Random(5)), self.table(random.Random(6)).progress())[0], 1
        )

    def test_whose_messages_are_others_sends_nothing(self) -> None:
        table, theirs = self.table(random.Random(5)), self.table(random.Random(6)).progress()
        self.assertIsNone(self.steps(table, theirs, may_send=False)[1])
