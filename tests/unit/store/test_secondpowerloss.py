"""What recovery has cut stays cut when the power fails again before anything else was synced."""

from itertools import product

from hatwisted.logcodec.queueentry import ENTRY_SIZE
from hatwisted.store.log.put import Put
from hatwisted.wire.layout import QUEUE_ENTRY
from tests.unit.store.powerloss import PowerLossCase


class SecondPowerLossTests(PowerLossCase):
    def recovered_once(self) -> Put:
        """A queue's stale entries were cut by a recovery; then another topic's messages came, and its own."""
        self.start()
        self.put("A", b"old" * 100, 10)
        self.flush()
        self.pass_time(20)
        self.put("A", b"never answered" * 30, 5)
        self.dispatch()
        self.kernel_writes("consumequeue")
        self.lose_power()
        self.start()
        self.assertEqual(self.store.queue_end("A", 0), 10)
        self.put("B", b"other" * 80, 8)
        (ours,) = self.put("A", b"new" * 100)
        self.put("B", b"other" * 80, 8)
        self.flush()
        return ours

    def test_B166_cut_queue_entries_do_not_come_back(self) -> None:
        ours = self.recovered_once()
        self.lose_power()
        self.start()
        self.dispatch()
        self.assertEqual(self.store.queue_end("A", 0), 11)
        self.assertEqual(self.entries("A")[10][0], ours.offset)
        self.assertIn(b"new" * 100, self.bodies("A")[10])
        self.assertEqual(self.store.log.queue_offsets["A", 0], 11)

    def test_B166_entries_that_were_not_synced_are_not_believed(self) -> None:
        """Names and some pages of a queue's files have reached the disk, pages before these haven't."""
        ours = [self.recovered_once()]
        for seed in range(10):
            ours += self.put("A", b"new" * 20, 120)
            self.flush()
            self.dispatch()
            self.disk.journal.sync()
            self.lose_power(kept=0.5, seed=seed)
            self.start()
            self.dispatch()
            self.assertEqual([at for at, _ in self.entries("A")[10:]], [put.offset for put in ours], seed)

    def test_B166_no_hole_stays_in_files_before_the_last_three(self) -> None:
        """More of a queue's files than a scan of its end looks at have names on the disk, and their pages are lost
        or kept by chance."""
        small = {
            "consume_queue_file_size": 4 * ENTRY_SIZE,
            "commit_log_file_size": 1 << 12,
            "index_enable": False,
        }
        for seed, kept in enumerate((0.0, 0.3, 0.5, 0.7, 0.9)):
            with self.subTest(kept=kept):
                self.setUp()
                self.start(**small)
                ours = []
                for _ in range(2):
                    ours += self.put("A", b"synced" * 20, 25)
                    self.flush()
                    self.pass_time(20)
                ours += self.put("A", b"not in synced queues" * 10, 50)
                self.flush()
                self.dispatch()
                self.store.queues.write_out()
                self.disk.journal.sync()
                self.lose_power(kept=kept, seed=seed)
                self.start(**small)
                self.assertEqual([at for at, _ in self.entries("A")], [put.offset for put in ours])

    def test_B166_entries_are_not_believed_for_times_of_a_clock_that_was_ahead(self) -> None:
        """What was put under it counted as later than all that came after its correction."""
        small = {
            "consume_queue_file_size": 4 * ENTRY_SIZE,
            "commit_log_file_size": 1 << 12,
            "index_items": 10,
        }
        for seed, index_safe in product(range(3), (False, True)):
            with self.subTest(seed=seed, index_safe=index_safe):
                self.setUp()
                small["message_index_safe"] = index_safe
                self.clock.advance(5 * 3600)
                self.start(**small)
                ours = self.put("A", b"ahead" * 20, 50, properties=b"KEYS\1k\2")
                self.flush()
                self.pass_time(20)
                self.kill()
                self.clock.rightNow -= 5 * 3600
                self.start(same_boot=True, **small)
                ours += self.put("A", b"not in synced queues" * 10, 50, properties=b"KEYS\1k\2")
                self.flush()
                self.dispatch()
                self.store.queues.write_out()
                self.disk.journal.sync()
                self.lose_power(kept=0.5, seed=seed)
                self.clock.advance(20)
                self.assertLessEqual(self.start(**small).start, ours[50].offset)
                self.assertEqual([at for at, _ in self.entries("A")], [put.offset for put in ours])
                found = self.store.index.query("A", "k", 1000, 0, 1 << 62)
                self.assertEqual(sorted(found), [put.offset for put in ours])

    def test_B166_the_next_start_builds_entries_again_that_have_gone_bad(self) -> None:
        small = {
            "consume_queue_file_size": 4 * ENTRY_SIZE,
            "commit_log_file_size": 1 << 12,
            "index_enable": False,
        }
        for same_boot, bad in product((False, True), (bytes(20), b"\xff" * 20)):
            with self.subTest(same_boot=same_boot, bad=bad):
                self.setUp()
                self.start(**small)
                ours = self.put("A", b"synced" * 20, 50)
                self.flush()
                self.pass_time(20)
                self.kill()
                inode = self.disk.names.files[f"/s/consumequeue/A/0/{4 * ENTRY_SIZE * 5:020d}"]
                inode.data[20:40] = inode.stable[20:40] = bad
                self.start(same_boot=same_boot, **small)
                self.assertEqual([at for at, _ in self.entries("A")], [put.offset for put in ours])
                self.lose_power()
                report = self.start(**small)
                self.assertEqual([at for at, _ in self.entries("A")], [put.offset for put in ours])
                self.assertEqual(report.dispatched_from, report.start)

    def test_B166_an_entry_that_names_another_place_hides_no_other(self) -> None:
        """Of a later place: entries after it look stale, and records up to where it ends look known. Of one in
        the same log file: sizes add up all the same."""
        small = {
            "consume_queue_file_size": 4 * ENTRY_SIZE,
            "commit_log_file_size": 1 << 12,
            "index_enable": False,
        }
        wrong = (1 << 12, 0), (1 << 40, 0), (0, 1 << 10), (0, 1 << 24), (8, 0), (-8, 0), (512, 0), (512, -8)
        for end, queue_file, (offset, size) in product(("power", "kill", "stop"), (0, 5, 12), wrong):
            with self.subTest(end=end, queue_file=queue_file, offset=offset, size=size):
                self.setUp()
                self.start(**small)
                ours = self.put("A", b"synced" * 20, 50)
                others = self.put("B", b"other" * 20, 10)
                ours += self.put("A", b"synced" * 20, 10)
                self.flush()
                self.pass_time(20)
                if end == "stop":
                    stopping = self.store.stop()
                    self.pass_time(1)
                    self.successResultOf(stopping)
                self.kill()
                inode = self.disk.names.files[f"/s/consumequeue/A/0/{4 * ENTRY_SIZE * queue_file:020d}"]
                at, length, tags = QUEUE_ENTRY.unpack_from(inode.stable, ENTRY_SIZE)
                spoilt = QUEUE_ENTRY.pack(at + offset, length + size, tags)
                inode.data[20:40] = inode.stable[20:40] = spoilt
                if end == "power":
                    self.lose_power()
                self.start(same_boot=end != "power", **small)
                (last,) = self.put("A", b"new" * 20)
                self.flush()
                self.dispatch()
                self.assertEqual(last.queue_offset, 60)
                self.assertEqual([at for at, _ in self.entries("A")], [put.offset for put in (*ours, last)])
                self.assertEqual([at for at, _ in self.entries("B")], [put.offset for put in others])

    def test_messages_of_a_deleted_topic_stay_out_of_the_recreated_one(self) -> None:
        self.start()
        self.put("A", b"deleted" * 40, 7)
        self.dispatch()
        dropped = self.store.removal.drop_topics(lambda topic: topic == "A")
        self.worker.work()
        self.assertEqual(self.successResultOf(dropped).queues, 1)
        self.put("A", b"anew" * 40, 3)
        self.flush()
        self.dispatch()
        self.kill()
        self.start()
        self.dispatch()
        bodies = self.bodies("A")
        self.assertEqual(len(bodies), 3)
        self.assertTrue(all(b"anew" in body for body in bodies))


class IndexTests(PowerLossCase):
    def write_sectors(self, begin: int, end: int | None) -> None:
        """The kernel writes these bytes of the key index, of its own accord."""
        (inode,) = (inode for path, inode in self.disk.names.files.items() if path.startswith("/s/index/"))
        inode.stable[begin:end] = inode.data[begin:end]

    def test_B166_items_of_the_key_index_that_were_cut_do_not_come_back(self) -> None:
        key = b"KEYS\1k\2"
        self.start()
        self.put("A", b"kept", 10, properties=key)
        self.flush()
        self.pass_time(20)
        self.put("A", b"never answered" * 30, 30, properties=key)
        self.dispatch()
        self.write_sectors(512, None)  # items that the first sector, with the header, doesn't count
        self.lose_power()
        self.start()
        self.assertEqual(self.store.queue_end("A", 0), 10)
        self.put("A", b"new", 9, properties=key)
        self.put("A", b"new" * 300, 21, properties=key)
        self.flush()
        self.dispatch()
        self.write_sectors(0, 512)
        self.lose_power()
        self.start()
        self.dispatch()
        assert self.store.index is not None
        offsets = [offset for offset, _ in self.entries("A")]
        self.assertEqual(len(offsets), 40)
        self.assertEqual(self.store.index.query("A", "k", 100, 0, 1 << 62), offsets[::-1])
