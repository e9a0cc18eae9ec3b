"""Work within a share of the time: at once, then once for all who asked meanwhile, after a rest."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.timing.timeshare import RETRY, UTMOST_REST, TimeShare


class TimeShareTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.done: list[float] = []
        self.takes = 0.5
        self.error: Exception | None = None
        self.share = TimeShare(self.clock, "some work", self.work, 0.25)
        self.addCleanup(self.share.cancel)

    def work(self) -> None:
        self.done.append(self.clock.seconds())
        self.clock.rightNow += self.takes
        if self.error is not None:
            raise self.error

    def test_at_once_and_the_rest_is_three_times_as_long_as_the_work(self) -> None:
        self.share.ask()
        self.assertEqual(self.done, [0.0])
        for _ in range(5):
            self.share.ask()
        self.assertTrue(self.share.waiting)
        self.clock.advance(1.49)
        self.assertEqual(self.done, [0.0])
        self.clock.advance(0.01)
        self.assertEqual(self.done, [0.0, 2.0])
        self.assertFalse(self.share.waiting)

    def test_nobody_asked_meanwhile(self) -> None:
        self.share.ask()
        self.clock.advance(60)
        self.assertEqual(self.done, [0.0])
        self.share.ask()
        self.assertEqual(self.done, [0.0, 60.5])

    def test_work_that_takes_no_time_is_done_once_a_turn(self) -> None:
        self.takes = 0
        for _ in range(3):
            self.share.ask()
        self.assertEqual(len(self.done), 1)
        self.clock.advance(0)
        self.assertEqual(len(self.done), 2)

    def test_who_was_stopped_in_the_midst_of_the_work_has_not_worked_so_long(self) -> None:
        self.takes = 60
        self.share.ask()
        self.share.ask()
        self.clock.advance(UTMOST_REST - 0.01)
        self.assertEqual(len(self.done), 1)
        self.clock.advance(0.01)
        self.assertEqual(len(self.done), 2)

    def test_who_has_no_time_does_not_wait_and_the_rest_begins_again(self) -> None:
        self.share.ask()
        self.share.hurry()
        self.assertEqual(len(self.done), 1)
        self.share.ask()
        self.share.hurry()
        self.assertEqual(self.done, [0.0, 0.5])
        self.share.ask()
        self.clock.advance(1.4)
        self.assertEqual(len(self.done), 2)
        self.clock.advance(0.1)
        self.assertEqual(len(self.done), 3)

    def test_what_is_cancelled_does_not_come(self) -> None:
        self.share.ask()
        self.share.ask()
        self.share.cancel()
        self.clock.advance(60)
        self.assertEqual(len(self.done), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_work_that_fails_after_a_rest_is_done_again(self) -> None:
        self.share.ask()
        self.share.ask()
        self.error = ValueError("broken")
        self.clock.advance(1.5)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.share.ask()
        self.error = None
        self.clock.advance(RETRY)
        self.assertEqual(len(self.done), 3)
