"""A commit log on a disk that is compared as bytes: it holds no records."""

from __future__ import annotations

import os

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.interfaces import IFileSystem
from hatwisted.store.log.commitlog import CommitLog
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.wire.hostport import HostPort


def raw_log(case: SynchronousTestCase, fs: IFileSystem, content: bytes, file_size: int) -> CommitLog:
    """One that is closed after the test.

    - case: whose it is
    - fs: its disk
    - content: what is in it
    - file_size: bytes of a file
    """
    files = FileQueue(fs, os.path.join(os.path.abspath(case.mktemp()), "commitlog"), file_size)
    files.load()
    log = CommitLog(files, Clock(), InlineWorker(), HostPort(b"\x7f\0\0\1", 10911).pack())
    case.addCleanup(log.close)
    log.append_raw(0, [content])
    return log
