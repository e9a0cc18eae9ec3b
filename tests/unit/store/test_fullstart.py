"""A start on a full disk: what is stored can be read, and retention makes room, as in one that was running."""

from __future__ import annotations

from tests.unit.store.powerloss import PowerLossCase


class FullDiskTests(PowerLossCase):
    def test_a_store_whose_process_was_killed_starts_on_a_full_disk(self) -> None:
        self.start()
        self.put("T", b"kept", 3)
        self.flush()
        self.pass_time(12)
        self.put("T", b"acknowledged", 100)
        self.flush()
        self.kill()
        self.disk.full = True
        self.start(same_boot=True)
        self.assertGreaterEqual(len(self.bodies("T")), 3)
        self.assertEqual(self.store.log.queue_offsets["T", 0], 103)
        self.disk.full = False
        self.pass_time(12)
        self.assertEqual(len(self.bodies("T")), 103)
