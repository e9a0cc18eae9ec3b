"""The index, after syncs that failed."""

from __future__ import annotations

import errno

from hatwisted.sim.simdisk import Strike
from tests.unit.store.powerloss import PowerLossCase


class FailedIndexSyncTests(PowerLossCase):
    def put_with_key(self, key: str, count: int) -> None:
        self.put("T", b"", count, properties=f"KEYS\x01{key}".encode())
        self.flush()
        self.dispatch()

    def found(self, key: str) -> int:
        assert self.store.index is not None
        return len(self.store.index.query("T", key, 1 << 20, 0, 1 << 60))

    def test_B169_what_a_failed_sync_of_the_index_left_out_is_found_after_an_orderly_stop(self) -> None:
        """The kernel shows it as long as it's up, and then never again."""
        shape = {"index_slots": 5000, "index_items": 20000}
        self.start(**shape)
        self.put_with_key("before", 5)
        self.pass_time(12)
        self.disk.strike(Strike(("datasync",), "/s/index", error=errno.EIO))
        self.put_with_key("skipped", 1000)
        self.pass_time(12)
        self.put_with_key("after", 5)
        stopped = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopped)
        self.lose_power()
        self.start(**shape)
        self.assertEqual([self.found(key) for key in ("before", "skipped", "after")], [5, 1000, 5])


class KeylessTests(PowerLossCase):
    """An index that needs nothing ends far back, or has never begun."""

    def fill(self, properties: bytes = b"") -> None:
        for _ in range(8):
            self.put("T", bytes(30_000), 2, properties=properties)
            self.flush()
            self.dispatch()
        self.pass_time(12)

    def test_messages_without_keys_are_not_all_dispatched_again_after_a_kill(self) -> None:
        self.start()
        self.fill()
        self.put("T", b"later")
        self.kill()
        report = self.start(same_boot=True)
        self.assertGreater(report.start, 0)
        self.assertEqual(report.dispatched_from, report.start)

    def test_nor_after_a_power_failure_nor_behind_some_with_keys(self) -> None:
        self.start()
        self.put("T", b"", properties=b"KEYS\x01k")
        self.fill()
        self.put("T", b"later", properties=b"KEYS\x01k")
        self.flush()
        self.lose_power()
        report = self.start()
        self.assertGreater(report.start, 0)
        self.assertEqual(report.dispatched_from, report.start)
        assert self.store.index is not None
        self.assertEqual(len(self.store.index.query("T", "k", 10, 0, 1 << 60)), 2)

    def test_an_index_that_has_lost_its_last_items_is_built_again(self) -> None:
        self.start()
        self.fill(b"KEYS\x01k")
        self.put("T", b"later")
        self.kill()
        self.disk.remove_all("/s/index/")
        report = self.start(same_boot=True)
        self.assertEqual(report.dispatched_from, 0)
        assert self.store.index is not None
        self.assertEqual(len(self.store.index.query("T", "k", 100, 0, 1 << 60)), 16)
