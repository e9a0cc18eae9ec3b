"""Turns: how long one connection works in a row, and all of them in a round of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.base import DelayedCall
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.remoting.requestturns import QUANTUM, SENDS_SLICE, SLICE, RequestTurns


class RoundClock(Clock):
    """A round of the loop takes a second: what is put off isn't done in this one."""

    def callLater(self, when: float, what: Callable[..., object], *args: Any, **kwargs: Any) -> DelayedCall:
        return super().callLater(max(1.0, when), what, *args, **kwargs)


class Busy:
    """Works for as long as it may, and wants more."""

    def __init__(self, turns: RequestTurns, address: str = "10.0.0.1") -> None:
        self.turns = turns
        self.address = address
        self.worked: list[float] = []

    def go_on(self) -> None:
        allowed = self.turns.allowance
        self.worked.append(allowed)
        self.turns.count(allowed)
        self.turns.wait(self)


class Sending(Busy):
    """Has a read of sends that uses a slice up, and more of them."""

    def go_on(self) -> None:
        self.worked.append(SENDS_SLICE)
        self.turns.count_sends(SENDS_SLICE)
        self.turns.wait(self)


class RequestTurnsTests(SynchronousTestCase):
    def test_sends_have_a_slice_of_a_round_and_their_addresses_take_turns(self) -> None:
        clock = RoundClock()
        turns = RequestTurns(clock)
        turns.count_sends(SENDS_SLICE / 2.1)
        self.assertEqual((turns.sends_full, clock.getDelayedCalls()), (False, []))
        turns.count_sends(SENDS_SLICE)
        self.assertTrue(turns.sends_full)
        crowd, alone = [Sending(turns) for _ in range(5)], Sending(turns, "10.0.0.2")
        for waiter in (*crowd, alone):
            turns.wait(waiter)
        done = []
        for _ in range(6):
            clock.advance(1)
            done.append((sum(len(each.worked) for each in crowd), len(alone.worked)))
        self.assertEqual(done, [(1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)])
        turns.stop()

    def test_the_next_round_has_a_new_slice_for_sends(self) -> None:
        clock = RoundClock()
        turns = RequestTurns(clock)
        turns.count_sends(SENDS_SLICE)
        clock.advance(1)
        self.assertEqual((turns.sends_full, clock.getDelayedCalls()), (False, []))

    def test_no_read_of_sends_is_begun_that_may_take_more_than_is_left(self) -> None:
        turns = RequestTurns(RoundClock())
        for seconds, full in (
            (SENDS_SLICE / 2.5, False),
            (SENDS_SLICE / 100, False),
            (SENDS_SLICE / 4.5, True),
        ):
            turns.count_sends(seconds)
            self.assertEqual(turns.sends_full, full)
        turns.stop()

    def test_nobody_has_more_than_a_quantum_and_all_no_more_than_a_slice(self) -> None:
        clock = RoundClock()
        turns = RequestTurns(clock)
        waiters = [Busy(turns) for _ in range(4)]
        for waiter in waiters:
            turns.wait(waiter)
        for _ in range(8):
            before = sum(len(waiter.worked) for waiter in waiters)
            clock.advance(1)
            done = sum(len(waiter.worked) for waiter in waiters) - before
            self.assertEqual(done, 3, "two whole quanta, and the rest of the slice")
        self.assertAlmostEqual(sum(map(sum, (waiter.worked for waiter in waiters))), 8 * SLICE)
        self.assertEqual([len(waiter.worked) for waiter in waiters], [6] * 4, "in turn")
        self.assertLessEqual(max(max(waiter.worked) for waiter in waiters), QUANTUM)
        turns.stop()
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_addresses_take_turns_and_then_their_connections(self) -> None:
        clock = RoundClock()
        turns = RequestTurns(clock)
        crowd = [Busy(turns, f"2001:db8::{number:x}") for number in range(30)]
        alone, other = Busy(turns, "10.0.0.2"), Busy(turns, "10.0.0.3")
        for waiter in (*crowd, alone, other):
            turns.wait(waiter)
        clock.advance(1)
        self.assertEqual([len(each.worked) for each in (crowd[0], alone, other)], [1, 1, 1])
        for _ in range(9):
            clock.advance(1)
        worked = [len(each.worked) for each in crowd]
        self.assertEqual([sum(worked), len(alone.worked), len(other.worked)], [10] * 3)
        self.assertEqual(worked, [1] * 10 + [0] * 20)

    def test_of_one_address_who_is_gone_takes_no_turn_of_the_others(self) -> None:
        clock = RoundClock()
        turns = RequestTurns(clock)
        crowd = [Busy(turns) for _ in range(3)]
        for waiter in crowd:
            turns.wait(waiter)
        turns.forget(crowd[1])
        clock.advance(1)
        self.assertEqual([len(each.worked) for each in crowd], [1, 0, 1])

    def test_many_short_ones_use_a_round_up_as_well(self) -> None:
        clock = RoundClock()
        turns = RequestTurns(clock)
        self.assertEqual(turns.allowance, QUANTUM)
        for _ in range(20):
            turns.count(SLICE / 20)
        self.assertLess(turns.allowance, SLICE / 20)
        clock.advance(1)
        self.assertEqual(turns.allowance, QUANTUM)

    def test_a_short_one_alone_needs_no_timer(self) -> None:
        clock = RoundClock()
        RequestTurns(clock).count(0.0001)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_who_is_gone_has_no_turn(self) -> None:
        clock = RoundClock()
        turns = RequestTurns(clock)
        gone, there = Busy(turns), Busy(turns)
        for each in (gone, there):
            turns.wait(each)
        for _ in range(2):
            turns.forget(gone)
        clock.advance(1)
        self.assertEqual((gone.worked, len(there.worked) > 0), ([], True))
