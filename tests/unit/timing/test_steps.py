"""Work in steps: in turns, a slice at a time, so much and no more."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.timing import steps
from hatwisted.timing.steps import Steps, TooMuchWork


class TestSteps(SynchronousTestCase):
    def setUp(self):
        self.clock = Clock()
        self.steps = Steps(self.clock, "testing")
        self.seen = []

    def turn(self):
        """One round of the loop; `Clock.advance` would go on with what the round has set."""
        (call,) = self.clock.getDelayedCalls()
        self.clock.calls.remove(call)
        call.called = True
        call.func(*call.args, **call.kw)

    def work(self, name, count, seconds=0.001):
        for number in range(count):
            self.seen.append((name, number))
            self.clock.rightNow += seconds
            yield
        return name

    def test_what_needs_one_step_is_done_at_once(self):
        self.assertEqual(self.successResultOf(self.steps.run("me", self.work("a", 0))), "a")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_works_go_on_in_turns_and_a_slice_at_a_time(self):
        long, short = self.steps.run("me", self.work("a", 9)), self.steps.run("you", self.work("b", 2))
        self.assertEqual(self.seen, [("a", 0), ("b", 0)])
        self.turn()
        self.assertEqual(self.seen[2:], [("a", 1), ("b", 1)])
        self.turn()
        self.assertEqual(self.seen[4:], [("a", 2), ("a", 3)])
        self.assertEqual(self.successResultOf(short), "b")
        self.assertNoResult(long)
        self.clock.advance(0)
        self.assertEqual((self.successResultOf(long), len(self.seen)), ("a", 11))

    def test_what_a_step_raises_is_the_works_failure_alone(self):
        def failing(after):
            for _ in range(after):
                yield
            raise ArithmeticError("no such luck")

        self.failureResultOf(self.steps.run("me", failing(0)), ArithmeticError)
        failed, other = self.steps.run("me", failing(1)), self.steps.run("me", self.work("a", 1))
        self.clock.advance(0)
        self.failureResultOf(failed, ArithmeticError)
        self.assertEqual(self.successResultOf(other), "a")

    def test_so_much_for_one_owner_and_for_all(self):
        self.patch(steps, "MAX_OF_ONE", 2)
        self.patch(steps, "MAX_WORKS", 4)
        mine = [self.steps.run("me", self.work("a", 1)) for _ in range(2)]
        self.failureResultOf(self.steps.run("me", self.work("a", 1)), TooMuchWork)
        for _ in range(2):
            self.steps.run("you", self.work("b", 1))
        self.failureResultOf(self.steps.run("him", self.work("c", 1)), TooMuchWork)
        for _ in range(4):
            self.clock.advance(0)
        self.assertEqual([self.successResultOf(each) for each in mine], ["a", "a"])
        self.assertNoResult(self.steps.run("me", self.work("a", 1)))

    def test_hosts_take_turns_however_many_works_one_has(self):
        crowd = [self.steps.run(number, self.work(number, 9), "there") for number in range(5)]
        self.steps.run("alone", self.work("b", 3), "here")
        self.seen.clear()
        self.turn()
        self.turn()
        self.assertEqual(self.seen, [(0, 1), ("b", 1), (1, 1), ("b", 2)])
        self.steps.forget(2)
        self.clock.advance(0)
        results = [made.called for made in crowd]
        self.assertEqual(results, [True, True, False, True, True])
        self.assertEqual(([*self.steps._works], self.steps._owned), ([], {}))

    def test_no_host_has_all_the_room(self):
        self.patch(steps, "MAX_WORKS", 4)
        for name in ("me", "you"):
            self.steps.run(name, self.work("a", 1), "there")
        self.failureResultOf(self.steps.run("him", self.work("b", 1), "there"), TooMuchWork)
        other = self.steps.run("her", self.work("c", 1), "here")
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(other), "c")
        self.assertNoResult(self.steps.run("him", self.work("b", 1), "there"))

    def test_an_owner_who_is_gone_costs_no_more_steps(self):
        gone, other = self.steps.run("me", self.work("a", 5)), self.steps.run("you", self.work("b", 1))
        self.steps.forget("me")
        self.clock.advance(0)
        self.assertEqual((self.successResultOf(other), self.seen), ("b", [("a", 0), ("b", 0)]))
        self.assertNoResult(gone)
        self.assertEqual(self.clock.getDelayedCalls(), [])
