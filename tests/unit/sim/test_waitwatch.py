"""What waits in brokers, judged: for what is a held pull late?"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.pull.pullhold import HeldPull
from hatwisted.sim.group import Group
from hatwisted.sim.setup import draw_setup
from hatwisted.sim.waitwatch import WaitWatch


class PullTests(SynchronousTestCase):
    def has_for(self, name: str, offset: int) -> bool:
        nothing: Any = None
        pull = HeldPull(nothing, nothing, ("T", 0), offset, 1, 1, None, nothing)
        return WaitWatch(Group(draw_setup(2, ())), [])._has_for(name, pull, first=5, end=8)

    def test_a_pull_waits_for_what_is_in_the_queue_and_not_for_what_has_yet_to_come(self) -> None:
        for name in ("a", "b"):
            self.assertEqual([self.has_for(name, offset) for offset in (5, 7, 8)], [True, True, False])

    def test_a_slave_has_nothing_for_a_pull_below_its_queue_and_a_master_the_word_that_it_is_gone(
        self,
    ) -> None:
        self.assertEqual([self.has_for(name, 3) for name in ("a", "b")], [True, False])
