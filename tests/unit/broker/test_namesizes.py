"""What names take, and what is counted by it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.filter.subscriptiondata import subscribe
from hatwisted.broker.namesizes import NAME_OF_ONE, memberships_of, name_bytes


class NameSizeTests(SynchronousTestCase):
    def test_characters_count_for_their_width(self) -> None:
        self.assertEqual([name_bytes(name) for name in ("", "abc", "\xe4bc", "\U0001f600")], [0, 3, 12, 4])

    def test_usual_names_are_one_membership(self) -> None:
        self.assertEqual(
            [memberships_of("g" * length) for length in (1, 255, NAME_OF_ONE, 1024)], [1, 1, 2, 5]
        )

    def test_a_subscription_counts_for_the_bytes_of_its_text(self) -> None:
        sizes = [
            subscribe("T", text, "SQL92", 0).size for text in ("a" * 1000, "a" * 1024, "\U0001f600" * 1000)
        ]
        self.assertEqual(sizes, [1, 2, 4])
