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
        self.assertEqual(self.successResultOf(done).queues, 1)

    def restart(self) -> RecoveryReport:
        """An orderly one."""
        stopped = self.store.stop()
        self.pass_time(1)
        self.successResultOf(stopped)
        self.kill()
        return self.start()

    def put_where_the_deleted_lay(self) -> None:
        """The power fails before a topic's messages are synced, but after its deletion; it's made again."""
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

    def assert_later_starts_build_nothing(self) -> None:
        self.pass_time(12)
        self.restart()
        self.assertEqual(self.restart().dispatched_bytes, 0)

    def test_B95_a_slave_whose_masters_topic_was_made_again_builds_nothing_at_its_starts(self) -> None:
        self.begin()
        self.put("T", b"before", 5)
        self.dispatch()
        self.store.log.queue_offsets["T", 0] = 0  # as the master counts
        self.put("T", b"after", 2)
        self.dispatch()
        self.assertEqual(len(self.bodies("T")), 2)
        self.assert_later_starts_build_nothing()
        self.assertEqual(len(self.bodies("T")), 2)

    def test_B95_messages_under_way_to_their_queue_as_the_topic_is_deleted_make_no_work_for_starts(
        self,
    ) -> None:
        self.begin()
        self.put("T", b"before", 5)
        self.dispatch()
        self.put("T", b"under way", 5)
        self.delete("T")
        self.put("T", b"after", 2)
        self.dispatch()
        self.assert_later_starts_build_nothing()
        self.assertEqual(len(self.bodies("T")), 2)

    def test_B95_queues_rebuilt_over_both_lives_of_a_topic_make_no_work_for_later_starts(self) -> None:
        """RocketMQ doesn't remember a deletion: its store may come like that."""
        self.begin()
        self.put("T", b"before", 5)
        self.dispatch()
        self.delete("T")
        self.put("T", b"after", 2)
        self.restart()
        self.kill()
        self.disk.remove_all("/s/consumequeue")
        self.start()
        self.assert_later_starts_build_nothing()
        self.assertEqual(len(self.bodies("T")), 2)

    def lose_deleted_entries(self, *topics: str) -> None:
        """The power fails after the deletion of topics whose messages are in the log, and before any sync of what
        their queues say."""
        self.begin()
        for topic in topics:
            self.put(topic, b"before", 5)
            self.put("Other", b"", 1)
            self.flush()
            self.dispatch()
            self.delete(topic)
        self.lose_power()
        report = self.start()
        self.assertEqual(report.end, self.store.log.max_offset)

    def test_B95_entries_that_a_deleted_queue_lost_with_the_power_make_no_work_for_later_starts(self) -> None:
        self.lose_deleted_entries("T")
        self.assertEqual(self.store.queue_offsets("T", 0), (0, 0))
        self.assert_later_starts_build_nothing()
        self.assertEqual(self.store.queue_offsets("T", 0), (0, 0))

    def test_B95_nor_do_those_of_several_lives_of_a_topic(self) -> None:
        self.lose_deleted_entries("T", "T", "U", "T")
        self.put("T", b"after", 2)
        self.flush()
        self.dispatch()
        self.assertEqual([queue.max_offset for queue in self.store.queues.deleted], [5, 5, 5, 5])
        self.assert_later_starts_build_nothing()
        self.assertEqual(len(self.bodies("T")), 2)

    def test_B95_any_pages_of_a_deleted_queue_may_be_missing(self) -> None:
        self.begin()
        self.put("T", b"before", 700)
        self.flush()
        self.dispatch()
        self.delete("T")
        self.lose_power(kept=0.5)
        self.start()
        self.assert_later_starts_build_nothing()
        self.assertEqual([queue.max_offset for queue in self.store.queues.deleted], [700])

    def test_B95_newest_records_that_are_a_deleted_topics_make_no_work_for_starts(self) -> None:
        self.begin()
        self.put("T", b"before", 700)
        self.dispatch()
        self.delete("T")
        self.assertEqual(self.restart().dispatched_bytes, 0)

    def expire(self) -> None:
        """The log loses what a deleted topic had."""
        self.begin()
        self.put("T", b"before", 5)
        self.dispatch()
        self.delete("T")
        self.put("Other", bytes(20_000), 7)
        self.dispatch()
        self.assertEqual(len(self.disk.listdir("/s/consumequeue.deleted")), 1)
        self.store.log.files.delete_before(1 << 16)

    def test_a_deleted_queue_goes_with_the_log_files_of_its_records(self) -> None:
        self.expire()
        done = self.store.retention.run_round()
        self.pass_time(1)
        self.successResultOf(done)
        self.assertEqual(self.disk.listdir("/s/consumequeue.deleted"), [])

    def test_one_whose_records_had_gone_before_goes_at_the_start(self) -> None:
        self.expire()
        self.kill()
        self.start(same_boot=True)
        self.assertEqual(self.disk.listdir("/s/consumequeue.deleted"), [])

    def test_a_queue_that_cannot_be_looked_at_where_it_was_moved_stays(self) -> None:
        """No descriptor is left: it's in service as before, and its messages are there."""
        self.begin()
        self.put("T", b"before", 5)
        self.pass_time(12)
        self.disk.no_descriptors = True
        done = self.store.removal.drop_topics(lambda name: name == "T")
        self.disk.no_descriptors = False
        self.worker.work()
        left = self.successResultOf(done)
        self.assertEqual(left.queues, 0)
        self.assertIn("queue 0 of T can't be deleted: ", left.problem)
        self.put("T", b"after")
        self.dispatch()
        self.assertEqual(len(self.bodies("T")), 6)
        self.delete("T")
        self.assertEqual(self.bodies("T"), [])
