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
