"""Log files that leave the store, and a power failure right after that."""

from __future__ import annotations

from tests.unit.store.powerloss import PowerLossCase


class RetentionCrashTests(PowerLossCase):
    def test_numbers_of_messages_are_not_given_again_once_their_log_files_are_removed(self) -> None:
        """Groups that have seen the messages would pass over new ones with the same numbers."""
        self.start()
        self.put("T", b"m", 120)
        self.put("Other", bytes(20_000), 12)
        self.flush()
        self.dispatch()
        self.assertEqual(self.store.queue_end("T", 0), 120)
        self.disk.full = True
        self.store.retention.run_round()
        self.pass_time(4)
        self.disk.full = False
        self.kernel_writes("commitlog")
        self.lose_power()
        self.start()
        (put,) = self.put("T", b"new")
        self.assertEqual(put.queue_offset, 120)
