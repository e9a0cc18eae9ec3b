"""The budget of connections: over all addresses, and of one."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.remoting.connectionbudget import ConnectionBudget
from hatwisted.remoting.partialframes import MAX_PARTIAL_BYTES
from hatwisted.remoting.sharedroom import SURE
from hatwisted.remoting.unreadanswers import MAX_UNREAD_BYTES


class _Transport:
    dataBuffer = b""


class Peer:
    """A connection that tells why it was closed."""

    address = "10.0.0.1"

    def __init__(self) -> None:
        self.transport = _Transport()
        self.reasons: list[str] = []

    def reject(self, reason: str) -> None:
        self.reasons.append(reason)


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

    def test_what_frames_take_beyond_their_own_unread_answers_lack_and_the_other_way_round(self) -> None:
        budget, frames, reader = ConnectionBudget(), Peer(), Peer()
        budget.partial.hold(frames, MAX_PARTIAL_BYTES)
        reader.transport.dataBuffer = bytes(SURE)
        budget.unread.hold(reader, SURE)
        self.assertEqual((frames.reasons, reader.reasons), ([], []))
        reader.transport.dataBuffer += b"x"
        budget.unread.hold(reader, SURE + 1)
        self.assertEqual(reader.reasons, [f"answers that clients haven't read exceed {SURE} bytes"])
        budget.partial.forget(frames)
        reader.transport.dataBuffer = bytes(MAX_UNREAD_BYTES)
        budget.unread.hold(reader, MAX_UNREAD_BYTES)
        budget.partial.hold(frames, SURE)
        self.assertEqual((len(frames.reasons), len(reader.reasons)), (0, 1))
        budget.partial.hold(frames, SURE + 1)
        self.assertIn(f"exceed {SURE} bytes", frames.reasons[0])

    def test_who_is_refused_leaves_nothing_behind(self) -> None:
        budget = ConnectionBudget(2)
        for host in ("a", "a", "b", "c"):
            budget.take(host)
        budget.give_back("a")
        budget.give_back("b")
        self.assertEqual((budget.open, +budget._of_address), (0, {}))
