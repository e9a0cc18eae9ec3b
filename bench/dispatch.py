"""What dispatch and recovery cost, on one core: `python bench/dispatch.py [--body N] [--topics N] [--queues N]`.

Prints microseconds a record for batches of several sizes (record by record and by columns, as the dispatcher
chooses itself), then the speed of finding a log's end with checksums and of rebuilding queues and index.
Every figure is the best of several runs, so that other work on the machine disturbs it less.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from datetime import datetime

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from zope.interface import implementer

from hatwisted.logcodec.dispatchscan import dispatch_columns
from hatwisted.logcodec.fewscan import FEW, scan_few
from hatwisted.logcodec.logwalk import LogWalk, WalkOptions
from hatwisted.logcodec.scan import scan_records
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.dispatch.dispatcher import Dispatcher
from hatwisted.store.index.indexservice import IndexOptions, IndexService
from hatwisted.store.interfaces import Buffer
from hatwisted.store.lifecycle.checkpoint import StoreCheckpoint
from hatwisted.store.lifecycle.recovery import RecoveryOptions, StoreParts, recover
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.log.logfiles import LogFiles
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire import layout

HEAD = struct.Struct(">iIiiiqqiq4siq4siiqi")
HOST = (b"\x7f\0\0\1", 10911)
LEVELS = [1000, 5000]
BATCHES = (1, 4, 16, 24, 64, 200, 800)


@implementer(IReactorTime)
class SteadyClock(Clock):
    """Real time, for limits that nothing here reaches."""

    def seconds(self) -> float:
        return time.time()


class Producer:
    """Encoded records of a plausible producer: UNIQ_KEY, a key, a tag, the cluster's name."""

    def __init__(self, options: argparse.Namespace, file_size: int) -> None:
        self._options = options
        self._file_size = file_size
        self._body = os.urandom(options.body)
        self._crc = zlib.crc32(self._body) & 0x7FFFFFFF
        self._next: dict[int, int] = {}
        self.count = 0

    def record(self, at: int) -> bytes:
        number, self.count = self.count, self.count + 1
        topics, queues = self._options.topics, self._options.queues
        lane = number % (topics * queues)
        topic = b"BenchTopic%d" % (lane % topics)
        index = self._next[lane] = self._next.get(lane, -1) + 1
        properties = b"KEYS\x01order%08d\x02UNIQ_KEY\x017F0000010FA21DBD16A6671D%08X" % (number, number)
        properties += b"\x02CLUSTER\x01DefaultCluster\x02TAGS\x01Tag%d" % (number % 4)
        size = layout.FIXED_SIZE + len(self._body) + len(topic) + len(properties)
        stamp = 1_700_000_000_000 + number // 50
        fields = (
            size,
            layout.MAGIC_V1,
            self._crc,
            lane // topics,
            0,
            index,
            at,
            0,
            stamp,
            *HOST,
            stamp,
            *HOST,
        )
        tail = bytes([len(topic)]) + topic + len(properties).to_bytes(2, "big") + properties
        return HEAD.pack(*fields, 0, 0, len(self._body)) + self._body + tail

    def batch(self, at: int, count: int) -> bytes:
        parts = []
        for _ in range(count):
            parts.append(self.record(at))
            at += len(parts[-1])
        return b"".join(parts)

    def file(self, start: int) -> bytes:
        """A full log file, closed by its blank."""
        parts: list[bytes] = []
        at, end = start, start + self._file_size
        while True:
            raw = self.record(at)
            if at + len(raw) + layout.BLANK_MIN_SIZE > end:
                blank = layout.RECORD_HEAD.pack(end - at, layout.MAGIC_BLANK)
                return b"".join([*parts, blank, bytes(end - at - len(blank))])
            parts.append(raw)
            at += len(raw)


class MemoryLog:
    """Log bytes in memory, growing."""

    min_offset = 0
    file_size = 1 << 40

    def __init__(self) -> None:
        self._blob, self._base, self.max_offset = b"", 0, 0

    def append(self, blob: bytes) -> None:
        self._blob, self._base = blob, self.max_offset
        self.max_offset += len(blob)

    def read(self, offset: int, limit: int) -> bytes:
        at = offset - self._base
        return self._blob[at : at + limit]

    def take_recent(self, offset: int, limit: int) -> list[Buffer]:
        return []


def best(run: Callable[[], object], repeats: int = 7) -> float:
    """Seconds of the fastest of several runs."""
    fastest = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - begin)
    return fastest


def parts(root: str) -> tuple[ConsumeQueueTable, IndexService]:
    fs = PosixFileSystem()
    queues = ConsumeQueueTable(fs, os.path.join(root, "consumequeue"))
    return queues, IndexService(
        fs,
        os.path.join(root, "index"),
        SteadyClock(),
        IndexOptions(local_time=datetime.fromtimestamp),
        InlineWorker(),
    )


def bench_batches(options: argparse.Namespace) -> None:
    print(f"{'records':>8} {'scan':>9} {'all':>9}   us a record, and the way taken")
    for count in BATCHES:
        root = tempfile.mkdtemp()
        producer, log, (queues, index) = Producer(options, 1 << 40), MemoryLog(), parts(root)
        dispatcher = Dispatcher(log, queues, index, LEVELS, SteadyClock())
        sample = producer.batch(0, count)
        few = count <= FEW
        producer.count, producer._next = 0, {}

        def scan(sample: bytes = sample, few: bool = few) -> None:
            if few:
                scan_few(sample, 0, LEVELS)
            else:
                dispatch_columns(scan_records(sample, 0), LEVELS)

        times = []
        for _ in range(max(30, 20_000 // count)):
            log.append(producer.batch(log.max_offset, count))
            begin = time.perf_counter()
            dispatcher.dispatch_some(1 << 30, 10)
            times.append(time.perf_counter() - begin)
        times.sort()
        scanned, whole = best(scan, 50) / count * 1e6, times[len(times) // 2] / count * 1e6
        print(f"{count:8d} {scanned:9.2f} {whole:9.2f}   {'one by one' if few else 'by columns'}")
        queues.close()
        index.close()
        shutil.rmtree(root)


def bench_recovery(options: argparse.Namespace) -> None:
    root = tempfile.mkdtemp()
    size = 256 << 20
    producer = Producer(options, size)
    os.makedirs(os.path.join(root, "commitlog"))
    for start in range(0, options.files * size, size):
        with open(os.path.join(root, "commitlog", layout.file_name(start)), "wb") as file:
            file.write(producer.file(start))
    files = FileQueue(PosixFileSystem(), os.path.join(root, "commitlog"), size)
    files.load()
    total = options.files * size
    for check_crc in (True, False):
        walking = WalkOptions(check_crc=check_crc)
        seconds = best(lambda walking=walking: LogWalk(files, 0, options=walking).to_end(), 3)  # type: ignore[misc]
        print(
            f"find the end {'with' if check_crc else 'without'} checksums: {total / seconds / 1e6:8.0f} MB/s"
        )
    for what in ("rebuild of queues and index", "restart after kill -9      "):
        queues, index = parts(root)
        queues.load_all()
        index.load()
        seconds = best(lambda queues=queues, index=index: _restart(root, files, queues, index), 1)  # type: ignore[misc]
        print(f"{what}: {total / seconds / 1e6:8.0f} MB/s, {seconds / producer.count * 1e6:.2f} us a record")
        queues.close()
        index.close()
    shutil.rmtree(root)


class _Log(LogFiles):
    """Log files whose end recovery sets."""

    def __init__(self, files: FileQueue) -> None:
        super().__init__(files, 0)
        self.files = files

    def set_end(self, end: int) -> None:
        self.max_offset = end

    def take_recent(self, offset: int, limit: int) -> list[Buffer]:
        return []


def _restart(root: str, files: FileQueue, queues: ConsumeQueueTable, index: IndexService) -> None:
    """Everything between opening a store and serving, checksums and dispatch included."""
    log = _Log(files)
    dispatcher = Dispatcher(log, queues, index, LEVELS, SteadyClock())
    checkpoint = StoreCheckpoint(PosixFileSystem(), os.path.join(root, "checkpoint"))
    parts = StoreParts(log, queues, index, checkpoint, dispatcher)
    report = recover(parts, RecoveryOptions(unclean=True), keep_aside=lambda begin, end: "")
    assert report.end == files.capacity_end, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--body", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--queues", type=int, default=4, help="queues per topic")
    parser.add_argument(
        "--files", type=int, default=2, help="log files of 256 MiB for the recovery part, 0: none"
    )
    options = parser.parse_args()
    gc.disable()
    bench_batches(options)
    if options.files:
        bench_recovery(options)


if __name__ == "__main__":
    main()
