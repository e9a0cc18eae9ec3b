"""A sync of queues that is asked for covers what there is by then, whatever is under way."""

from __future__ import annotations

from hatwisted.store.lifecycle import dispatchedsync
from hatwisted.store.lifecycle.dispatchedsync import RARELY
from tests.unit.store.powerloss import PowerLossCase


class RequestTests(PowerLossCase):
    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.put("U", b"where there's no log, queues go")
        self.flush()
        self.worker.work()

    def begun(self) -> None:
        """A queue begins at 3, which nothing but its own file tells."""
        self.store.queues.get("T", 0).begin_at(3)
        self.store.sync.request()

    def assert_outlasts_power(self) -> None:
        self.lose_power()
        self.start()
        self.assertEqual(self.store.queue_end("T", 0), 3)

    def test_it_begins_at_once(self) -> None:
        self.begun()
        self.worker.work()
        self.assert_outlasts_power()

    def test_it_follows_the_one_under_way(self) -> None:
        self.store.sync.run()
        self.worker.work(1)  # the queues of that round
        under_way = self.store.sync.under_way
        self.assertIsNotNone(under_way)
        self.begun()
        self.assertIs(self.store.sync.under_way, under_way)
        self.worker.work()
        self.assertIsNone(self.store.sync.under_way)
        self.assert_outlasts_power()

    def test_a_stop_waits_for_the_one_that_follows(self) -> None:
        self.store.sync.run()
        self.worker.work(1)  # the queues of that round
        self.begun()
        stopping = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopping)
        self.assert_outlasts_power()


class RegularTests(PowerLossCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(dispatchedsync, "MANY", 3)
        self.start()

    def rounds(self, queues: int, count: int) -> int:
        """How many are made, of so many that are due, each after a message for each of so many queues."""
        begun = []
        run = self.store.sync.run
        self.patch(self.store.sync, "run", lambda: begun.append(1) or run())
        for _ in range(count):
            self.dispatch()
            for number in range(queues):
                self.put(f"T{number}", b"one more")
            self.clock.pump([0.001] * 9)  # dispatched, but not yet written
            self.store.sync.regular()
            self.worker.work()
        return len(begun)

    def test_each_is_made_while_few_queues_wait_for_their_files(self) -> None:
        self.assertEqual(self.rounds(3, 20), 20)

    def test_they_are_rare_while_many_do(self) -> None:
        self.assertEqual(self.rounds(4, 2 * RARELY), 2)
        self.assertEqual(self.rounds(1, 3), 3)
