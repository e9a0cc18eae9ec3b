"""What an answer to a pull means, row by row; and the buffer that its messages go into."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.driver import StandardLog
from hatwisted.clientcore.errors import BadAnswer, Refused
from hatwisted.clientcore.processqueue import ProcessQueue
from hatwisted.clientcore.pullprogress import (
    MASTER_PREFERENCE,
    NextStep,
    PullProgress,
    PullTerms,
    pull_fields,
    queue_fields,
)
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand

QUEUE = MessageQueue(broker_name="a", queue_id=1, topic="T")
FOUND, NOT_FOUND, RETRY_AT_ONCE, MOVED = 0, 19, 20, 21


class AnswerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.progress = PullProgress(QUEUE, StandardLog("pulls"))
        self.now = 100.0

    def answered(self, code: int, following: int, *, by_master: bool = True, wished: int = 0) -> Any:
        """To a pull from offset 50."""
        ext = {"nextBeginOffset": str(following), "suggestWhichBrokerId": str(wished)}
        answer = RemotingCommand(code, ext=ext)
        return self.progress.answered(answer, "h:1", 50, by_master=by_master, now=self.now)

    def test_each_answer_of_a_master_and_of_a_slave(self) -> None:
        for code, following, of_master, of_slave in (
            (FOUND, 82, NextStep.GO_ON, NextStep.GO_ON),
            (NOT_FOUND, 50, NextStep.GO_ON, NextStep.GO_ON),
            (RETRY_AT_ONCE, 70, NextStep.GO_ON, NextStep.GO_ON),  # a filter passes over messages
            (RETRY_AT_ONCE, 50, NextStep.STUCK, NextStep.TURN_AWAY),
            (MOVED, 50, NextStep.GO_ON, NextStep.GO_ON),
            (MOVED, 60, NextStep.GO_ON, NextStep.TURN_AWAY),
            (MOVED, 7, NextStep.GO_ON, NextStep.TURN_AWAY),
            (NOT_FOUND, 60, NextStep.GO_ON, NextStep.TURN_AWAY),
            (24, 82, NextStep.LOST_MEMBERSHIP, NextStep.LOST_MEMBERSHIP),
            (25, 82, NextStep.LOST_MEMBERSHIP, NextStep.LOST_MEMBERSHIP),
        ):
            for by_master, expected in ((True, of_master), (False, of_slave)):
                turn, at = self.answered(code, following, by_master=by_master)
                self.assertEqual((code, following, by_master, turn), (code, following, by_master, expected))
                goes_on = turn in (NextStep.GO_ON, NextStep.STUCK)
                self.assertEqual(at, following if goes_on else 50)

    def test_a_refusal_and_an_answer_without_an_offset(self) -> None:
        self.assertRaises(Refused, self.answered, 17, 50)
        answer = RemotingCommand(FOUND, ext={"nextBeginOffset": "x"})
        self.assertRaises(BadAnswer, self.progress.answered, answer, "h:1", 50, by_master=True, now=self.now)

    def test_the_suggested_broker_is_next_unless_another_has_just_failed(self) -> None:
        self.answered(FOUND, 51, wished=1)
        self.assertEqual(self.progress.suggested, 1)
        self.progress.turn_away(self.now)
        self.assertEqual(self.progress.suggested, 0)
        self.now += MASTER_PREFERENCE - 0.1
        self.answered(FOUND, 51, wished=1)
        self.assertEqual(self.progress.suggested, 0)
        self.now += 0.1
        self.answered(FOUND, 51, wished=1)
        self.assertEqual(self.progress.suggested, 1)

    def test_a_slaves_word_is_reported_once(self) -> None:
        with self.assertLogs("pulls", "WARNING") as logged:
            for following in (60, 60, 61):
                self.answered(MOVED, following, by_master=False)
        self.assertEqual(len(logged.records), 2)
        self.assertIn("only a master may move the offset", logged.records[0].message)

    def test_fields_of_a_pull(self) -> None:
        terms = PullTerms(flags=6, hold_ms=15_000, expression="a || b", version=7)
        fields = pull_fields("g", QUEUE, 50, 32, terms)
        expected = {
            "consumerGroup": "g", "topic": "T", "queueId": 1, "queueOffset": 50, "maxMsgNums": 32, "sysFlag": 6,
            "commitOffset": 0, "suspendTimeoutMillis": 15_000, "subscription": "a || b", "subVersion": 7,
            "expressionType": "TAG", "bname": "a",
        }  # fmt: skip
        self.assertEqual(fields, expected)


def message(offset: int, size: int = 10) -> Any:
    return SimpleNamespace(queue_offset=offset, size=size)


class ProcessQueueTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.queue = ProcessQueue(QUEUE, 5, max_messages=4, max_bytes=100)
        self.queue.fill(map(message, (5, 6, 7)))
        self.queue.next = 8

    def test_progress_is_the_first_that_is_not_settled(self) -> None:
        self.assertEqual(self.queue.progress, 5)
        taken = self.queue.take(2)
        self.assertEqual(([each.queue_offset for each in taken], self.queue.progress), ([5, 6], 5))
        self.assertIs(self.queue.take(3), taken, "what was taken comes again")
        self.queue.settle()
        self.assertEqual((self.queue.progress, self.queue.buffered, self.queue.buffered_bytes), (7, 1, 10))
        self.queue.take(9)
        self.queue.settle()
        self.assertEqual((self.queue.progress, self.queue.take(1)), (8, []))

    def test_dropped_its_progress_is_what_wasnt_taken(self) -> None:
        self.queue.drop()
        self.assertEqual((self.queue.progress, self.queue.buffered, self.queue.buffered_bytes), (5, 0, 0))
        self.assertTrue(self.queue.dropped)

    def test_the_rest_of_a_batch_comes_again_in_order(self) -> None:
        taken = self.queue.take(3)
        self.queue.settle(taken[1:])
        self.assertEqual((self.queue.progress, self.queue.buffered_bytes), (6, 20))
        self.assertEqual([each.queue_offset for each in self.queue.take(9)], [6, 7])

    def test_both_limits(self) -> None:
        self.assertTrue(self.queue.has_room)
        self.queue.fill([message(8)])
        self.assertFalse(self.queue.has_room, "4 messages")
        self.queue.take(2)
        self.queue.settle()
        self.assertTrue(self.queue.has_room)
        self.queue.fill([message(9, 80)])
        self.assertFalse(self.queue.has_room, "100 bytes")

    def test_dropped_it_keeps_its_place(self) -> None:
        self.queue.take(1)
        self.queue.drop()
        self.assertEqual((self.queue.progress, self.queue.buffered), (5, 1))
        self.queue.settle()
        self.assertEqual((self.queue.progress, self.queue.waiting), (6, False))

    def test_dropped_while_its_messages_are_worked_on_it_goes_on_at_those_that_failed(self) -> None:
        taken = self.queue.take(2)
        self.queue.drop()
        self.queue.settle(taken[1:])
        self.assertEqual((self.queue.progress, self.queue.buffered), (6, 0))

    def test_sent_back_it_forgets_what_it_will_read_again(self) -> None:
        self.queue.go_back(6)
        self.assertEqual((self.queue.next, self.queue.buffered, self.queue.buffered_bytes), (6, 1, 10))
        self.assertEqual([each.queue_offset for each in self.queue.take(9)], [5])

    def test_sent_back_behind_what_the_program_has_its_progress_is_where_it_goes_on(self) -> None:
        taken = self.queue.take(2)
        self.queue.go_back(3)
        self.assertEqual((self.queue.progress, self.queue.buffered), (3, 2))
        self.queue.fill(map(message, (3, 4, 5, 6)))
        self.queue.next = 7
        self.assertEqual(self.queue.progress, 3)
        self.queue.settle(taken[1:])
        self.assertEqual([each.queue_offset for each in self.queue.take(9)], [3, 4, 5, 6], "6 once, in order")
        self.assertEqual(self.queue.buffered_bytes, 40)

    def test_sent_back_and_dropped_it_stays_where_it_was_sent(self) -> None:
        taken = self.queue.take(2)
        self.queue.go_back(3)
        self.queue.drop()
        self.assertEqual(self.queue.progress, 3)
        self.queue.settle(taken[1:])
        self.assertEqual(self.queue.progress, 3)


class FieldTests(SynchronousTestCase):
    QUEUE = MessageQueue(broker_name="b", queue_id=3, topic="T")

    def test_a_question_about_an_offset(self) -> None:
        self.assertEqual(queue_fields(self.QUEUE), {"topic": "T", "queueId": 3, "bname": "b"})

    def test_a_pull_of_all_there_is(self) -> None:
        expected = {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": 3,
            "queueOffset": 5,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
            "expressionType": "TAG",
            "bname": "b",
        }
        self.assertEqual(pull_fields("g", self.QUEUE, 5, 32), expected)
