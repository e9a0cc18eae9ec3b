"""What consumer groups must have been given, in words: the checker by itself."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.consumption import Consumption, GroupTerms
from tests.unit.sim.queuestore import QueueStore, seen

KEYS = (("T", 0),)


class ConsumptionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = QueueStore()
        self.store.put("T", 0, 1, 2, 3)
        self.group = Consumption(GroupTerms("g", ordered=True, most=2))

    def give(self, *offsets: int, failed: bool = False, times: int = 0) -> None:
        for offset in offsets:
            self.group.delivered(seen("T", offset, offset), failed=failed, times=times)

    def promises(self) -> list[str]:
        found = [*self.group.missing(self.store, KEYS), *self.group.out_of_order(self.store, KEYS)]
        return [violation.promise for violation in found]

    def test_a_group_that_was_given_everything_in_order_more_than_once_is_content(self) -> None:
        self.give(0, 1, 2, 1, 2, 3)
        self.assertEqual(self.promises(), [])

    def test_a_message_that_was_left_out_is_missed(self) -> None:
        self.give(0, 1, 3)
        self.assertEqual(self.promises(), ["consumed"])

    def test_a_retry_that_never_came_is_missed(self) -> None:
        self.give(0, 1, 2, 3)
        self.store.put("%RETRY%g", 1)
        self.assertEqual(self.promises(), ["consumed"])

    def test_a_later_message_before_an_earlier_one_is_out_of_order(self) -> None:
        self.give(0, 2, 1, 3)
        self.assertEqual(self.promises(), ["ordered"])
        self.group.terms = GroupTerms("g", ordered=False, most=2)
        self.assertEqual(self.promises(), [])

    def test_what_stands_below_a_lost_message_that_was_given_may_be_left_out(self) -> None:
        self.group.delivered(seen("T", 1, 77), failed=False)
        self.give(2, 3)
        self.assertEqual(self.promises(), [])
        self.store.put("T", 4)
        self.assertEqual(self.promises(), ["consumed"])

    def test_what_a_master_puts_that_knew_the_groups_progress_is_given_all_the_same(self) -> None:
        self.group.delivered(seen("T", 2, 77), failed=False)
        self.give(0, 3)
        self.assertEqual(self.promises(), [])
        self.group.begun["T", 0] = 1
        self.assertEqual(self.promises(), ["consumed", "consumed"])
        self.give(1, 2)
        self.assertEqual(self.promises(), [])

    def forgotten(self) -> list[str]:
        return [violation.promise for violation in self.group.forgotten(self.store)]

    def test_a_failed_message_comes_again(self) -> None:
        self.give(1, failed=True)
        self.assertEqual(self.forgotten(), ["retried"])
        self.give(1)
        self.assertEqual(self.forgotten(), [])

    def test_an_ordered_group_may_fail_on_what_has_gone_well_with_the_lock_s_next_holder(self) -> None:
        self.give(1, failed=True)
        self.give(1)
        self.give(1, failed=True, times=1)
        self.assertEqual(self.forgotten(), [])

    def test_an_older_delivery_once_more_may_fail_when_a_retry_has_gone_well(self) -> None:
        self.group.terms = GroupTerms("g", ordered=False, most=2)
        self.give(1, failed=True)
        self.give(1, times=1)
        self.give(1, failed=True)
        self.give(1, failed=True, times=1)
        self.assertEqual(self.forgotten(), [])
        self.give(1, failed=True, times=2)
        self.assertEqual(self.forgotten(), ["retried"])

    def test_a_message_is_a_dead_letter_after_so_many_failures_and_not_before(self) -> None:
        self.give(1, failed=True)
        self.store.put("%DLQ%g", 1)
        self.assertEqual(self.forgotten(), ["retried"])
        self.give(1, failed=True, times=1)
        self.assertEqual(self.forgotten(), [])
