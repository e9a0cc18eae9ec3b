"""Small tables on disk: atomic, with the former version kept, one write at a time."""

import errno
import os
from pathlib import Path

from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from hatwisted.store.disk.configfile import FLUSH_INTERVAL, ConfigFile, ConfigFlusher
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.interfaces import IFile
from tests.support.faultyfs import FaultyFileSystem
from tests.support.manualworker import ManualWorker


@implementer(IFile)
class CutFile:
    """A file of a CutFileSystem."""

    def __init__(self, inner, fs):
        self._inner = inner
        self._fs = fs

    def extend(self, size):
        self._fs.step()
        self._inner.extend(size)

    def pwrite(self, buffers, offset):
        self._fs.step()
        return self._inner.pwrite(buffers, offset)

    def datasync(self):
        self._fs.step()
        self._inner.datasync()

    def close(self):
        self._inner.close()


class CutFileSystem(PosixFileSystem):
    """Loses power at the n-th change of the disk."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def step(self):
        self.steps -= 1
        if self.steps < 0:
            raise OSError("power cut")

    def open(self, path, create=False, read_only=False):
        self.step()
        return CutFile(super().open(path, create, read_only), self)

    def replace(self, source, target):
        self.step()
        super().replace(source, target)


class ConfigFileCase(SynchronousTestCase):
    def setUp(self):
        self.path = Path(self.mktemp()) / "config" / "t.json"
        self.content = b"{}"
        self.worker = InlineWorker()
        self.fs = PosixFileSystem()

    def make(self):
        return ConfigFile(self.fs, str(self.path), self.worker, lambda: self.content)

    def write(self, content):
        file = self.make()
        self.content = content
        file.save()

    def decode(self, data):
        if not data.startswith(b"{"):
            raise ValueError("not an object")
        self.loaded = data

    def load(self):
        self.loaded = None
        found = self.make().load(self.decode)
        self.assertEqual(found, self.loaded is not None)
        return self.loaded

    def bak(self):
        return self.path.with_name("t.json.bak")


class TestFile(ConfigFileCase):
    def test_B107_former_content_is_kept(self):
        self.write(b"{1}")
        self.assertFalse(self.bak().exists())
        self.write(b"{2}")
        self.assertEqual((self.path.read_bytes(), self.bak().read_bytes()), (b"{2}", b"{1}"))
        self.assertEqual(self.load(), b"{2}")
        self.assertEqual(sorted(os.listdir(self.path.parent)), ["t.json", "t.json.bak"])

    def test_B107_backup_is_read_when_the_file_is_missing_empty_or_broken(self):
        self.write(b"{1}")
        self.write(b"{2}")
        for damage in (b"", b"garbage", None):
            if damage is None:
                self.path.unlink()
            else:
                self.path.write_bytes(damage)
            self.assertEqual(self.load(), b"{1}")
        self.bak().unlink()
        self.assertIsNone(self.load())

    def test_B107_broken_file_never_replaces_a_good_backup(self):
        for damage in (b"", b"garbage"):
            self.write(b"{1}")
            self.write(b"{2}")
            self.path.write_bytes(damage)
            file = self.make()
            self.assertTrue(file.load(self.decode))
            self.content = b"{3}"
            file.save()
            self.assertEqual((self.path.read_bytes(), self.bak().read_bytes()), (b"{3}", b"{1}"))
            self.content = b"{4}"
            file.save()
            self.assertEqual(self.bak().read_bytes(), b"{3}")

    def test_B107_power_cut_between_the_steps(self):
        self.write(b"{1}")
        self.write(b"{2}")
        for steps in range(4):
            self.fs = CutFileSystem(steps)
            self.write(b"{3}")
            self.fs = PosixFileSystem()
            self.assertIn(self.load(), (b"{2}", b"{3}"))


class TestFlush(ConfigFileCase):
    def test_only_what_changed_is_written(self):
        file = self.make()
        self.successResultOf(file.flush())
        self.assertFalse(self.path.exists())
        file.changed()
        self.successResultOf(file.flush())
        self.assertEqual(self.path.read_bytes(), b"{}")

    def test_changes_during_a_write_make_one_more(self):
        self.worker = ManualWorker()
        file = self.make()
        self.content = b"{1}"
        file.save()
        for content in (b"{2}", b"{3}", b"{4}"):
            self.content = content
            file.changed()
            last = file.flush()
        self.assertEqual(len(self.worker), 1)
        self.worker.work(1)
        self.assertNoResult(last)
        self.worker.work(1)
        self.successResultOf(last)
        self.assertEqual(len(self.worker), 0)
        self.assertEqual(self.path.read_bytes(), b"{4}")

    def test_thousands_who_wait_share_one_write(self):
        self.worker = ManualWorker()
        file = self.make()
        fired = []
        for number in range(3000):
            self.content = b"%d" % number
            file.changed()
            file.flush().addCallback(fired.append)
        self.worker.work(1)
        self.assertEqual(len(fired), 1)
        self.worker.work(1)
        self.assertEqual((len(fired), len(self.worker)), (3000, 0))
        self.assertEqual(self.path.read_bytes(), b"2999")

    def test_failed_write_is_tried_again(self):
        self.fs = CutFileSystem(0)
        file = self.make()
        file.changed()
        self.successResultOf(file.flush())
        self.fs.steps = 9
        self.successResultOf(file.flush())
        self.assertTrue(self.path.exists())

    def test_a_table_that_cannot_be_encoded_is_reported_once_and_tried_again(self):
        self.write(b"{1}")
        self.content = property
        file = ConfigFile(self.fs, str(self.path), self.worker, lambda: self.content + b"")
        file.changed()
        for _ in range(3):
            self.successResultOf(file.flush())
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)
        self.content = b"{2}"
        self.successResultOf(file.flush())
        self.assertEqual(self.path.read_bytes(), b"{2}")

    def test_full_disk_keeps_the_old_file_is_reported_once_and_made_up_for(self):
        self.write(b"{1}")
        for operation, path in (
            ("pwrite", "t.json.tmp"),
            ("datasync", "t.json.tmp"),
            ("pwrite", ".bak"),
            ("makedirs", "config"),
        ):
            self.fs = FaultyFileSystem()
            fault = self.fs.fail(operation, error=errno.ENOSPC, path=path, times=None)
            before = self.load()
            file, clock = self.make(), Clock()
            flusher = ConfigFlusher(clock, [file])
            flusher.start()
            self.content = b"{2}" if before == b"{1}" else b"{1}"
            with capturedLogs() as events:
                file.save()
                for _ in range(3):
                    clock.advance(FLUSH_INTERVAL)
                self.assertEqual(fault.hits, 4)
                self.assertEqual(self.path.read_bytes(), before)
                self.assertEqual(self.load(), before)
                fault.lift()
                clock.advance(FLUSH_INTERVAL)
            self.assertEqual(self.load(), self.content)
            self.assertEqual(self.bak().read_bytes(), before)
            self.assertEqual(sorted(os.listdir(self.path.parent)), ["t.json", "t.json.bak"])
            failed, again = [formatEvent(event) for event in events]
            self.assertIn(f"{self.path} was not written", failed)
            self.assertIn("No space left on device", failed)
            self.assertIn("writing works again", again)
            self.successResultOf(flusher.stop())

    def test_rounds_and_last_flush(self):
        clock = Clock()
        file = self.make()
        flusher = ConfigFlusher(clock, [file])
        flusher.start()
        file.changed()
        self.assertFalse(self.path.exists())
        clock.advance(FLUSH_INTERVAL)
        self.assertEqual(self.path.read_bytes(), b"{}")
        self.content = b"{2}"
        file.changed()
        self.successResultOf(flusher.stop())
        self.assertEqual(self.path.read_bytes(), b"{2}")
        self.assertEqual(clock.getDelayedCalls(), [])
