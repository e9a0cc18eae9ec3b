"""What the operator of a simulated group does with a machine that is stopped."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.group import Group
from hatwisted.sim.promises import Promises
from hatwisted.sim.setup import draw_setup
from hatwisted.sim.simoperator import STOP_LIMIT, Operator


class StopTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.group = Group(draw_setup(2, ()))
        self.addCleanup(self.group.mute)
        self.operator = Operator(self.group, Promises())
        self.master = self.group.machines["a"]
        self.operator.start("a")

    def wait(self, seconds: float) -> None:
        """Under the operator's eyes."""
        until = self.group.clock.seconds() + seconds
        while self.group.clock.seconds() < until:
            self.group.clock.run_until(self.group.clock.seconds() + 0.25)
            self.operator.look()

    def test_one_that_has_stopped_is_started_again(self) -> None:
        self.operator.stop("a").addCallback(lambda _: self.operator.down("a", 3))
        self.wait(20)
        self.assertTrue(self.master.running)
        self.assertEqual(self.operator.violations, [])

    def test_one_that_is_killed_before_it_has_stopped_is_too(self) -> None:
        """Not only when a stop has to be over; and its next stop has all of the time that one may take."""
        self.operator.stop("a")
        self.assertTrue(self.master.running)
        self.operator.down("a", 3)
        self.master.kill()
        self.wait(5)
        self.assertTrue(self.master.running)
        self.wait(STOP_LIMIT - 5.5)
        self.operator.stop("a")
        self.group.clock.run_until(self.group.clock.seconds() + 0.8)
        self.assertIn("a", self.group.hands_off)
        self.assertEqual(self.operator.violations, [])
