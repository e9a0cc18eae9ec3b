"""What a broker delivers later, in words: the checker by itself."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.deliveries import early, rolled_back, undelivered
from hatwisted.sim.history import Place, Sent
from hatwisted.wire.layout import SCHEDULE_TOPIC
from tests.unit.sim.queuestore import QueueStore


class DeliveriesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = QueueStore()
        self.store.put(SCHEDULE_TOPIC, 1, stored_at=5000)
        self.sent = Sent(number=1, topic="T", queue_id=0, body=b"%08d" % 1, sent_at=0.0, delay=3.0)
        self.sent.place = Place(SCHEDULE_TOPIC, 0, 0, 0)
        self.sent.on.add("a")

    def promises(self) -> list[str]:
        judges = undelivered, early, rolled_back
        return [violation.promise for judge in judges for violation in judge([self.sent], self.store)]

    def test_a_delayed_message_that_never_came_is_missed(self) -> None:
        self.store.put("T", 2)
        self.assertEqual(self.promises(), ["delivered"])

    def test_it_may_come_twice_but_not_too_early(self) -> None:
        self.store.put("T", 1, 1, stored_at=8000)
        self.assertEqual(self.promises(), [])
        self.store.put("T", 1, stored_at=7999)
        self.assertEqual(self.promises(), ["early"])

    def test_who_never_promised_to_have_it_owes_nothing(self) -> None:
        self.sent.on.clear()
        self.assertEqual(self.promises(), [])

    def test_what_isnt_delayed_comes_with_its_answer(self) -> None:
        self.sent.delay = 0.0
        self.assertEqual(self.promises(), [])

    def test_a_transaction_that_is_committed_comes(self) -> None:
        self.sent.delay, self.sent.commits = 0.0, True
        self.assertEqual(self.promises(), ["delivered"])
        self.store.put("T", 1)
        self.assertEqual(self.promises(), [])

    def test_one_that_is_rolled_back_comes_nowhere(self) -> None:
        self.sent.delay, self.sent.commits = 0.0, False
        self.assertEqual(self.promises(), [])
        self.sent.on.clear()
        self.store.put("T", 1)
        self.assertEqual(self.promises(), ["withdrawn"])
