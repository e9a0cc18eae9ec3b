"""What lies in a store: records, the log as a whole, queues, index, checkpoint; and the recovery of them all."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from itertools import product

from twisted.internet.task import Clock

from hatwisted.logcodec.dispatchscan import dispatch_columns
from hatwisted.logcodec.fewscan import scan_few
from hatwisted.logcodec.recordsearch import records_after
from hatwisted.logcodec.scan import scan_records
from hatwisted.sim.simdisk import SimDisk
from hatwisted.sim.trace import Trace
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.errors import StoreError
from hatwisted.store.index.indexfile import IndexFile, file_length
from hatwisted.store.lifecycle.checkpoint import StoreCheckpoint
from hatwisted.store.lifecycle.flushedmark import FlushedMark
from hatwisted.store.lifecycle.lastrun import MAX_BYTES, LastRun
from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.queue.consumequeue import ConsumeQueue
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire import record, recordreader
from hatwisted.wire.layout import file_name
from hatwisted.wire.storedrecord import Blank, CorruptRecord, Record
from tests.fuzz.target import Target
from tests.support.golden import GOLDEN
from tests.support.kerneltwins import PARTS, compiled, walked
from tests.support.logbuilder import LogBuilder
from tests.support.logofbytes import LogOfBytes

LEVELS = (1000, 5000, 10_000)
FILE_SIZE = 2048
"""Bytes of a log file, a queue file holds 10 entries, an index file 7 slots and 20 items."""
QUEUE_FILE_SIZE = 200
SLOTS, ITEMS = 7, 20
LOG_END = 700
NOTE_SIZE = 8
WHOLE = compiled().whole_records if PARTS else None


def one_record(data: bytes) -> None:
    """The quick reader and the one that is written for being read agree."""
    found = []
    for decode in (recordreader.decode_record, record.decode_record):
        try:
            found.append(decode(data))
        except CorruptRecord:
            found.append(None)
    assert found[0] == found[1], found
    if isinstance(found[0], Record):
        assert found[0].total_size <= len(data)


def scan(data: bytes) -> None:
    """Columns and the loop for a few records agree."""
    scans = [scan_records(data, 0, mean_size=size) for size in (100, 10_000)]
    entries, end = scan_few(data, 0, LEVELS)
    columns = dispatch_columns(scans[0], LEVELS)
    assert [len(each) for each in scans] == [len(entries)] * 2, (scans, entries)
    assert list(columns.tags_codes) == [entry.tags_code for entry in entries]
    assert scans[0].end.position == end.position


def walk(data: bytes) -> None:
    log = LogOfBytes(data, FILE_SIZE, 2 * FILE_SIZE)
    assert walked(log, None) == walked(log, WHOLE)
    for offset in (0, 1, 500):
        for found in records_after(log, offset, log.capacity_end):
            assert isinstance(found, (Record, Blank))


@contextmanager
def disk() -> Iterator[tuple[SimDisk, Clock]]:
    clock = Clock()
    clock.advance(1_795_221_957)
    made = SimDisk(clock.seconds, Trace(clock.seconds))
    made.makedirs("/store/commitlog")
    made.makedirs("/store/consumequeue/Topic0/0")
    made.makedirs("/store/index")
    yield made, clock


def put(files: SimDisk, path: str, data: bytes) -> None:
    file = files.open(path, create=True)
    if data:
        file.pwrite((data,), 0)
    file.close()


def queue(data: bytes) -> None:
    with disk() as (files, _):
        folder = "/store/consumequeue/Topic0/0"
        for at in range(0, max(len(data), 1), QUEUE_FILE_SIZE):
            put(
                files,
                f"{folder}/{file_name(at)}",
                data[at : at + QUEUE_FILE_SIZE].ljust(QUEUE_FILE_SIZE, b"\0"),
            )
        found = ConsumeQueue(FileQueue(files, folder, QUEUE_FILE_SIZE), "Topic0", 0)
        found.load()
        found.recover()
        assert 0 <= found.min_offset <= found.max_offset
        found.read(found.min_offset, 5)
        found.expire(100)
        found.truncate(500)
        assert 0 <= found.min_offset <= found.max_offset


def index(data: bytes) -> None:
    with disk() as (files, _):
        put(
            files, "/store/index/f", data[: file_length(SLOTS, ITEMS)].ljust(file_length(SLOTS, ITEMS), b"\0")
        )
        found = IndexFile(files.open("/store/index/f"), "f", SLOTS, ITEMS)
        for key_hash in (0, 1, 1 << 30):
            list(found.query(key_hash, 0, 1 << 62))
        found.trailing(5)
        found.count_below(300)
        found.relink(found.sound_count())
        assert 1 <= found.count <= ITEMS
        list(found.query(1, 0, 1 << 62))


def checkpoint(data: bytes) -> None:
    with disk() as (files, clock):
        put(files, "/store/checkpoint", data)
        found = StoreCheckpoint(files, "/store/checkpoint")
        found.load(int(clock.seconds() * 1000))
        assert min(found.min_timestamp, found.min_timestamp_with_index) >= 0
        found.flush()


def last_run(data: bytes) -> None:
    """Trusted is what says so in words; and whatever was there, the next run knows what this one was."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) and len(data) <= MAX_BYTES else {}
    for unclean, role in product((False, True), repeat=2):
        with disk() as (files, _):
            put(files, "/store/lastrun", data)
            found = LastRun(files, "/store", "monday")
            assert found.same_boot == (said.get("boot") == "monday")
            found.compare(RecoveryReport(unclean=unclean, end=LOG_END))
            kept = said.get("boot") == "monday" if unclean else said.get("end") == LOG_END
            assert found.serve(role) == (role and kept and said.get("master") is True)
            assert found.own == (not role and said.get("own", said.get("master")) is True)
            found.stop(LOG_END)
            found = LastRun(files, "/store", "monday")
            found.compare(RecoveryReport(unclean=unclean, end=LOG_END))
            assert found.serve(True) == role


def flushed(data: bytes) -> None:
    """What the note claims is there, or nothing is; and the store goes on."""
    with disk() as (files, clock):
        put(files, "/store/abort", b"")
        put(files, f"/store/commitlog/{file_name(0)}", log(records=5).ljust(FILE_SIZE, b"\0"))
        put(files, "/store/flushed", data)
        store = a_store(files, clock)
        report = store.load(same_boot=True)
        note = int.from_bytes(data, signed=True) if len(data) == NOTE_SIZE else -1
        assert store.log.flushed_offset == (min(note, report.end) if note >= 0 else report.start)
        done: list[object] = []
        store.flusher.flush_now().addBoth(done.append)
        assert done == [report.end]
        assert FlushedMark(files, "/store").read() == report.end


def recovery(data: bytes) -> None:
    """A byte of how; a queue's file; the log's files."""
    with disk() as (files, clock):
        how, data = data[:1] or b"\0", data[1:]
        if how[0] & 1:
            put(files, "/store/abort", b"")
        if how[0] & 2:
            queue_file, data = data[:QUEUE_FILE_SIZE].ljust(QUEUE_FILE_SIZE, b"\0"), data[QUEUE_FILE_SIZE:]
            put(files, f"/store/consumequeue/Topic0/0/{file_name(0)}", queue_file)
        if how[0] & 4:
            put(files, "/store/checkpoint", data[:100])
        for at in range(0, max(len(data), 1), FILE_SIZE):
            put(files, f"/store/commitlog/{file_name(at)}", data[at : at + FILE_SIZE].ljust(FILE_SIZE, b"\0"))
        store = a_store(files, clock)
        report = store.load(same_boot=bool(how[0] & 8))
        assert report.end == store.log.max_offset
        for at in (store.log.min_offset, 100, FILE_SIZE):
            found = store.record_at(at)
            assert found is None or found.physical_offset == at


def a_store(files: SimDisk, clock: Clock) -> MessageStore:
    options = StoreOptions(
        root="/store",
        store_host=bytes(8),
        commit_log_file_size=FILE_SIZE,
        consume_queue_file_size=QUEUE_FILE_SIZE,
        index_slots=SLOTS,
        index_items=ITEMS,
        local_time=lambda seconds: datetime.fromtimestamp(seconds, UTC),
        process_id=lambda: 1,
    )
    worker = InlineWorker()
    return MessageStore(options, clock, files, worker, worker)


def a_run(**said: object) -> bytes:
    return json.dumps({"master": True, "boot": "monday", "own": False, **said}).encode()


@cache
def log(*, records: int) -> bytes:
    writer = LogBuilder(file_size=FILE_SIZE).fill(records)
    return b"".join(writer.files().values())


def golden(pattern: str) -> Callable[[], list[bytes]]:
    return lambda: [
        path.read_bytes()[: 2 * FILE_SIZE] for path in sorted(GOLDEN.glob(f"master/{pattern}"))[:2]
    ]


LOGS = {
    "record": Target(one_record, (), lambda: [log(records=1)[:300]]),
    "scan": Target(scan, (), lambda: [log(records=5)], tries=400),
    "log": Target(walk, (), lambda: [log(records=20)], tries=200),
    "queue": Target(queue, (StoreError,), golden("consumequeue/*/0/*"), tries=300),
    "index": Target(index, (StoreError,), golden("index/*"), tries=400),
    "checkpoint": Target(checkpoint, (), golden("checkpoint"), tries=500),
    "last-run": Target(
        last_run,
        (),
        lambda: [
            *(a_run(), a_run(end=LOG_END), a_run(own=True, boot="tuesday"), a_run(master=False, own=True)),
            *(a_run().ljust(MAX_BYTES + 1), b"[" * MAX_BYTES, b"[1]"),
        ],
        tries=300,
    ),
    "flushed": Target(
        flushed, (), lambda: [struct.pack(">q", each) for each in (0, 5, 700, -1, 1 << 40)], tries=100
    ),
    "recovery": Target(
        recovery, (StoreError,), lambda: [bytes([how]) + log(records=20) for how in (0, 1)], tries=150
    ),
}
