"""The budget of descriptors."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.tap.descriptors import connections_within


class BudgetTests(SynchronousTestCase):
    def test_connections_get_what_files_and_links_leave(self) -> None:
        self.assertEqual(connections_within(655_350), 655_350 - 4096 - 512 - 192 - 64)
        for limit in (64, 300, 1024, 4096, 20_000):
            self.assertGreaterEqual(connections_within(limit), limit * 3 // 8, limit)
