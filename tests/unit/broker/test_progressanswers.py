"""Answers about progress that wait for the slave that asks."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.consumer.offsetsync import asking_slave
from hatwisted.broker.node.progressanswers import ANSWER_WAIT, LOOK, MAX_WAITS, ProgressAnswers
from hatwisted.remoting.processortable import response
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand


class Connection:
    peer = "10.0.0.2:4711"


class ProgressAnswersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.end, self.acked = 700, {"10.0.0.2": 500}
        self.answers = ProgressAnswers(self.clock, lambda: self.end, self.acked.get)
        self.handler = self.answers.over(lambda connection, request: response(request, body=b"table"))

    def ask(self, ext=None):
        request = RemotingCommand(RequestCode.GET_ALL_DELAY_OFFSET, ext=ext or {})
        return self.handler(Connection(), request)

    def test_B104a_a_slave_that_has_all_is_answered_at_once(self):
        self.acked["10.0.0.2"] = 700
        self.assertEqual(self.ask().body, b"table")

    def test_B104a_one_that_lacks_messages_is_answered_when_it_has_acknowledged_them(self):
        answer = self.ask()
        self.end = 900  # what comes later isn't spoken of
        self.clock.advance(LOOK)
        self.assertNoResult(answer)
        self.acked["10.0.0.2"] = 700
        self.clock.advance(LOOK)
        self.assertEqual(self.successResultOf(answer).body, b"table")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_B104a_one_that_stays_behind_keeps_what_it_has(self):
        answer = self.ask()
        self.clock.pump([LOOK] * round(ANSWER_WAIT / LOOK + 1))
        refused = self.successResultOf(answer)
        self.assertEqual(refused.code, ResponseCode.SYSTEM_BUSY)
        self.assertIn("the log up to 700", refused.remark)

    def test_B104a_a_linked_slave_that_has_not_reported_counts_as_empty(self):
        self.acked["10.0.0.2"] = -1
        self.assertNoResult(self.ask())
        self.answers.stop()

    def test_whoever_has_no_link_is_answered_at_once(self):
        del self.acked["10.0.0.2"]
        self.assertEqual(self.ask().body, b"table")

    def test_a_slave_of_ours_holds_its_tables_itself(self):
        self.assertEqual(self.ask(asking_slave(1, "10.0.0.2:10911")).body, b"table")

    def test_a_stop_leaves_nobody_waiting(self):
        answer = self.ask()
        self.answers.stop()
        self.assertEqual(self.successResultOf(answer).code, ResponseCode.SYSTEM_BUSY)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_waits_are_limited(self):
        waiting = [self.ask() for _ in range(MAX_WAITS)]
        self.assertEqual(self.successResultOf(self.ask()).code, ResponseCode.SYSTEM_BUSY)
        self.assertNoResult(waiting[0])
        self.answers.stop()
