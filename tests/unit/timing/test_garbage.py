"""Looks for garbage, by Python's real collector: what is frozen, what is found all the same, what they took."""

from __future__ import annotations

import gc
from weakref import WeakSet

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.timing.garbage import INTERVAL, LONG, THRESHOLDS, GarbageCollection, Pauses


class Knot:
    """Garbage in a cycle, once nobody else has it."""

    def __init__(self) -> None:
        self.knot = self


OF_A_SERVER = 20_000
"""Objects that are frozen at first: what a process of tests has besides is left out of the count, as twice as many
would take seconds to make."""


class LookingClock(Clock):
    """Whoever asks for the time twice has let `takes` seconds pass."""

    takes = 2 * LONG

    def seconds(self) -> float:
        self.rightNow += self.takes
        return self.rightNow


class GarbageTests(SynchronousTestCase):
    def setUp(self) -> None:
        gc.collect()
        self.before = (gc.get_threshold(), list(gc.callbacks))
        self.clock, self.pauses = LookingClock(), Pauses()
        self.garbage = GarbageCollection(self.clock, self.pauses)
        self.addCleanup(gc.freeze)  # as it was: the other tests' objects needn't be looked at
        self.addCleanup(self.garbage.stopService)

    def count_as_a_server(self) -> None:
        gc.unfreeze()
        while gc.collect():
            pass  # what other tests have left may hold more of it
        gc.freeze()
        count = gc.get_freeze_count
        besides = count() - OF_A_SERVER
        self.patch(gc, "get_freeze_count", lambda: count() - besides)

    def is_looked_at(self, found: object) -> bool:
        return any(found is each for each in gc.get_objects())

    def test_what_a_start_has_made_is_not_looked_at_again(self) -> None:
        made, garbage = Knot(), WeakSet([Knot()])
        self.garbage.startService()
        self.assertFalse(self.is_looked_at(made))
        self.assertEqual(len(garbage), 0)
        self.assertEqual(gc.get_threshold(), THRESHOLDS)
        self.assertEqual(self.pauses, Pauses())

    def test_what_comes_later_is_collected_and_counted(self) -> None:
        self.garbage.startService()
        garbage = WeakSet([Knot()])
        self.clock.takes = 0.25
        gc.collect(0)
        self.clock.takes = 0.125
        gc.collect(1)
        self.assertEqual(len(garbage), 0)
        self.assertEqual(self.pauses, Pauses(longest=0.25, total=0.375))

    def test_what_a_long_look_has_seen_is_frozen(self) -> None:
        self.garbage.startService()
        early, garbage = Knot(), WeakSet([Knot()])
        for generation in (0, 1):
            gc.collect(generation)
        self.assertTrue(self.is_looked_at(early))
        self.clock.takes = LONG / 2
        gc.collect()
        self.assertTrue(self.is_looked_at(early))
        self.clock.takes = LONG * 2
        gc.collect()
        self.assertFalse(self.is_looked_at(early))
        self.assertEqual(len(garbage), 0)
        late = Knot()
        self.assertTrue(self.is_looked_at(late))

    def test_python_looks_by_itself(self) -> None:
        self.garbage.startService()
        enabled = gc.isenabled()
        gc.enable()
        self.addCleanup(gc.enable if enabled else gc.disable)
        garbage = WeakSet[Knot]()
        most = 0
        for _ in range(50_000):
            garbage.add(Knot())
            most = max(most, len(garbage))
        self.assertLess(most, 2000)
        self.assertGreater(self.pauses.total, 0)

    def test_frozen_garbage_is_found_when_as_much_is_frozen_again(self) -> None:
        self.count_as_a_server()
        self.garbage.startService()
        at_first = gc.get_freeze_count()
        garbage, rounds = WeakSet[Knot](), list[int]()
        for _ in range(8):
            alive = [Knot() for _ in range(at_first // 4)]
            garbage.update(alive[:1000])
            gc.collect()
            alive.clear()
            self.clock.advance(INTERVAL)
            rounds.append(len(garbage))
        # Four or five of them are as much as there was at first: they stay until then.
        self.assertIn(0, rounds)
        self.assertLessEqual(max(rounds), 4000)
        self.assertLess(gc.get_freeze_count(), 3 * at_first)

    def test_what_is_gone_at_the_end_of_a_turn_does_not_count(self) -> None:
        self.count_as_a_server()
        self.garbage.startService()
        garbage = WeakSet([kept := Knot()])
        gc.collect()
        del kept
        for _ in range(4):
            moment = [[each] for each in range(2 * gc.get_freeze_count())]
            gc.collect()
            moment.clear()
            self.clock.advance(INTERVAL)
        self.assertEqual(len(garbage), 1)

    def test_stopped_all_is_as_it_was(self) -> None:
        self.garbage.startService()
        self.garbage.stopService()
        self.assertEqual((gc.get_threshold(), list(gc.callbacks)), self.before)
        self.assertEqual(gc.get_freeze_count(), 0)

    def test_one_that_was_not_started_may_be_stopped(self) -> None:
        self.garbage.stopService()
        self.assertEqual((gc.get_threshold(), list(gc.callbacks)), self.before)
