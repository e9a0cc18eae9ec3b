"""The file sequence: what's loaded and refused, bytes in and out, files made whole or not at all."""

from __future__ import annotations

import errno
import os
import threading

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.errors import StoreError, StoreFull, WrongFile
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.openfiles import OpenFiles
from hatwisted.wire.layout import file_name
from tests.support.faultyfs import FaultyFileSystem
from tests.support.golden import GOLDEN
from tests.support.manualworker import ManualWorker

SIZE = 100


class QueueCase(SynchronousTestCase):
    """A folder of 100-byte files on a file system that can fail."""

    def setUp(self) -> None:
        self.fs = FaultyFileSystem()
        self.root = os.path.abspath(self.mktemp())
        self.folder = os.path.join(self.root, "commitlog")
        os.makedirs(self.root)
        self.queue = self.load()

    def load(self, **options: bool) -> FileQueue:
        queue = FileQueue(self.fs, self.folder, SIZE, **options)
        queue.load()
        self.addCleanup(queue.close)
        return queue

    def put_file(self, name: str, size: int = SIZE) -> str:
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(bytes(size))
        return path

    def names(self) -> list[str]:
        return self.fs.listdir(self.folder)

    def made(self, *starts: int) -> FileQueue:
        for start in starts:
            self.queue.create(start)
        return self.queue


class LoadTests(QueueCase):
    def test_nothing_there_is_an_empty_sequence(self) -> None:
        self.assertEqual(self.queue.starts, [])
        self.assertEqual((self.queue.min_offset, self.queue.capacity_end), (0, 0))
        self.assertFalse(os.path.exists(self.folder))

    def test_B86_golden_commit_log_loads(self) -> None:
        queue = FileQueue(self.fs, os.path.join(GOLDEN, "master", "commitlog"), 65536, read_only=True)
        queue.load()
        self.addCleanup(queue.close)
        self.assertEqual((queue.starts, queue.capacity_end), ([0, 65536], 131072))
        self.assertEqual(queue.read(227, 8).hex(), "000000d3daa320a7")
        self.assertEqual(queue.read(65373, 1000), bytes.fromhex("000000a3cbd43194") + bytes(155))

    def test_no_file_begins_as_late_as_that(self) -> None:
        self.put_file(file_name((1 << 62) // 100 * 100 + 100))
        self.assertIn("begins as late", str(self.assertRaises(WrongFile, self.load)))

    def test_B86_another_length_is_refused_and_named(self) -> None:
        for name in (file_name(0), file_name(100)):
            self.put_file(name)
        for size in (0, 99, 101):
            path = self.put_file(file_name(100), size)
            self.put_file(file_name(200))
            error = self.assertRaises(WrongFile, self.load)
            self.assertIn(f"{path} has {size} bytes, the configured file size is 100", str(error))

    def test_a_zero_length_last_file_is_removed(self) -> None:
        self.put_file(file_name(0))
        self.put_file(file_name(100), 0)
        self.assertEqual(self.load().starts, [0])
        self.assertEqual(self.names(), [file_name(0)])

    def test_read_only_passes_over_a_zero_length_last_file(self) -> None:
        self.put_file(file_name(0))
        self.put_file(file_name(100), 0)
        self.assertEqual(self.load(read_only=True).starts, [0])
        self.assertEqual(len(self.names()), 2)

    def test_read_only_files_cannot_be_written(self) -> None:
        self.put_file(file_name(0))
        self.assertRaises(OSError, self.load(read_only=True).write, 0, [b"x"])

    def test_a_gap_is_refused_and_named(self) -> None:
        for start in (100, 200, 400):
            self.put_file(file_name(start))
        words = f"follows {file_name(200)}: {file_name(300)} is missing between them"
        refused = self.assertRaises(WrongFile, self.load)
        self.assertEqual(str(refused), f"{os.path.join(self.folder, file_name(400))} {words}")

    def test_strange_names_are_refused(self) -> None:
        for name in ("12", "lost", file_name(150), "0000000000000000010x"):
            path = self.put_file(name)
            self.assertIn(path, str(self.assertRaises(WrongFile, self.load)))
            os.unlink(path)

    def test_what_a_crash_left_half_made_is_cleared(self) -> None:
        for rest in (".new", ".next"):
            with open(self.folder + rest, "wb") as file:
                file.write(b"half")
        self.load(read_only=True)
        self.assertEqual(len(self.fs.listdir(self.root)), 2)
        self.load()
        self.assertEqual(self.fs.listdir(self.root), [])


class BytesTests(QueueCase):
    def test_write_and_read_within_a_file(self) -> None:
        queue = self.made(200, 300)
        self.assertEqual(queue.write(305, [b"abc", memoryview(b"def")]), 6)
        self.assertEqual(queue.read(304, 4), b"\0abc")
        self.assertEqual(queue.read(395, 50), bytes(5))
        self.assertEqual(queue.write(390, [b"x" * 10]), 10)

    def test_a_write_across_a_file_end_is_our_mistake(self) -> None:
        queue = self.made(0, 100)
        self.assertRaises(ValueError, queue.write, 95, [b"abc", b"def"])
        self.assertEqual(queue.read(95, 5), bytes(5))

    def test_an_offset_no_file_holds(self) -> None:
        queue = self.made(100)
        for offset in (0, 99, 200):
            missing = self.assertRaises(LookupError, queue.read, offset, 1)
            self.assertIn(f"no file of {self.folder} holds offset {offset}", str(missing))
            self.assertRaises(LookupError, queue.write, offset, [b"x"])

    def test_capacity(self) -> None:
        queue = self.made(200, 300)
        self.assertEqual((queue.min_offset, queue.capacity_end), (200, 400))
        self.assertEqual(
            [queue.capacity_end_of(at) for at in (199, 200, 299, 300, 399, 400)],
            [199, 300, 300, 400, 400, 400],
        )
        self.assertTrue(queue.has(300))
        self.assertFalse(queue.has(350))

    def test_a_full_disk_under_a_sparse_file_is_StoreFull(self) -> None:
        queue = self.made(0)
        self.fs.fail("pwrite", error=errno.ENOSPC)
        self.assertIn(file_name(0), str(self.assertRaises(StoreFull, queue.write, 0, [b"x"])))
        self.assertEqual(queue.write(0, [b"x"]), 1)

    def test_another_write_error_stays_what_it_is(self) -> None:
        queue = self.made(0)
        self.fs.fail("pwrite", error=errno.EIO)
        self.assertEqual(self.assertRaises(OSError, queue.write, 0, [b"x"]).errno, errno.EIO)


class SyncTests(QueueCase):
    def synced(self, begin: int, end: int) -> list[str]:
        self.fs.calls.clear()
        self.queue.datasync(begin, end)
        return [
            os.path.basename(call.path)
            for call in self.fs.calls
            if call.operation in ("datasync", "sync_folder")
        ]

    def test_exactly_the_files_of_the_range(self) -> None:
        self.made(100, 200, 300)
        self.queue.datasync(100, 100)
        a, b, c = (file_name(start) for start in (100, 200, 300))
        for begin, end, expected in [
            (100, 101, [a]),
            (100, 200, [a]),
            (150, 201, [a, b]),
            (199, 400, [a, b, c]),
            (200, 200, []),
            (0, 1000, [a, b, c]),
            (400, 500, []),
        ]:
            self.assertEqual(self.synced(begin, end), expected, (begin, end))

    def test_new_names_are_made_durable_once(self) -> None:
        self.made(0)
        parent = os.path.basename(self.root)
        self.assertEqual(self.synced(0, 0), ["commitlog", parent])
        self.assertEqual(self.synced(0, 0), [])
        self.made(100)
        self.assertEqual(self.synced(0, 0), ["commitlog", parent])

    def test_names_are_tried_again_after_a_failure(self) -> None:
        self.made(0)
        self.fs.fail("sync_folder")
        self.assertRaises(OSError, self.queue.datasync, 0, 1)
        self.assertEqual(len(self.synced(0, 0)), 2)

    def test_a_file_removed_meanwhile_is_passed_over(self) -> None:
        self.made(0, 100, 200)
        self.queue.datasync(0, 0)
        os.unlink(os.path.join(self.folder, file_name(100)))
        self.assertEqual(self.synced(0, 300), [file_name(0), file_name(200)])
        self.assertEqual(self.names(), [file_name(0), file_name(200)], "and isn't made again")

    def test_a_file_closed_meanwhile_is_synced_all_the_same(self) -> None:
        open_files = OpenFiles(self.fs, limit=1)
        queue = FileQueue(self.fs, self.folder, SIZE, open_files=open_files)
        queue.create(0)
        queue.write(0, [b"x"])
        path = os.path.join(self.folder, file_name(0))
        stale = open_files.peek(path)
        assert stale is not None
        stale.close()
        self.fs.calls.clear()
        queue.datasync(0, 1)
        self.assertEqual(self.fs.count("datasync", path), 2)

    def test_a_failed_sync_is_reported(self) -> None:
        self.made(0)
        self.fs.fail("datasync", error=errno.EIO)
        self.assertEqual(self.assertRaises(OSError, self.queue.datasync, 0, 1).errno, errno.EIO)

    def test_writing_goes_on_while_another_thread_syncs(self) -> None:
        self.made(0)
        self.queue.write(0, [b"a"])
        with self.fs.stall("datasync") as stall:
            thread = threading.Thread(target=self.queue.datasync, args=(0, 1))
            thread.start()
            self.assertTrue(stall.entered.wait(20))
            self.queue.write(1, [b"b"])
            self.queue.delete_from(0)
        thread.join(20)
        self.assertFalse(thread.is_alive())
        self.assertEqual(self.names(), [])


class CreateTests(QueueCase):
    def test_B86_full_length_and_blocks_from_the_start(self) -> None:
        self.made(300)
        status = os.stat(os.path.join(self.folder, "00000000000000000300"))
        self.assertEqual(status.st_size, SIZE)
        self.assertGreater(status.st_blocks, 0)
        self.assertEqual(self.queue.starts, [300])
        self.assertEqual(self.fs.listdir(self.root), ["commitlog"])

    def test_sparse_files_take_no_blocks(self) -> None:
        queue = FileQueue(self.fs, self.folder, 1 << 20, reserve=False)
        queue.create(0)
        status = os.stat(os.path.join(self.folder, file_name(0)))
        self.assertEqual((status.st_size, status.st_blocks), (1 << 20, 0))

    def test_only_the_next_file_may_follow(self) -> None:
        queue = self.made(100)
        for start in (0, 150, 300):
            self.assertRaises(ValueError, queue.create, start)
        queue.create(100)
        self.assertEqual(self.names(), [file_name(100)])

    def test_B90_a_full_disk_is_StoreFull_and_leaves_nothing_behind(self) -> None:
        self.made(0)
        for operation, error in [
            ("reserve", errno.ENOSPC),
            ("reserve", errno.EDQUOT),
            ("open", errno.ENOSPC),
            ("replace", errno.ENOSPC),
        ]:
            self.fs.fail(operation, error=error, path="commitlog")
            self.assertIn(file_name(100), str(self.assertRaises(StoreFull, self.queue.create, 100)))
            self.assertEqual((self.names(), self.queue.starts), ([file_name(0)], [0]))
        self.queue.create(100)
        self.assertEqual(self.load().starts, [0, 100])

    def test_another_error_is_no_full_disk_but_leaves_nothing_either(self) -> None:
        self.fs.fail("reserve", error=errno.EIO)
        self.assertEqual(self.assertRaises(OSError, self.queue.create, 0).errno, errno.EIO)
        self.assertEqual(self.fs.listdir(self.root), ["commitlog"])
        self.assertEqual(self.names(), [])


class PrepareTests(QueueCase):
    def setUp(self) -> None:
        super().setUp()
        self.worker = ManualWorker()

    def test_the_file_appears_whole_when_the_worker_is_done(self) -> None:
        self.made(0)
        done = self.queue.prepare(100, self.worker)
        self.assertEqual(self.queue.starts, [0])
        self.worker.work()
        self.successResultOf(done)
        self.assertEqual((self.queue.starts, self.names()), ([0, 100], [file_name(0), file_name(100)]))
        self.assertEqual(self.queue.read(100, SIZE), bytes(SIZE))

    def test_one_that_exists_is_ready_at_once(self) -> None:
        self.made(0)
        self.assertIsNone(self.successResultOf(self.queue.prepare(0, self.worker)))
        self.assertEqual(len(self.worker), 0)

    def test_needed_sooner_it_is_made_at_once_and_the_late_one_dropped(self) -> None:
        self.made(0)
        done = self.queue.prepare(100, self.worker)
        self.queue.create(100)
        self.queue.write(100, [b"kept"])
        self.worker.work()
        self.successResultOf(done)
        self.assertEqual(self.queue.read(100, 4), b"kept")
        self.assertEqual(self.fs.listdir(self.root), ["commitlog"])

    def test_made_for_a_place_that_is_gone_it_is_dropped(self) -> None:
        self.made(0, 100)
        done = self.queue.prepare(200, self.worker)
        self.queue.delete_from(100)
        self.worker.work()
        self.successResultOf(done)
        self.assertEqual((self.queue.starts, self.names()), ([0], [file_name(0)]))
        self.assertEqual(self.fs.listdir(self.root), ["commitlog"])

    def test_made_to_follow_files_that_are_all_gone_it_is_dropped(self) -> None:
        self.made(0)
        done = self.queue.prepare(100, self.worker)
        self.queue.delete_from(0)
        self.worker.work()
        self.successResultOf(done)
        self.assertEqual((self.queue.starts, self.names()), ([], []))

    def test_after_close_it_is_dropped(self) -> None:
        self.made(0)
        self.queue.prepare(100, self.worker)
        self.queue.close()
        self.worker.work()
        self.assertEqual(self.names(), [file_name(0)])

    def test_a_full_disk_is_reported_and_can_be_tried_again(self) -> None:
        self.made(0)
        self.fs.fail("reserve", error=errno.ENOSPC)
        done = self.queue.prepare(100, self.worker)
        self.worker.work()
        self.failureResultOf(done, StoreFull)
        self.successResultOf(self.queue.prepare(100, InlineWorker()))
        self.assertEqual(self.queue.starts, [0, 100])

    def test_one_at_a_time(self) -> None:
        self.made(0)
        first = self.queue.prepare(100, self.worker)
        self.failureResultOf(self.queue.prepare(100, self.worker), StoreError)
        self.worker.work()
        self.successResultOf(first)


class RemoveTests(QueueCase):
    def test_delete_before_takes_only_files_wholly_below(self) -> None:
        queue = self.made(100, 200, 300)
        for offset, count, left in [(100, 0, 100), (199, 0, 100), (200, 1, 200), (399, 1, 300)]:
            self.assertEqual((queue.delete_before(offset), queue.min_offset), (count, left), offset)
        self.assertEqual(self.names(), [file_name(300)])
        self.assertRaises(LookupError, queue.read, 299, 1)

    def test_detach_gives_the_paths_to_remove_oldest_first(self) -> None:
        queue = self.made(100, 200, 300)
        paths = queue.detach_before(1000, limit=2)
        self.assertEqual([os.path.basename(path) for path in paths], [file_name(100), file_name(200)])
        self.assertEqual((queue.starts, len(self.names())), ([300], 3))

    def test_detached_files_can_be_taken_back(self) -> None:
        queue = self.made(100, 200, 300, 400)
        queue.write(250, [b"x"])
        paths = queue.detach_before(400)
        os.unlink(paths[0])
        queue.restore(paths[1:])
        self.assertEqual((queue.starts, queue.read(250, 1)), ([200, 300, 400], b"x"))
        self.assertEqual(queue.detach_before(400), paths[1:])

    def test_delete_from_takes_the_newest_first(self) -> None:
        queue = self.made(0, 100, 200, 300)
        self.fs.calls.clear()
        self.assertEqual(queue.delete_from(101), 2)
        self.assertEqual(
            [os.path.basename(call.path) for call in self.fs.calls if call.operation == "remove"],
            [file_name(300), file_name(200)],
        )
        self.assertEqual((queue.starts, queue.capacity_end), ([0, 100], 200))
        self.assertEqual(queue.delete_from(0), 2)
        self.assertEqual((queue.starts, self.names()), ([], []))

    def test_file_mtime(self) -> None:
        queue = self.made(0)
        os.utime(os.path.join(self.folder, file_name(0)), (1, 77))
        self.assertEqual(queue.file_mtime(0), 77)


class OpenFilesTests(QueueCase):
    def test_the_least_recently_used_file_is_closed_beyond_the_limit(self) -> None:
        paths = [self.put_file(file_name(start)) for start in (0, 100, 200)]
        files = OpenFiles(self.fs, limit=2)
        first, second = files.get(paths[0]), files.get(paths[1])
        self.assertIs(files.get(paths[0]), first)
        files.get(paths[2])
        self.assertEqual(len(files), 2)
        self.assertIs(files.peek(paths[0]), first)
        self.assertIsNone(files.peek(paths[1]))
        self.assertRaises(OSError, second.pread, 1, 0)

    def test_out_of_descriptors_half_of_them_are_given_back(self) -> None:
        paths = [self.put_file(file_name(start)) for start in range(0, 500, 100)]
        files = OpenFiles(self.fs)
        for path in paths[:4]:
            files.get(path)
        self.fs.fail("open", error=errno.EMFILE)
        self.assertEqual(files.get(paths[4]).pread(1, 0), b"\0")
        self.assertEqual([files.peek(path) is not None for path in paths], [False, False, False, True, True])

    def test_without_any_to_give_back_the_error_is_reported(self) -> None:
        path = self.put_file(file_name(0))
        self.fs.fail("open", error=errno.EMFILE)
        self.assertEqual(self.assertRaises(OSError, OpenFiles(self.fs).get, path).errno, errno.EMFILE)

    def test_queues_share_them(self) -> None:
        shared = OpenFiles(self.fs, limit=1)
        queues = [FileQueue(self.fs, f"{self.folder}{n}", SIZE, open_files=shared) for n in range(2)]
        for queue in queues:
            queue.create(0)
        for round_ in range(3):
            for queue in queues:
                queue.write(round_, [b"x"])
        self.assertEqual([queue.read(0, 4) for queue in queues], [b"xxx\0"] * 2)
        self.assertEqual(len(shared), 1)
        queues[1].close()
        self.assertEqual(len(shared), 0)


class ClosedTests(QueueCase):
    """Nobody would close again what is opened after a close."""

    def test_nothing_is_read_or_written_any_more(self) -> None:
        queue = self.made(0)
        queue.close()
        for use in (lambda: queue.read(0, 1), lambda: queue.data_from(0), lambda: queue.write(0, [b"x"])):
            self.assertRaises(LookupError, use)

    def test_nothing_is_called_durable(self) -> None:
        queue = self.made(0)
        queue.write(0, [b"x"])
        queue.close()
        self.assertRaises(StoreError, queue.datasync, 0, 1)

    def test_nothing_is_called_durable_that_was_being_synced(self) -> None:
        queue = self.made(0, SIZE)
        synced = self.fs.sync_folder

        def sync_folder(path: str) -> None:
            synced(path)
            queue.close()

        self.patch(self.fs, "sync_folder", sync_folder)
        self.assertRaises(StoreError, queue.datasync, 0, SIZE)
