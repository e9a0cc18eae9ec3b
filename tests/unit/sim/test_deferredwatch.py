"""What is left of Deferreds that never fire, once nobody looks at a run any more."""

from __future__ import annotations

import weakref

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.deferredwatch import DeferredWatch


class _Broker:
    def go_on(self, result: object) -> object:
        return result


class LettingGoTests(SynchronousTestCase):
    def left_of(self, *, killed: bool) -> object:
        """A broker that waited for a Deferred, which is still held: puts hold theirs."""
        watch, broker = DeferredWatch(), _Broker()
        with watch.watching():
            self.held: Deferred[object] = Deferred()
        self.held.addCallback(broker.go_on)
        if killed:
            watch.forget()
        seen = weakref.ref(broker)
        del broker
        self.assertIsNotNone(seen(), "it waits")
        watch.let_go()
        return seen()

    def test_nothing_is_left_of_who_waited_for_a_killed_process(self) -> None:
        self.assertIsNone(self.left_of(killed=True))

    def test_nor_of_who_waited_to_the_end(self) -> None:
        self.assertIsNone(self.left_of(killed=False))
