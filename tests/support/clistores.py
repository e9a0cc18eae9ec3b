"""Stores for the command line's tests: copies of the golden one, and small ones made to measure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from click.testing import CliRunner, Result
from twisted.internet.task import Clock

from hatwisted.cli.main import main
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.layout import file_name
from tests.support.golden import GOLDEN
from tests.support.logbuilder import START_TIME, LogBuilder

PIPELINE_JOBS = ("land", "audit", "reindex", "report", "export", "import")
GOLDEN_DELAYS = [1000 * n for n in (1, 5, 10, 30)]


def golden_copy(folder: str, side: str = "master") -> Path:
    """The golden store in a folder of one's own."""
    return Path(shutil.copytree(GOLDEN / side, folder))


def run(*arguments: object) -> Result:
    """The command line with these arguments after `log`."""
    return CliRunner().invoke(main, ["log", *map(str, arguments)])


def run_pipeline(*arguments: object) -> Result:
    """The command line with these arguments after `pipeline`."""
    return CliRunner().invoke(main, ["pipeline", *map(str, arguments)])


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and modification time of every file."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def overwrite(store: Path, offset: int, data: bytes, file_size: int = 65536) -> None:
    """Put bytes over the log at a physical offset."""
    with (store / "commitlog" / file_name(offset - offset % file_size)).open("r+b") as file:
        file.seek(offset % file_size)
        file.write(data)


def write_log(store: Path, bodies: Sequence[bytes], *, file_size: int = 4096, topic: str = "T") -> LogBuilder:
    """Make a log of two queues in turn, its records one second apart.

    - store: the folder
    - bodies: of the messages
    - file_size: bytes of a file
    - topic: of all
    """
    log = LogBuilder(file_size=file_size)
    for number, body in enumerate(bodies):
        log.add(
            topic,
            number % 2,
            body,
            raw=b"KEYS\x01k%d" % number,
            store_timestamp=START_TIME + 1000 * number,
            born_host=HostPort(b"\x0a\0\0\1", 1),
        )
    log.save(store)
    return log


def open_log(store: Path, file_size: int) -> FileQueue:
    """The loaded files of a log, read-only."""
    log = FileQueue(PosixFileSystem(), str(store / "commitlog"), file_size, read_only=True)
    log.load()
    return log


def start_store(store: Path) -> RecoveryReport:
    """Start a store with the golden store's sizes, and stop it cleanly; what its recovery reported."""
    options = StoreOptions(
        root=str(store),
        commit_log_path="",
        store_host=HostPort.parse("127.0.0.1:10911").pack(),
        commit_log_file_size=65536,
        consume_queue_file_size=2000,
        index_slots=1000,
        index_items=4000,
        delay_levels=GOLDEN_DELAYS,
        local_time=datetime.fromtimestamp,
        process_id=os.getpid,
    )
    started = MessageStore(options, Clock(), PosixFileSystem(), InlineWorker(), InlineWorker())
    report = started.load()
    started.start()
    stopped: list[object] = []
    started.stop().addBoth(stopped.append)
    assert stopped == [None], stopped
    return report


def delete_queue(store: Path) -> None:
    """What a broker does to TopicA's queue 0 when the topic is deleted."""
    queues = ConsumeQueueTable(PosixFileSystem(), str(store / "consumequeue"), 2000)
    queues.load_all()
    queues.recover()
    queue = queues.find("TopicA", 0)
    assert queue is not None
    queues.delete(queue)
    queues.close()
