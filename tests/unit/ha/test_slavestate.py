from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha.slavestate import (
    FIRST_RETRY,
    RETRY_LIMIT,
    SLOW_RETRY,
    STORE_RETRY,
    TRANSITIONS,
    Backoff,
    SlaveEvent,
    SlaveState,
    StateBox,
)


class StateTests(SynchronousTestCase):
    def test_the_box_follows_the_table_and_nothing_else(self) -> None:
        for state in SlaveState:
            for event in SlaveEvent:
                box = StateBox(0.0)
                box.state = state
                target = TRANSITIONS[state].get(event)
                if target is None:
                    self.assertRaises(AssertionError, box.on, event, 2.0)
                else:
                    box.on(event, 2.0)
                    self.assertIs(box.state, target)
                    self.assertEqual(box.since, 0.0 if target is state else 2.0)

    def test_every_state_can_be_stopped_and_every_problem_be_retried(self) -> None:
        for state in SlaveState:
            self.assertIn(SlaveEvent.STOP, TRANSITIONS[state])
        for state in set(SlaveState) - {SlaveState.STOPPED, SlaveState.CONNECTING, SlaveState.TRANSFER}:
            self.assertIn(SlaveEvent.DIAL, TRANSITIONS[state])


class BackoffTests(SynchronousTestCase):
    def waits(self, count: int, state: SlaveState = SlaveState.DISCONNECTED, seed: int = 3) -> list[float]:
        backoff = Backoff(Random(seed))
        return [backoff.after(state, healthy=False, progressed=False) for _ in range(count)]

    def test_waits_grow_to_the_limit_and_stay_there(self) -> None:
        waits = self.waits(40)
        self.assertLessEqual(waits[0], 0.1)
        self.assertLessEqual(max(waits), RETRY_LIMIT)
        self.assertGreaterEqual(min(waits[6:]), RETRY_LIMIT / 2)

    def test_each_wait_is_twice_the_last(self) -> None:
        class Unjittered(Random):
            def uniform(self, a: float, b: float) -> float:
                return b

        backoff = Backoff(Unjittered())
        waits = [
            backoff.after(SlaveState.DISCONNECTED, healthy=False, progressed=False) / FIRST_RETRY
            for _ in range(6)
        ]
        self.assertEqual([round(wait, 9) for wait in waits], [1, 2, 4, 8, 16, 32])

    def test_waits_are_jittered_but_replayable(self) -> None:
        self.assertEqual(self.waits(10, seed=5), self.waits(10, seed=5))
        self.assertNotEqual(self.waits(10, seed=5), self.waits(10, seed=6))

    def test_a_healthy_link_starts_over(self) -> None:
        backoff = Backoff(Random(1))
        for _ in range(10):
            backoff.after(SlaveState.DISCONNECTED, healthy=False, progressed=False)
        self.assertEqual(backoff.after(SlaveState.DISCONNECTED, healthy=True, progressed=True), 0.0)
        self.assertLessEqual(backoff.after(SlaveState.DISCONNECTED, healthy=False, progressed=False), 0.1)

    def test_what_needs_an_operator_is_retried_slowly(self) -> None:
        for state, limit in (
            (SlaveState.OFFSET_MISMATCH, SLOW_RETRY),
            (SlaveState.MASTER_LACKS_OFFSET, SLOW_RETRY),
            (SlaveState.STORE_FULL, STORE_RETRY),
            (SlaveState.STORE_FAILED, STORE_RETRY),
        ):
            waits = self.waits(50, state)
            self.assertTrue(all(limit / 2 <= wait <= limit for wait in waits), state)
