"""Folders that are stores and folders that aren't: one clear error that names the file."""

from __future__ import annotations

import pickle
from dataclasses import replace
from importlib.util import find_spec
from os import chdir, getcwd
from os.path import relpath
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import TestCase, skipUnless

from hatwisted.pipeline.decode.logreader import read_arrow, read_split
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import NotAStore, PipelineError, WrongLogFile
from tests.support.golden import GOLDEN
from tests.support.logdrafts import Log, lay_out, plain, rows_of

FILE_SIZE = 4096


class Folders(TestCase):
    def setUp(self) -> None:
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = lay_out([plain(bytes(300)) for _ in range(30)], FILE_SIZE)

    def written(self, **files: bytes) -> str:
        """The log with some files added or replaced (`f4096=...`)."""
        log: Log = replace(self.log, files={**self.log.files})
        store = log.write(self.folder / "broker-a")
        for name, data in files.items():
            (store / "commitlog" / f"{int(name[1:]):020d}").write_bytes(data)
        return str(store)

    def test_no_folder_no_store_and_a_file(self) -> None:
        (self.folder / "empty").mkdir()
        (self.folder / "file").write_bytes(b"")
        for path in ("nothing", "empty", "file"):
            with self.assertRaisesRegex(NotAStore, path):
                LogStore.open(str(self.folder / path))

    def test_an_empty_log_is_one_without_rows(self) -> None:
        (self.folder / "new" / "commitlog").mkdir(parents=True)
        store = LogStore.open(str(self.folder / "new"))
        self.assertEqual((store.files, store.min_offset, store.end(), store.splits()), ([], 0, 0, []))
        self.assertEqual(read_arrow(store.path).read_all().num_rows, 0)

    def test_broker_is_the_folders_name_by_default(self) -> None:
        path = self.written()
        self.assertEqual(LogStore.open(path + "/").broker, "broker-a")
        self.assertEqual(LogStore.open(path + "/commitlog").broker, "broker-a")
        self.assertEqual(LogStore.open(path, "b").broker, "b")

    def test_broker_is_no_name_that_every_store_has(self) -> None:
        """Brokers keep their stores in folders named `store`: these don't tell one from another."""
        path = self.log.write(self.folder / "broker-b" / "store")
        self.assertEqual(LogStore.open(str(path)).broker, "broker-b")
        self.assertEqual(LogStore.open(f"{path}/commitlog").broker, "broker-b")
        self.assertEqual(LogStore.open(relpath(path)).broker, "broker-b")
        self.addCleanup(chdir, getcwd())
        chdir(path)
        self.assertEqual(LogStore.open(".").broker, "broker-b")

    def test_what_is_gone_between_listing_and_looking_is_not_there(self) -> None:
        """A broker deletes its oldest file just then; a link that leads nowhere is the same for us."""
        path = self.written()
        gone = Path(path) / "commitlog" / f"{0:020d}"
        gone.unlink()
        gone.symlink_to(self.folder / "nowhere")
        store = LogStore.open(path)
        self.assertEqual(store.min_offset, FILE_SIZE)
        (self.folder / "dangling").symlink_to(self.folder / "nowhere")
        with self.assertRaisesRegex(NotAStore, "not a store"):
            LogStore.open(str(self.folder))

    def test_mixed_sizes(self) -> None:
        with self.assertRaisesRegex(WrongLogFile, "0{16}4096: has 4000 bytes .* 4096: all files of a log"):
            LogStore.open(self.written(f4096=bytes(4000)))

    def test_a_gap(self) -> None:
        path = self.written()
        (Path(path) / "commitlog" / f"{4096:020d}").unlink()
        with self.assertRaisesRegex(WrongLogFile, "0{16}8192: the file from offset 4096 on is missing"):
            LogStore.open(path)

    def test_a_foreign_name(self) -> None:
        for name in ("0000", "notes.txt", f"{4096:020d}.bak"):
            path = self.written()
            extra = Path(path) / "commitlog" / name
            extra.write_bytes(b"")
            with self.assertRaisesRegex(WrongLogFile, name):
                LogStore.open(path)
            extra.unlink()
            self.log.files.clear()
            self.setUp()

    def test_a_hidden_name_is_ignored(self) -> None:
        path = self.written()
        (Path(path) / "commitlog" / ".nfs0001").write_bytes(b"")
        self.assertEqual(len(LogStore.open(path).files), len(self.log.files))

    def test_a_disk_may_be_mounted_at_the_log(self) -> None:
        path = self.written()
        (Path(path) / "commitlog" / "lost+found").mkdir()
        self.assertEqual(len(LogStore.open(path).files), len(self.log.files))

    def test_a_cut_first_file(self) -> None:
        folder = self.folder / "cut" / "commitlog"
        folder.mkdir(parents=True)
        (folder / f"{8192:020d}").write_bytes(bytes(3000))
        with self.assertRaisesRegex(WrongLogFile, "0{16}8192: 3000 bytes from offset 8192 .*cut"):
            LogStore.open(str(folder))

    def test_a_foreign_content(self) -> None:
        folder = self.folder / "foreign" / "commitlog"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}").write_bytes(b"PAR1, or whatever" * 300)
        with self.assertRaisesRegex(WrongLogFile, "0{20}: no commit log: at offset 0 .*magic"):
            LogStore.open(str(folder))

    def test_a_last_file_of_no_bytes_is_one_being_made(self) -> None:
        path = self.written(**{f"f{FILE_SIZE * len(self.log.files)}": b""})
        store = LogStore.open(path)
        self.assertEqual(len(store.files), len(self.log.files))
        self.assertEqual(store.end(), self.log.end)

    def test_a_file_that_was_cut_or_deleted_since_it_was_listed(self) -> None:
        store = LogStore.open(self.written())
        first, second, *_ = store.splits()
        Path(first.path).write_bytes(bytes(100))
        with self.assertRaisesRegex(WrongLogFile, "0{20}: has 100 bytes, 4096 when"):
            list(read_split(first))
        Path(second.path).unlink()
        with self.assertRaisesRegex(WrongLogFile, "0{16}4096: doesn't exist any more"):
            list(read_split(second))

    def test_splits_travel(self) -> None:
        split = LogStore.open(str(GOLDEN / "master")).splits()[1]
        self.assertEqual(pickle.loads(pickle.dumps(split)), split)
        self.assertLess(len(pickle.dumps(split)), 1000)

    def test_a_log_that_begins_in_mid_stream(self) -> None:
        later = lay_out([plain(bytes(300)) for _ in range(30)], FILE_SIZE, first=10 * FILE_SIZE)
        store = LogStore.open(str(later.write(self.folder / "slave")), "b")
        self.assertEqual(store.min_offset, 10 * FILE_SIZE)
        self.assertEqual(
            rows_of(batch for split in store.splits() for batch in read_split(split)), later.rows("b")
        )
        self.assertEqual(store.splits(0, 5), [])


class Remote(TestCase):
    @skipUnless(find_spec("fsspec"), "needs fsspec")
    def test_a_store_at_a_url(self) -> None:
        import fsspec

        files = fsspec.filesystem("memory")
        for path in sorted((GOLDEN / "master" / "commitlog").iterdir()):
            files.pipe_file(f"/bucket/broker-a/commitlog/{path.name}", path.read_bytes())
        self.addCleanup(files.rm, "/bucket", recursive=True)
        local = read_arrow(str(GOLDEN / "master")).read_all().drop_columns(["broker"])
        remote = read_arrow("memory://bucket/broker-a").read_all()
        self.assertEqual(set(remote.column("broker").to_pylist()), {"broker-a"})
        self.assertEqual(remote.drop_columns(["broker"]), local)
        with self.assertRaises(NotAStore):
            LogStore.open("memory://bucket/nothing")

    @skipUnless(find_spec("fsspec"), "needs fsspec")
    def test_a_scheme_nobody_knows(self) -> None:
        with self.assertRaisesRegex(PipelineError, "^nothing://here: .*nothing"):
            LogStore.open("nothing://here")

    @skipUnless(not find_spec("fsspec"), "fsspec is there")
    def test_without_fsspec_the_error_says_what_to_install(self) -> None:
        with self.assertRaisesRegex(PipelineError, "pip install fsspec"):
            LogStore.open("s3://bucket/broker-a")
