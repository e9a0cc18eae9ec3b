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
    def lock(self) -> StoreLock:
        lock = StoreLock(self.fs, self.root)
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
