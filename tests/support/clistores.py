"""Stores for the command line's tests: copies of the golden one, and small ones made to measure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

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
from hatwisted.wire.record import encode_blank, encode_record, make_record
from hatwisted.wire.storedrecord import Record

GOLDEN = Path(__file__).parents[1] / "golden" / "rocketmq-4.9.7"
GOLDEN_END = 111713
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


class Written(NamedTuple):
    """A log as it was written: its records and where they end."""

    records: list[Record]
    end: int


def write_log(store: Path, bodies: Sequence[bytes], *, file_size: int = 4096, topic: str = "T") -> Written:
    """Make a log of these bodies, topics and queues in turn of two, one second apart; the last file isn't full."""
    folder = store / "commitlog"
    folder.mkdir(parents=True)
    files: list[bytearray] = [bytearray()]
    records: list[Record] = []
    for number, body in enumerate(bodies):
        plain = make_record(topic, body, raw_properties=b"KEYS\x01k%d" % number)
        start = (len(files) - 1) * file_size
        if len(files[-1]) + plain.total_size + 8 > file_size:
            room = file_size - len(files[-1])
            files[-1] += encode_blank(room) + bytes(room - 8)
            files.append(bytearray())
            start += file_size
        record = make_record(
            topic,
            body,
            raw_properties=b"KEYS\x01k%d" % number,
            queue_id=number % 2,
            queue_offset=number // 2,
            physical_offset=start + len(files[-1]),
            store_timestamp=1_700_000_000_000 + 1000 * number,
            born_host=HostPort(b"\x0a\0\0\1", 1),
        )
        files[-1] += encode_record(record)
        records.append(record)
    for number, content in enumerate(files):
        (folder / file_name(number * file_size)).write_bytes(content.ljust(file_size, b"\0"))
    return Written(records, (len(files) - 1) * file_size + len(files[-1]))


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
