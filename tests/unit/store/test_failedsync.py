"""A sync that fails is final on Linux: the kernel takes the pages for clean, the next sync leaves them out, and a
process that starts again reads them from memory as if they were on the disk."""

from __future__ import annotations

import errno

from hatwisted.sim.simdisk import Strike
from tests.unit.store.powerloss import PowerLossCase


class FailedSyncTests(PowerLossCase):
    def fail_sync(self) -> None:
        self.disk.strike(Strike(("datasync",), "commitlog", error=errno.EIO))
        done = self.store.flusher.flush_now()
        self.flusher.work()
        self.assertLess(self.successResultOf(done), self.store.log.max_offset)
        self.assertIn("failed", self.store.log.stopped_reason or "")

    def test_B169_what_a_failed_sync_left_out_is_synced_after_a_restart(self) -> None:
        self.start()
        self.put("T", b"synced", 3)
        self.flush()
        self.put("T", b"left out" * 900, 3)
        self.fail_sync()
        self.kill()
        self.start(same_boot=True)
        self.put("T", b"promised" * 900)
        self.flush()
        self.lose_power()
        self.start()
        self.dispatch()
        self.assertEqual(len(self.bodies("T")), 7)

    def test_B169_only_what_no_checkpoint_covers_is_written_again(self) -> None:
        self.start()
        self.put("T", b"synced", 5)
        self.clock.advance(0.5)
        (newest_synced,) = self.put("T", b"synced")
        self.flush()
        self.pass_time(12)
        self.put("T", b"left out", 3)
        self.fail_sync()
        self.kill()
        done: list[str] = []
        self.patch(self.disk.trace, "note", lambda what, blob=b"": done.append(what))
        self.start(same_boot=True)
        writes = [what for what in done if what.startswith("write /s/commitlog")]
        self.assertEqual(writes, [f"write /s/commitlog/{0:020d} {newest_synced.offset}"])

    def test_B169_after_an_orderly_stop_nothing_is(self) -> None:
        self.start()
        self.put("T", b"synced", 5)
        self.flush()
        self.pass_time(12)
        stopping = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopping)
        done: list[str] = []
        self.patch(self.disk.trace, "note", lambda what, blob=b"": done.append(what))
        self.start(same_boot=True)
        self.assertEqual([what for what in done if what.startswith("write /s/commitlog")], [])
