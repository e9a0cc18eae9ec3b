"""Queues of deleted topics: they don't come back, and what is put later isn't taken for what was before."""

import os
import shutil
from datetime import datetime
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.log.put import Put
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.queue import queueremoval
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire.layout import QUEUE_ENTRY
from hatwisted.wire.record import decode_record

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
FILE_SIZE = 1 << 16


class TestDeletedQueues(SynchronousTestCase):
    def setUp(self):
        self.root = Path(self.mktemp()).absolute()
        self.open()

    def open(self):
        self.clock = Clock()
        self.clock.advance(1_795_221_957)
        fs, worker = PosixFileSystem(), InlineWorker()
        options = StoreOptions(
            root=str(self.root),
            store_host=HOST,
            commit_log_file_size=FILE_SIZE,
            consume_queue_file_size=2000,
            index_enable=False,
            local_time=datetime.fromtimestamp,
            process_id=os.getpid,
        )
        self.store = MessageStore(options, self.clock, fs, worker, worker)
        self.report = self.store.load()
        self.store.start()

    def close(self):
        stopped = self.store.stop()
        self.turn()
        self.successResultOf(stopped)

    def reopen(self, unclean=False):
        self.close()
        if unclean:
            (self.root / "abort").touch()
        self.open()

    def tearDown(self):
        self.close()

    def turn(self):
        for _ in range(20):
            self.clock.advance(0.001)

    def put(self, topic, *bodies, queue_id=0, dispatch=True):
        for body in bodies:
            put = Put(topic, queue_id, ((0, body, b""),), HOST, 0)
            self.store.append([put])
            self.assertGreaterEqual(put.end, 0)
        if dispatch:
            self.turn()

    def delete(self, topic):
        done = self.store.removal.drop_topics(lambda name: name == topic)
        self.turn()
        return self.successResultOf(done).queues

    def bodies(self, topic, queue_id=0):
        low, high = self.store.queue_offsets(topic, queue_id)
        found = []
        for index in range(low, high):
            result = self.store.get_messages(topic, queue_id, index, 1, 1 << 20)
            found.append(decode_record(b"".join(result.buffers)).body)
        return found

    def test_topic_is_gone_at_once_and_numbering_starts_over(self):
        self.put("T", b"0", b"1")
        self.put("T", b"2", queue_id=1)
        self.put("Other", b"kept")
        self.assertEqual(self.delete("T"), 2)
        self.assertEqual(self.store.queue_offsets("T", 0), (0, 0))
        self.assertFalse((self.root / "consumequeue" / "T" / "0").exists())
        self.put("T", b"new")
        self.assertEqual(self.bodies("T"), [b"new"])
        self.assertEqual(self.bodies("Other"), [b"kept"])

    def test_others_have_their_turn_between_so_many_queues(self):
        self.patch(queueremoval, "QUEUES_PER_TURN", 2)
        for number in range(5):
            self.put("T", b"0", queue_id=number)
        left = []

        def pause(clock, seconds):
            left.append(sum(self.store.queues.find("T", number) is not None for number in range(5)))
            return later(clock, seconds)

        later = queueremoval.deferLater
        self.patch(queueremoval, "deferLater", pause)
        done = self.store.removal.drop_topics(lambda name: name == "T")
        self.turn()
        self.assertEqual(left, [3, 1])
        self.assertEqual(self.successResultOf(done).queues, 5)

    def test_deleted_messages_stay_away_after_a_clean_restart(self):
        self.put("T", b"0", b"1")
        self.put("Other", b"kept")
        self.delete("T")
        self.reopen()
        self.assertEqual(self.report.dispatched_bytes, 0)
        self.assertEqual(self.store.queue_offsets("T", 0), (0, 0))
        self.put("T", b"new")
        self.reopen()
        self.assertEqual(self.report.dispatched_bytes, 0)
        self.assertEqual(self.bodies("T"), [b"new"])

    def test_deleted_messages_stay_away_after_an_unclean_restart(self):
        self.put("T", b"0", b"1")
        self.delete("T")
        self.reopen(unclean=True)
        self.assertEqual(self.store.queue_offsets("T", 0), (0, 0))
        self.put("T", b"new", b"newer")
        self.reopen(unclean=True)
        self.assertEqual(self.bodies("T"), [b"new", b"newer"])

    def test_queues_built_from_the_log_alone_have_the_new_messages_only(self):
        self.put("T", b"0", b"1", b"2")
        self.delete("T")
        self.put("T", b"new", b"newer")
        self.close()
        shutil.rmtree(self.root / "consumequeue")
        shutil.rmtree(self.root / "consumequeue.deleted")
        self.open()
        self.assertEqual(self.bodies("T"), [b"new", b"newer"])

    def test_message_under_way_to_its_queue_when_the_topic_is_deleted(self):
        self.put("T", b"0")
        self.put("T", b"under way", dispatch=False)
        self.delete("T")
        self.assertEqual(self.bodies("T"), [b"under way"])
        self.put("T", b"new")
        self.assertEqual(self.bodies("T"), [b"new"])

    def test_folder_goes_with_its_records(self):
        self.put("T", b"0")
        self.delete("T")
        self.assertEqual(os.listdir(self.root / "consumequeue.deleted"), ["T@0@93"])
        self.put("Other", *(bytes(20_000) for _ in range(7)))
        self.store.log.files.delete_before(FILE_SIZE)
        self.put("Gone", b"")
        self.delete("Gone")
        self.assertNotIn("T@0@93", os.listdir(self.root / "consumequeue.deleted"))

    def test_expired_queues_are_those_whose_records_have_left_the_log(self):
        self.put("Old", b"0")
        self.put("Kept", b"0")
        self.put("Other", *(bytes(20_000) for _ in range(7)))
        self.store.log.files.delete_before(FILE_SIZE)
        done = self.store.removal.drop_expired(lambda topic: topic == "Kept")
        self.turn()
        self.assertEqual(self.successResultOf(done).queues, 1)
        self.assertIsNone(self.store.queues.find("Old", 0))
        self.assertIsNotNone(self.store.queues.find("Kept", 0))
        self.assertEqual(os.listdir(self.root / "consumequeue.deleted"), [])

    def test_records_that_take_the_place_of_cut_ones_are_dispatched(self):
        self.put("T", b"0", b"1")
        self.delete("T")
        deleted = self.store.queues.deleted
        end = deleted.reached("T", 0)
        self.store.queues.truncate(end - 1)
        self.assertEqual(deleted.reached("T", 0), end - 1)
        self.assertEqual(deleted.reached("T", 1), 0)
        self.assertEqual([queue.max_offset for queue in deleted], [1])

    def test_a_sync_of_the_former_queue_says_nothing_of_its_successor(self):
        self.put("T", b"0", b"1", b"2")
        queue = self.store.queues.find("T", 0)
        mark = queue.unsynced
        queue.append(0, QUEUE_ENTRY.pack(self.store.log.max_offset, 93, 0))
        self.assertEqual(queue.max_offset, 1)
        queue.synced(mark)
        self.assertIsNotNone(queue.unsynced)
        queue.datasync()
        self.assertIsNone(queue.unsynced)

    def test_a_sync_goes_on_over_a_queue_whose_records_leave_the_log_meanwhile(self):
        """The worker syncs, the reactor closes what has expired."""
        self.put("T", b"0")
        self.delete("T")
        self.put("Later", b"0")
        deleted = self.store.queues.deleted
        (queue,) = deleted
        datasync = queue.datasync

        def closed_in_between():
            deleted.expired(queue.max_physical)
            datasync()

        self.patch(queue, "_flushed", 0)
        self.patch(queue, "datasync", closed_in_between)
        self.store.queues.write_out()
        self.assertIsNotNone(queue.unsynced)
        self.store.queues.datasync()
        self.assertIsNone(self.store.queues.find("Later", 0).unsynced)

    def test_a_message_put_while_many_queues_go_is_kept(self):
        """Its producer has made the topic again, and been told that the message is stored."""
        for queue_id in range(200):
            self.put("T", b"0", queue_id=queue_id, dispatch=False)
        self.turn()
        done = self.store.removal.drop_topics(lambda name: name == "T")
        self.assertNoResult(done)
        for queue_id in (0, 199):
            self.put("T", b"new", queue_id=queue_id, dispatch=False)
        self.turn()
        self.successResultOf(done)
        self.assertEqual([self.bodies("T", queue_id)[-1:] for queue_id in (0, 199)], [[b"new"]] * 2)
        self.reopen(unclean=True)
        self.assertEqual([self.bodies("T", queue_id)[-1:] for queue_id in (0, 199)], [[b"new"]] * 2)

    def test_many_queues_leave_the_reactor_its_turns(self):
        for queue_id in range(40):
            self.put("T", b"0", queue_id=queue_id, dispatch=False)
        self.turn()
        done = self.store.removal.drop_topics(lambda name: name == "T")
        self.assertNoResult(done)
        self.assertEqual(len(self.store.queues), 8)
        self.turn()
        self.assertEqual(self.successResultOf(done).queues, 40)
