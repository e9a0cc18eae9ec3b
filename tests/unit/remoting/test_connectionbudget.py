"""The budget of connections: over all addresses, and of one."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.remoting.connectionbudget import ConnectionBudget


class ConnectionBudgetTests(SynchronousTestCase):
    def test_one_address_gets_half_and_the_others_the_rest(self) -> None:
        budget = ConnectionBudget(4)
        self.assertEqual(
            [budget.take(host) for host in "aaabc"],
            [None, None, "its address has 2 connections open", None, None],
        )
        self.assertEqual(budget.take("d"), "4 connections are open on all ports")
        budget.give_back("a")
        self.assertIsNone(budget.take("d"))
        self.assertEqual(budget.open, 4)

    def test_of_ipv6_a_network_counts_as_one_address(self) -> None:
        budget = ConnectionBudget(8)
        own = [f"2001:db8:1:2::{number}" for number in range(5)]
        refused = "its network has 4 connections open"
        self.assertEqual([budget.take(host) for host in own], [None] * 4 + [refused])
        self.assertIsNone(budget.take("2001:db8:1:3::1"))
        budget.give_back(own[0])
        self.assertIsNone(budget.take(own[4]))

    def test_an_operator_may_say_how_many(self) -> None:
        budget = ConnectionBudget(4)
        self.assertEqual(
            [budget.take("a", 3) for _ in range(4)], [None] * 3 + ["its address has 3 connections open"]
        )

    def test_who_is_refused_leaves_nothing_behind(self) -> None:
        budget = ConnectionBudget(2)
        for host in ("a", "a", "b", "c"):
            budget.take(host)
        budget.give_back("a")
        budget.give_back("b")
        self.assertEqual((budget.open, +budget._of_address), (0, {}))
