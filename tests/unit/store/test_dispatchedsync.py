"""A sync of queues that is asked for covers what there is by then, whatever is under way."""

from __future__ import annotations

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
