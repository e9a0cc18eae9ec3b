"""Waits on a rising offset: who is released when, and with what."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.log.waitline import EXPIRE_SLICE, WaitLine


class WaitLineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.line = WaitLine(self.clock)

    def test_B73_offset_exactly_at_the_end_releases(self) -> None:
        waiting = self.line.wait(100, 5.0)
        self.line.advance(99)
        self.assertNoResult(waiting)
        self.line.advance(100)
        self.assertEqual(self.successResultOf(waiting), 100)

    def test_B77_one_advance_releases_what_it_covers_in_log_order(self) -> None:
        order: list[int] = []
        for end in (10, 20, 30, 40):
            self.line.wait(end, 5.0).addCallback(lambda _, end=end: order.append(end))
        self.line.advance(30)
        self.assertEqual(order, [10, 20, 30])
        self.assertEqual(len(self.line), 1)

    def test_out_of_order_registration_keeps_offset_order(self) -> None:
        order: list[int] = []
        for end in (30, 10, 20):
            self.line.wait(end, 5.0).addCallback(lambda _, end=end: order.append(end))
        self.line.advance(20)
        self.assertEqual(order, [10, 20])

    def test_B76_deadline_releases_with_the_offset_reached_by_then(self) -> None:
        waiting = self.line.wait(100, 5.0)
        self.line.advance(60)
        self.clock.advance(4.999)
        self.assertNoResult(waiting)
        self.clock.advance(0.001)
        self.assertEqual(self.successResultOf(waiting), 60)
        self.assertEqual(self.line.expired_total, 1)

    def test_B75_each_wait_runs_to_its_own_deadline(self) -> None:
        first = self.line.wait(10, 5.0)
        self.clock.advance(1)
        second = self.line.wait(20, 6.0)
        self.clock.advance(4)
        self.successResultOf(first)
        self.assertNoResult(second)
        self.clock.advance(1)
        self.successResultOf(second)

    def test_what_arrived_while_the_process_stood_still_counts(self) -> None:
        """The reactor's order after a stall: due timers first, then what lies in the sockets."""
        covered, other = self.line.wait(100, 5.0), self.line.wait(200, 5.0)
        self.clock.callLater(5.1, self.line.advance, 150)
        self.clock.advance(5.2)
        self.assertEqual((self.successResultOf(covered), self.successResultOf(other)), (150, 150))
        self.assertEqual(self.line.expired_total, 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_reached_offset_releases_at_once(self) -> None:
        self.line.advance(50)
        self.assertEqual(self.successResultOf(self.line.wait(50, 5.0)), 50)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_offset_never_falls(self) -> None:
        self.line.advance(50)
        self.line.advance(40)
        self.assertEqual(self.line.offset, 50)

    def test_waiting_again_from_a_callback(self) -> None:
        got: list[int] = []
        self.line.wait(10, 5.0).addCallback(
            lambda _: self.line.wait(20, 5.0).addCallback(lambda offset: got.append(offset))
        )
        self.line.wait(15, 5.0)
        self.line.advance(12)
        self.assertEqual(got, [])
        self.line.advance(20)
        self.assertEqual(got, [20])

    def test_twenty_thousand_waits_expire_with_one_timer(self) -> None:
        released: list[int] = []
        for end in range(1, 20_001):
            self.line.wait(end, 5.0).addCallback(released.append)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.clock.advance(5.0)
        for _ in range(20_000 // EXPIRE_SLICE):
            self.clock.advance(0)
        self.assertEqual(len(released), 20_000)
        self.assertEqual(len(self.line), 0)

    def test_release_all_leaves_no_timer(self) -> None:
        waiting = self.line.wait(10, 5.0)
        self.line.release_all()
        self.assertEqual(self.successResultOf(waiting), 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])
