"""Who owns a store folder, and whether it was left in order."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.errors import StoreLocked
from hatwisted.store.lifecycle.storelock import AbortFile, StoreLock
from tests.support.faultyfs import FaultyFileSystem


class FolderCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.fs = FaultyFileSystem()
        self.root = os.path.abspath(self.mktemp())


class StoreLockTests(FolderCase):
    def lock(self, log_folder: str = "") -> StoreLock:
        lock = StoreLock(self.fs, self.root, log_folder or os.path.join(self.root, "commitlog"))
        self.addCleanup(lock.release)
        return lock

    def test_the_folder_is_made_and_the_file_is_rocketmqs(self) -> None:
        self.lock().acquire()
        self.assertEqual(self.fs.listdir(self.root), ["lock"])

    def test_a_second_store_of_this_process_is_refused_until_release(self) -> None:
        first, second = self.lock(), self.lock()
        first.acquire()
        first.acquire()
        self.assertRaises(StoreLocked, second.acquire)
        self.assertEqual((first.held, second.held), (True, False))
        first.release()
        first.release()
        second.acquire()
        self.assertEqual((first.held, second.held), (False, True))
        with open(os.path.join(self.root, "lock"), "rb") as file:
            self.assertEqual(file.read(), b"lock")

    def other_root(self, log_folder: str) -> StoreLock:
        """A store elsewhere with this log."""
        lock = StoreLock(self.fs, os.path.abspath(self.mktemp()), log_folder)
        self.addCleanup(lock.release)
        return lock

    def test_two_stores_of_one_log_are_one_too_many(self) -> None:
        for log_folder in (os.path.join(self.root, "commitlog"), os.path.abspath(self.mktemp())):
            first, second = self.lock(log_folder), self.other_root(log_folder)
            first.acquire()
            self.assertRaises(StoreLocked, second.acquire)
            self.assertFalse(second.held)
            first.release()
            second.acquire()
            self.assertRaises(StoreLocked, first.acquire)
            second.release()
            first.acquire()
            first.release()

    def test_another_name_of_the_same_folder_is_the_same(self) -> None:
        log_folder = os.path.join(self.root, "log")
        os.makedirs(log_folder)
        other_name = os.path.abspath(self.mktemp())
        os.symlink(log_folder, other_name)
        self.lock(log_folder).acquire()
        self.assertRaises(StoreLocked, self.other_root(other_name).acquire)

    def test_logs_beside_each_other_are_two(self) -> None:
        folder = os.path.abspath(self.mktemp())
        self.lock(os.path.join(folder, "a-log")).acquire()
        self.other_root(os.path.join(folder, "b-log")).acquire()
        self.assertEqual(self.fs.listdir(folder), ["a-log.lock", "b-log.lock"])


class AbortFileTests(FolderCase):
    def test_there_while_running_gone_after_a_clean_exit(self) -> None:
        abort = AbortFile(self.fs, self.root, process_id=lambda: 77)
        self.assertFalse(abort.exists)
        abort.create()
        self.assertTrue(AbortFile(self.fs, self.root, os.getpid).exists)
        self.assertEqual(self.fs.read(os.path.join(self.root, "abort")), b"77")
        abort.remove()
        self.assertFalse(abort.exists)
        self.assertEqual(self.fs.listdir(self.root), [])

    def test_an_empty_one_as_4x_leaves_it_counts_as_well(self) -> None:
        os.makedirs(self.root)
        with open(os.path.join(self.root, "abort"), "wb"):
            pass
        self.assertTrue(AbortFile(self.fs, self.root, os.getpid).exists)

    def test_both_ends_are_made_durable(self) -> None:
        abort = AbortFile(self.fs, self.root, os.getpid)
        abort.create()
        self.assertEqual(self.fs.count("replace", "abort"), 1)
        abort.remove()
        self.assertEqual(self.fs.calls[-1][:2], ("sync_folder", self.root))
