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
