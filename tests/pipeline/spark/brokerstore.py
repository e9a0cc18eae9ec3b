"""A broker's store, kept by the server's own code, that grows: `python -m ... FOLDER RECORDS PER_SECOND`."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime

from twisted.internet.task import Clock

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.log.put import STORED, Put
from hatwisted.store.messagestore import MessageStore
from hatwisted.store.storeoptions import StoreOptions
from hatwisted.wire.hostport import HostPort

FILE_SIZE = 256 << 10
HOST = HostPort(b"\x7f\0\0\1", 10911).pack()
TURN = 0.02


def main(folder: str, records: str, per_second: str) -> None:
    options = StoreOptions(
        root=folder,
        store_host=HOST,
        commit_log_file_size=FILE_SIZE,
        consume_queue_file_size=20_000,
        index_slots=100,
        index_items=100_000,
        local_time=datetime.fromtimestamp,
        process_id=os.getpid,
    )
    clock = Clock()
    clock.advance(time.time())
    store = MessageStore(options, clock, PosixFileSystem(), InlineWorker(), InlineWorker())
    store.load()
    store.start()
    grow(store, clock, int(records), int(per_second))
    stopped = store.stop()
    clock.pump([TURN] * 50)
    assert stopped.called


def grow(store: MessageStore, clock: Clock, records: int, per_second: int) -> None:
    """Some records each turn, of all sizes, until there are as many as wanted."""
    begun, number = time.monotonic(), 0
    while number < records:
        due = min(records, int((time.monotonic() - begun) * per_second) + 1)
        puts = [put(each) for each in range(number, due)]
        store.append(puts)
        assert all(each.status is None or each.status in STORED for each in puts)
        number = due
        clock.advance(TURN)
        time.sleep(TURN)


def put(number: int) -> Put:
    body = b"%d:" % number + b"." * (number * 131 % 900)
    return Put(f"topic-{number % 3}", number % 4, ((0, body, b"KEYS\x01k%d" % number),), HOST, 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
