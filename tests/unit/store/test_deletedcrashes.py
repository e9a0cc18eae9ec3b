"""Queues of deleted topics, after power failures and kills: none keeps later messages from their consumers."""

from __future__ import annotations

from hatwisted.store.lifecycle.recovery import RecoveryReport
from tests.unit.store.powerloss import PowerLossCase


class DeletedTopicTests(PowerLossCase):
    def begin(self) -> None:
        self.start()
        self.put("Other", b"synced", 3)
        self.flush()
        self.pass_time(12)

    def delete(self, topic: str) -> None:
        done = self.store.removal.drop_topics(lambda name: name == topic)
        self.dispatch()
        self.worker.work()
        self.assertEqual(self.successResultOf(done), 1)

    def restart(self) -> RecoveryReport:
        """An orderly one."""
        stopped = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopped)
        self.kill()
        return self.start()

    def put_where_the_deleted_lay(self) -> None:
        """The power fails before a topic's messages are synced, but after its deletion has been; it's made again."""
        self.begin()
        self.put("T", bytes(100), 5)
        self.dispatch()
        self.delete("T")
        self.lose_power()
        self.start()
        self.put("T", b"acknowledged", 5)
        self.flush()
        self.dispatch()
        self.assertEqual(len(self.bodies("T")), 5)

    def test_B95_what_lies_where_a_deleted_topic_was_cut_survives_a_kill(self) -> None:
        self.put_where_the_deleted_lay()
        self.kill()
        self.start(same_boot=True)
        self.assertEqual(len(self.bodies("T")), 5)
        self.assertEqual(self.store.log.queue_offsets["T", 0], 5)

    def test_B95_what_lies_where_a_deleted_topic_was_cut_survives_a_power_failure(self) -> None:
        self.put_where_the_deleted_lay()
        self.lose_power()
        self.start()
        self.assertEqual(len(self.bodies("T")), 5)

    def test_B95_nor_does_a_log_that_is_gone_leave_marks_of_what_was_deleted_in_it(self) -> None:
        self.begin()
        self.put("T", bytes(100), 5)
        self.dispatch()
        self.delete("T")
        self.kill()
        self.disk.remove_all("/s/commitlog")
        self.start()
        self.put("T", b"acknowledged", 5)
        self.flush()
        self.dispatch()
        self.kill()
        self.start(same_boot=True)
        self.assertEqual(len(self.bodies("T")), 5)

    def test_lives_that_were_deleted_one_after_the_other_are_cut_to_one(self) -> None:
        self.begin()
        for _ in range(3):
            self.put("T", bytes(100), 2)
            self.dispatch()
            self.delete("T")
        self.lose_power()
        self.start()
        deleted = self.store.queues.deleted
        self.assertEqual([deleted.reached("T", 0)], [self.store.log.max_offset])
        self.assertEqual([queue.max_offset for queue in deleted], [0])
