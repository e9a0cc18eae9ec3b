"""The real file system: positional I/O, reserved blocks, small files replaced whole, locks a JVM respects."""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
from unittest import SkipTest

import numpy as np
from zope.interface.verify import verifyObject

from hatwisted.store.disk import filesystem
from hatwisted.store.disk.filesystem import IOV_LIMIT
from hatwisted.store.disk.wholefile import replace_file
from hatwisted.store.errors import StoreLocked
from hatwisted.store.interfaces import IFile, IFileSystem, ILock
from tests.support.filecase import FileCase


class FileTests(FileCase):
    def test_objects_provide_their_interfaces(self) -> None:
        verifyObject(IFileSystem, self.fs)
        verifyObject(IFile, self.open())
        lock = self.fs.lock(self.path("lock"))
        self.addCleanup(lock.release)
        verifyObject(ILock, lock)

    def test_buffers_go_one_behind_the_other_at_the_offset(self) -> None:
        file = self.open()
        self.assertEqual(file.pwrite([b"abc", bytearray(b"de"), memoryview(b"xfx")[1:2]], 4), 6)
        self.assertEqual(self.content(), b"\0\0\0\0abcdef")
        self.assertEqual(file.pread(100, 5), b"bcdef")
        self.assertEqual(file.pread(100, 50), b"")

    def test_nothing_to_write_is_no_error(self) -> None:
        self.assertEqual(self.open().pwrite([], 0), 0)
        self.assertEqual(self.open().pwrite([b""], 0), 0)
        self.assertEqual(self.content(), b"")

    def test_more_buffers_than_one_call_takes(self) -> None:
        pieces = [b"%04d" % number for number in range(2 * IOV_LIMIT + 5)]
        self.assertEqual(self.open().pwrite(pieces, 3), 4 * len(pieces))
        self.assertEqual(self.content()[3:], b"".join(pieces))

    def test_a_partial_write_is_finished(self) -> None:
        really = os.pwritev
        taken: list[int] = []

        def grudging(fd: int, buffers: list[bytes], offset: int) -> int:
            first = bytes(buffers[0])[:3]
            taken.append(offset)
            return really(fd, [first], offset)

        self.patch(filesystem.os, "pwritev", grudging)
        self.assertEqual(self.open().pwrite([b"abcdefg", b"", b"hi"], 1), 9)
        self.assertEqual(self.content(), b"\0abcdefghi")
        self.assertEqual(taken, [1, 1, 4, 7, 8])

    def test_a_write_that_gets_nowhere_is_an_error(self) -> None:
        self.patch(filesystem.os, "pwritev", lambda fd, buffers, offset: 0)
        self.assertEqual(self.assertRaises(OSError, self.open().pwrite, [b"a"], 0).errno, errno.EIO)

    def test_reserve_allocates_and_extend_does_not(self) -> None:
        self.open("reserved").reserve(1 << 20)
        self.open("sparse").extend(1 << 20)
        reserved, sparse = os.stat(self.path("reserved")), os.stat(self.path("sparse"))
        self.assertEqual((reserved.st_size, sparse.st_size), (1 << 20, 1 << 20))
        self.assertGreaterEqual(reserved.st_blocks * 512, 1 << 20)
        self.assertLess(sparse.st_blocks * 512, 1 << 16)

    def test_reserve_keeps_what_is_there(self) -> None:
        file = self.open()
        file.pwrite([b"head"], 0)
        file.reserve(100)
        self.assertEqual(self.content(), b"head" + bytes(96))

    def test_reserve_writes_zeros_where_the_file_system_cannot(self) -> None:
        def unsupported(fd: int, offset: int, size: int) -> None:
            raise OSError(errno.EOPNOTSUPP, "not supported")

        self.patch(filesystem.os, "posix_fallocate", unsupported)
        self.patch(filesystem, "ZERO_CHUNK", 1000)
        file = self.open()
        file.pwrite([b"head"], 0)
        file.reserve(2500)
        self.assertEqual(self.content(), b"head" + bytes(2496))

    def test_reserve_tells_a_full_disk(self) -> None:
        def full(fd: int, offset: int, size: int) -> None:
            raise OSError(errno.ENOSPC, "full")

        self.patch(filesystem.os, "posix_fallocate", full)
        self.assertEqual(self.assertRaises(OSError, self.open().reserve, 10).errno, errno.ENOSPC)

    def test_read_only_never_creates_and_never_writes(self) -> None:
        for create in (False, True):
            self.assertRaises(FileNotFoundError, self.fs.open, self.path("none"), create, read_only=True)
        self.open("there").pwrite([b"x"], 0)
        file = self.fs.open(self.path("there"), read_only=True)
        self.addCleanup(file.close)
        self.assertRaises(OSError, file.pwrite, [b"y"], 0)
        self.assertEqual(file.pread(9, 0), b"x")

    def test_open_without_create_wants_a_file(self) -> None:
        self.assertRaises(FileNotFoundError, self.fs.open, self.path("none"))

    def test_pages_and_the_file_are_one(self) -> None:
        file = self.open()
        file.reserve(16)
        pages = file.pages()
        pages.write(2, b"ab")
        self.assertEqual(file.pread(16, 0), b"\0\0ab" + bytes(12))
        pages.write_cells(4, np.array([2, 0]), np.array([0x0102, 0x0304], ">i2"))
        self.assertEqual(file.pread(16, 0), b"\0\0ab\3\4\0\0\1\2" + bytes(6))
        self.assertEqual(bytes(pages.view[:4]), b"\0\0ab")
        self.assertTrue(pages.view.readonly)
        self.assertIs(file.pages(), pages)
        file.close()
        self.assertRaises(ValueError, pages.view.tobytes)

    def test_cells_of_pages_that_end_inside_one(self) -> None:
        file = self.open()
        self.addCleanup(file.close)
        file.reserve(11)
        file.pages().write_cells(1, np.array([1]), np.array([0x01020304], ">i4"))
        self.assertEqual(file.pread(11, 0), bytes(5) + b"\1\2\3\4" + bytes(2))

    def test_closing_is_idempotent_and_a_closed_file_is_of_no_use(self) -> None:
        file = self.open()
        file.close()
        file.close()
        self.assertRaises(OSError, file.pwrite, [b"x"], 0)
        self.assertRaises(OSError, file.pread, 1, 0)
        self.assertRaises(ValueError, file.datasync)

    def test_closing_waits_for_a_sync_without_blocking(self) -> None:
        began, go_on = threading.Event(), threading.Event()
        descriptors: list[int] = []

        def slow(fd: int) -> None:
            began.set()
            go_on.wait(20)
            descriptors.append(os.fstat(fd).st_size)

        self.patch(filesystem.os, "fdatasync", slow)
        file = self.open()
        file.pwrite([b"12345"], 0)
        thread = threading.Thread(target=file.datasync)
        thread.start()
        began.wait(20)
        file.close()
        go_on.set()
        thread.join(20)
        # Closed while syncing: the descriptor was still ours until the sync was through.
        self.assertEqual(descriptors, [5])


class NameTests(FileCase):
    def test_listdir_is_sorted_and_a_missing_folder_is_empty(self) -> None:
        for name in ("b", "a", "c"):
            self.open(name)
        self.assertEqual(self.fs.listdir(self.folder), ["a", "b", "c"])
        self.assertEqual(self.fs.listdir(self.path("none")), [])

    def test_a_disk_may_be_mounted_right_there(self) -> None:
        os.mkdir(self.path("lost+found"))
        self.assertEqual(self.fs.listdir(self.folder), [])

    def test_remove_takes_files_and_empty_folders_and_nothing(self) -> None:
        self.open("file")
        self.fs.makedirs(self.path("a/b"))
        self.fs.makedirs(self.path("a/b"))
        self.fs.remove(self.path("file"))
        self.fs.remove(self.path("file"))
        self.assertRaises(OSError, self.fs.remove, self.path("a"))
        self.fs.remove(self.path("a/b"))
        self.assertEqual(self.fs.listdir(self.folder), ["a"])

    def test_write_replaces_a_small_file_whole(self) -> None:
        replace_file(self.fs, self.path("small"), b"one")
        replace_file(self.fs, self.path("small"), b"2")
        self.assertEqual(self.content("small"), b"2")
        self.assertEqual(self.fs.listdir(self.folder), ["small"])

    def test_a_failed_write_leaves_the_old_content_and_no_rest(self) -> None:
        replace_file(self.fs, self.path("small"), b"old")

        def failing(fd: int) -> None:
            raise OSError(errno.EIO, "no luck")

        self.patch(filesystem.os, "fdatasync", failing)
        self.assertRaises(OSError, replace_file, self.fs, self.path("small"), b"new")
        self.assertEqual(self.content("small"), b"old")
        self.assertEqual(self.fs.listdir(self.folder), ["small"])

    def test_replace_size_exists_mtime(self) -> None:
        replace_file(self.fs, self.path("a"), b"abc")
        self.fs.replace(self.path("a"), self.path("b"))
        self.assertEqual(self.fs.size(self.path("b")), 3)
        self.assertTrue(self.fs.exists(self.path("b")))
        self.assertFalse(self.fs.exists(self.path("a")))
        os.utime(self.path("b"), (1.0, 1234.5))
        self.assertEqual(self.fs.mtime(self.path("b")), 1234.5)

    def test_usage_counts_as_df_does(self) -> None:
        total, free = self.fs.usage(self.folder)
        status = os.statvfs(self.folder)
        self.assertTrue(0 < free < total <= status.f_blocks * status.f_frsize)


class HolderTests(FileCase):
    """Who is in the way of a lock; of another process, tests/system/store/test_locks.py."""

    def held(self, answer: bytes | OSError) -> int | None:
        """What the system is asked, and made of its answer."""

        def fcntl(fd: int, command: int, asked: bytes) -> bytes:
            self.assertEqual((fd, command), (5, filesystem.fcntl.F_GETLK))
            flock = struct.unpack("hhqqi", asked[: struct.calcsize("hhqqi")])
            self.assertEqual(flock, (filesystem.fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
            if isinstance(answer, OSError):
                raise answer
            return answer

        self.patch(filesystem.fcntl, "fcntl", fcntl)
        return filesystem.lock_holder(5)

    def test_the_pid_that_the_system_gives(self) -> None:
        if not sys.platform.startswith("linux"):
            raise SkipTest("asks Linux")
        taken, free = filesystem.fcntl.F_WRLCK, filesystem.fcntl.F_UNLCK
        for kind, pid, found in (
            (taken, 4711, 4711),
            (taken, 1, 1),
            (taken, 0, None),
            (taken, -1, None),
            (free, 4711, None),
        ):
            self.assertEqual(self.held(struct.pack("hhqqi0q", kind, 0, 0, 1, pid)), found)
        self.assertIsNone(self.held(b"too short"))
        self.assertIsNone(self.held(OSError(errno.EBADF, "Bad file descriptor")))

    def test_a_lock_that_another_process_has_names_it_if_its_known(self) -> None:
        def taken(*_: object) -> None:
            raise OSError(codes[0], "planned")

        self.patch(filesystem.fcntl, "lockf", taken)
        codes = [errno.EACCES, errno.EAGAIN, errno.ENOLCK]
        while len(codes) > 1:
            for pid, words in ((4711, "process 4711"), (None, "another process")):
                self.patch(filesystem, "lock_holder", lambda fd, pid=pid: pid)
                refused = self.assertRaises(StoreLocked, self.fs.lock, self.path("lock"))
                self.assertIn(f" {words}", str(refused))
            codes.pop(0)
        self.assertEqual(self.assertRaises(OSError, self.fs.lock, self.path("lock")).errno, errno.ENOLCK)

    def test_elsewhere_nobody_is_asked(self) -> None:
        self.patch(sys, "platform", "darwin")
        self.assertIsNone(filesystem.lock_holder(-1))

    def test_of_a_file_that_nobody_has_locked(self) -> None:
        path = self.path("free")
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, fd)
        self.assertIsNone(filesystem.lock_holder(fd))
