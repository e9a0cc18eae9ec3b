"""Locks of a store's folder between processes, a JVM's among them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from hatwisted.store.disk import filesystem
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.errors import StoreLocked
from hatwisted.store.lifecycle.storelock import AbortFile, StoreLock
from tests.support.filecase import FileCase

HOLD = """
    import fcntl, os, sys
    fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)   # FileChannel.tryLock(0, 1, false)
    print("held", flush=True)
    sys.stdin.read()
"""
TRY = """
    import sys
    from hatwisted.store.disk.filesystem import PosixFileSystem
    from hatwisted.store.errors import StoreLocked
    try:
        PosixFileSystem().lock(sys.argv[1])
        print("granted")
    except StoreLocked as error:
        print(error)
"""


class LockTests(FileCase):
    """`lock` holds against this process, against others, and against what a JVM takes."""

    def setUp(self) -> None:
        super().setUp()
        self.lock_path = self.path("lock")

    def start(self, program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), self.lock_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

        def end() -> None:
            process.communicate()

        self.addCleanup(end)
        return process

    def other_process_tries(self) -> str:
        return self.start(TRY).communicate()[0].strip()

    def test_the_file_says_lock(self) -> None:
        self.fs.lock(self.lock_path).release()
        self.fs.lock(self.lock_path).release()
        self.assertEqual(self.content("lock"), b"lock")

    def test_a_second_lock_in_this_process_is_refused_and_harms_nothing(self) -> None:
        lock = self.fs.lock(self.lock_path)
        self.addCleanup(lock.release)
        for path in (self.lock_path, os.path.join(self.folder, ".", "lock")):
            error = self.assertRaises(StoreLocked, PosixFileSystem().lock, path)
            self.assertIn(f"this process (pid {os.getpid()})", str(error))
        self.assertIn(f"process {os.getpid()};", self.other_process_tries())

    def test_a_hard_link_is_the_same_lock(self) -> None:
        lock = self.fs.lock(self.lock_path)
        self.addCleanup(lock.release)
        os.link(self.lock_path, self.path("link"))
        self.assertRaises(StoreLocked, self.fs.lock, self.path("link"))

    def test_another_process_is_refused_until_release(self) -> None:
        lock = self.fs.lock(self.lock_path)
        self.assertIn(f"{self.lock_path} is held by process {os.getpid()}; ", self.other_process_tries())
        lock.release()
        lock.release()
        self.assertEqual(self.other_process_tries(), "granted")

    def test_a_lock_as_a_jvm_takes_it_is_respected_and_its_holder_named(self) -> None:
        holder = self.start(HOLD)
        assert holder.stdout is not None
        self.assertEqual(holder.stdout.readline(), "held\n")
        error = self.assertRaises(StoreLocked, self.fs.lock, self.lock_path)
        self.assertIn(f"held by process {holder.pid};", str(error))
        holder.communicate()
        self.fs.lock(self.lock_path).release()

    def test_a_refused_try_leaves_no_descriptor_behind(self) -> None:
        holder = self.start(HOLD)
        assert holder.stdout is not None
        holder.stdout.readline()
        opened: list[int] = []
        really = os.open

        def watched(path: str, flags: int, mode: int = 0o777) -> int:
            opened.append(really(path, flags, mode))
            return opened[-1]

        self.patch(filesystem.os, "open", watched)
        self.assertRaises(StoreLocked, self.fs.lock, self.lock_path)
        self.assertEqual(len(opened), 1)
        self.assertRaises(OSError, os.fstat, opened[0])


OTHER_BROKER = """
    import os
    import sys
    from hatwisted.store.disk.filesystem import PosixFileSystem
    from hatwisted.store.lifecycle.storelock import AbortFile, StoreLock
    fs = PosixFileSystem()
    StoreLock(fs, sys.argv[1], sys.argv[1] + "/commitlog").acquire()
    AbortFile(fs, sys.argv[1], os.getpid).create()
    print("up", flush=True)
    sys.stdin.read()
"""


class StoreLockTests(FileCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = self.folder

    def lock(self) -> StoreLock:
        lock = StoreLock(self.fs, self.root, self.root + "/commitlog")
        self.addCleanup(lock.release)
        return lock

    def test_killed_brokers_lock_is_gone_and_its_abort_file_stays(self) -> None:
        other = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(OTHER_BROKER), self.root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.addCleanup(other.communicate)
        assert other.stdout is not None
        self.assertEqual(other.stdout.readline(), b"up\n")
        lock, abort = self.lock(), AbortFile(self.fs, self.root, os.getpid)
        self.assertIn(f"held by process {other.pid};", str(self.assertRaises(StoreLocked, lock.acquire)))
        other.kill()
        other.wait()
        lock.acquire()
        self.assertTrue(abort.exists)
        self.assertEqual(self.fs.read(os.path.join(self.root, "abort")), b"%d" % other.pid)
