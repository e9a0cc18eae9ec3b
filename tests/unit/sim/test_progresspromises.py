"""What a master owes to groups at its start, by how it had ended."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.group import Group
from hatwisted.sim.promises import Promises
from hatwisted.sim.setup import draw_setup
from hatwisted.sim.simoperator import Operator

GROUP, QUEUE = "ledger", ("T", 0)
LONG = 20.0
"""Seconds until a broker has stopped, or written its tables."""


class BegunTests(SynchronousTestCase):
    """A master that knows how far a group has come."""

    def setUp(self) -> None:
        self.group = Group(msgspec.structs.replace(draw_setup(2, ()), consumers=True))
        self.addCleanup(self.group.mute)
        self.operator = Operator(self.group, Promises())
        self.master = self.group.machines["a"]
        self.operator.start("a")
        self.master.service.parts.tables.offsets.commit(GROUP, *QUEUE, 0)
        self.wait()

    def wait(self) -> None:
        self.group.clock.run_until(self.group.clock.seconds() + LONG)

    def owes(self) -> bool:
        """After its next start, all that is put from then on, wherever the group thinks it is?"""
        self.operator.start("a")
        return QUEUE in self.group.consumptions[GROUP].begun

    def test_a_power_failure_may_have_taken_something(self) -> None:
        self.master.power_off()
        self.assertTrue(self.owes())

    def test_so_may_one_after_the_process_was_killed(self) -> None:
        self.master.kill()
        self.master.power_off()
        self.assertTrue(self.owes())

    def test_one_after_an_orderly_stop_takes_nothing(self) -> None:
        self.operator.stop("a")
        self.wait()
        self.assertFalse(self.master.running)
        self.master.power_off()
        self.assertFalse(self.owes())

    def test_neither_does_the_end_of_the_process_alone(self) -> None:
        self.master.kill()
        self.assertFalse(self.owes())
