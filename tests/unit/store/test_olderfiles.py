"""Queues that name records of log files older than those that each start checks."""

from __future__ import annotations

from hatwisted.store.lifecycle import queuecompleteness
from tests.unit.store.powerloss import PowerLossCase


class OlderFilesTests(PowerLossCase):
    def test_B95_a_queue_that_was_moved_away_is_rebuilt_from_all_of_the_log(self) -> None:
        """As the error of an entry that has gone bad asks for."""
        self.patch(queuecompleteness, "CHECKED_FILES", 2)
        self.start()
        for _ in range(10):
            self.put("T", bytes(20_000), 2)
            self.put("Other", bytes(20_000))
            self.flush()
            self.dispatch()
        stopped = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopped)
        self.kill()
        self.disk.remove_all("/s/consumequeue/T/0/")
        self.start()
        self.assertEqual(len(self.bodies("T")), 20)
        self.assertNotIn(b"", self.bodies("T"))

    def test_entries_before_indexes_that_were_left_blank_count(self) -> None:
        self.patch(queuecompleteness, "BLOCK", 4)
        self.start()
        self.put("T", bytes(5000), 30)
        self.dispatch()
        self.store.log.queue_offsets["T", 0] = 40
        self.put("T", bytes(5000), 5)
        self.dispatch()
        stopped = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopped)
        self.kill()
        self.assertEqual(self.start().dispatched_bytes, 0)
