"""`hatwisted log index`: what is built equals what a real broker wrote; what can't be built isn't begun."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.log import logcommand
from hatwisted.store.disk.filesystem import PosixFile, PosixFileSystem
from tests.support.clistores import delete_queue, golden_copy, overwrite, run, snapshot, start_store
from tests.support.golden import GOLDEN, GOLDEN_END

QUEUES, INDEX = "consumequeue", "index"


def contents(folder: Path) -> dict[str, bytes]:
    """Relative path -> content of every file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def no_room(file: PosixFile, size: int) -> None:
    """What reserving says on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class RebuildTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = golden_copy(self.mktemp())

    def rebuild(self, *options: object, code: int = 0) -> str:
        result = run("index", self.store, *options)
        self.assertEqual(result.exit_code, code, result.output)
        suffixes = {path.suffix for path in self.store.iterdir()}
        self.assertEqual(suffixes - {".deleted"}, {""}, "something was left behind")
        return result.output

    def assertGolden(self) -> None:
        self.assertEqual(contents(self.store / QUEUES), contents(GOLDEN / "master" / QUEUES))
        (built,), (golden,) = (
            contents(self.store / INDEX).values(),
            contents(GOLDEN / "master" / INDEX).values(),
        )
        self.assertEqual(built, golden)

    def test_everything_lost_is_built_as_rocketmq_built_it(self) -> None:
        shutil.rmtree(self.store / QUEUES)
        shutil.rmtree(self.store / INDEX)
        sizes = ("--queue-file-size", 2000, "--index-slots", 1000, "--index-items", 4000)
        report = json.loads(self.rebuild("--json", *sizes))
        self.assertEqual((report["end"], report["queues"], report["queueEntries"]), (GOLDEN_END, 18, 246))
        self.assertGolden()

    def test_deleted_queue_is_not_built(self) -> None:
        delete_queue(self.store)
        self.rebuild()
        self.assertFalse((self.store / "consumequeue" / "TopicA" / "0").exists())
        self.assertTrue((self.store / "consumequeue" / "TopicA" / "1").exists())

    def test_sizes_are_taken_from_what_is_there(self) -> None:
        shutil.rmtree(self.store / QUEUES / "TopicA")
        overwrite_file = self.store / QUEUES / "TopicB" / "0" / ("0" * 20)
        overwrite_file.write_bytes(bytes(2000))
        self.assertIn("built up to offset 111713: 246 entries in 18 queues", self.rebuild())
        self.assertGolden()

    def test_without_index(self) -> None:
        before = contents(self.store / INDEX)
        self.rebuild("--no-index")
        self.assertEqual(contents(self.store / INDEX), before)

    def test_torn_tail_is_no_obstacle(self) -> None:
        overwrite(self.store, GOLDEN_END, b"\0\0\1\0\xda\xa3\x20\xa7half a record")
        self.rebuild()
        self.assertGolden()

    def test_damaged_log_changes_nothing(self) -> None:
        overwrite(self.store, 4962, b"????")
        before = snapshot(self.store)
        self.assertIn("commit log damaged at offset 4958", self.rebuild(code=2))
        after = snapshot(self.store)
        after.pop("lock")
        self.assertEqual(after, before)

    def test_index_files_that_dont_tell_their_shape_are_said_so_and_replaced_by_one_that_is_given(
        self,
    ) -> None:
        for path in (self.store / INDEX).iterdir():
            path.write_bytes(path.read_bytes()[:-7])
        before = contents(self.store / INDEX)
        told = self.rebuild(code=2)
        self.assertIn("its files don't tell how many slots and items they have", told)
        self.assertEqual(contents(self.store / INDEX), before)
        self.rebuild("--index-slots", 1000, "--index-items", 4000)
        self.assertGolden()

    def test_what_root_builds_in_a_users_store_is_that_users(self) -> None:
        """The broker runs as that user, and files are its owner's alone."""
        done: list[tuple[str, int, bool]] = []

        def note(what: str) -> Callable[[int], None]:
            return lambda number: done.append((what, number, (self.store / QUEUES).exists()))

        shutil.rmtree(self.store / QUEUES)
        self.patch(logcommand, "_owner", lambda path: (4711, 4712))
        for name, id_ in (("geteuid", 0), ("getegid", 7)):
            self.patch(os, name, lambda id_=id_: id_)
        for name in ("seteuid", "setegid"):
            self.patch(os, name, note(name))
        self.rebuild("--queue-file-size", 2000)
        begun = [("setegid", 4712, False), ("seteuid", 4711, False)]
        self.assertEqual(done, [*begun, ("seteuid", 0, True), ("setegid", 7, True)])

    def test_leavings_of_an_interrupted_run_are_removed(self) -> None:
        shutil.copytree(self.store / QUEUES / "TopicB", self.store / "new.reindex" / QUEUES / "TopicZ")
        self.rebuild()
        self.assertGolden()

    def test_store_in_use_is_refused(self) -> None:
        lock = PosixFileSystem().lock(str(self.store / "lock"))
        self.addCleanup(lock.release)
        self.assertIn("is held by this process", self.rebuild(code=2))

    def test_queues_begin_in_mid_stream_when_the_first_log_file_has_expired(self) -> None:
        (self.store / "commitlog" / ("0" * 20)).unlink()
        self.rebuild()
        result = run("check", self.store)
        self.assertEqual(result.exit_code, 0, result.output)
        built, golden = (contents(folder / QUEUES) for folder in (self.store, GOLDEN / "master"))
        self.assertEqual(built.keys(), golden.keys())
        for name, data in golden.items():
            self.assertEqual(len(built[name].rstrip(b"\0")), len(data.rstrip(b"\0")), name)

    def test_B95_next_queue_offset_survives_when_all_records_of_a_queue_have_expired(self) -> None:
        """Without the first log file, a queue that lies in it alone keeps counting where it was. What it says
        about the log that is there can't be true and goes."""
        (self.store / "commitlog" / ("0" * 20)).unlink()
        expired = b"".join(struct.pack(">qiq", 100 * n, 100, 7) for n in range(5))
        untrue = struct.pack(">qiq", 70000, 100, 7)
        queue = self.store / QUEUES / "Expired" / "3" / ("0" * 20)
        queue.parent.mkdir(parents=True)
        queue.write_bytes((expired + untrue).ljust(2000, b"\0"))
        self.assertEqual(json.loads(self.rebuild("--json"))["carriedOver"], 1)
        self.assertEqual(queue.read_bytes(), expired.ljust(2000, b"\0"))
        self.assertEqual(run("check", self.store).exit_code, 0)

    def test_full_index_file_is_followed_by_another(self) -> None:
        shutil.rmtree(self.store / INDEX)
        self.rebuild("--index-slots", 100, "--index-items", 400)
        self.assertEqual(len(list((self.store / INDEX).iterdir())), 2)
        result = run("check", self.store)
        self.assertEqual(
            (result.exit_code, "679 items compared, files: 2" in result.output), (0, True), result.output
        )

    def test_disk_without_room_leaves_the_store_as_it_was(self) -> None:
        before = snapshot(self.store)
        self.patch(PosixFile, "reserve", no_room)
        self.assertIn("no room", self.rebuild(code=2))
        after = snapshot(self.store)
        after.pop("lock")
        self.assertEqual(after, before)

    def test_built_store_starts_and_has_nothing_left_to_do(self) -> None:
        self.rebuild()
        report = start_store(self.store)
        self.assertEqual((report.end, report.torn_bytes, report.index_items_cut), (GOLDEN_END, 0, 0))
        self.assertGolden()
