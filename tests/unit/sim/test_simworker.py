"""Threads of a simulated process."""

from random import Random

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.simworker import SimWorker


class StopTests(SynchronousTestCase):
    def test_a_stop_waits_for_what_is_under_way_and_leaves_no_timer(self) -> None:
        clock, done = Clock(), []
        worker = SimWorker(clock, Random(1), 1, lambda: 3.0)
        results = [worker.run(done.append, number) for number in range(3)]
        worker.stop()
        self.assertEqual(done, [0, 1, 2])
        clock.advance(0)
        for result in results:
            self.successResultOf(result)
        self.assertEqual(clock.getDelayedCalls(), [])
