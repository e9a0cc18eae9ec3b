"""A broker's store that grows: real records, several topics and days, small files with blanks at their ends.

Run as a program it appends until its standard input ends: `python growing.py STORE RECORDS PER_SECOND`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pathlib import Path

import msgspec

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.record import encode_record, make_record
from hatwisted.wire.storedrecord import Record
from tests.support.logbuilder import LogBuilder

FILE_SIZE = 1 << 20
TOPICS = ("orders", "%RETRY%billing", "SCHEDULE_TOPIC_XXXX", "logs")
FIRST_TIME = 1_763_600_000_000  # 2025-11-20T00:53:20Z, ms
V4_HOST, V6_HOST = ip_address("10.0.0.17").packed, ip_address("2001:db8::17").packed
STEP = 3_000  # ms between two records, so that 28,800 records make a day


class GrowingStore:
    """Appends records number 0, 1, ... as a broker does: whole records into preallocated files."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.root = root
        self._seed = seed
        self._log = LogBuilder(file_size=FILE_SIZE)
        (root / "commitlog").mkdir(parents=True)
        self._file(0)

    @property
    def offsets(self) -> list[int]:
        """Where each record begins."""
        return self._log.offsets

    @property
    def records(self) -> list[Record]:
        """All of them."""
        return self._log.records

    @property
    def end(self) -> int:
        """Where the log ends."""
        return self._log.end

    def append(self, count: int, born_timestamp: int | None = None) -> None:
        """So many records more. born_timestamp: ms, if it's another one than usual."""
        begin = self._log.end
        for _ in range(count):
            record = self._record(len(self._log.records))
            born = record.born_timestamp if born_timestamp is None else born_timestamp
            self._log.place(msgspec.structs.replace(record, born_timestamp=born))
        while begin < self._log.end:
            data = bytes(self._log.data[begin : begin + FILE_SIZE - begin % FILE_SIZE])
            with self._file(begin).open("r+b") as file:
                file.seek(begin % FILE_SIZE)
                file.write(data)
            begin += len(data)

    def store_later(self, numbers: Iterable[int], later: int = 3_600_000) -> None:
        """These records are other ones, of the same size, stored so many ms later."""
        for number in numbers:
            record = self._log.records[number]
            later_one = msgspec.structs.replace(record, store_timestamp=record.store_timestamp + later)
            with self._file(record.physical_offset).open("r+b") as file:
                file.seek(record.physical_offset % FILE_SIZE)
                file.write(encode_record(later_one))

    def _record(self, number: int) -> Record:
        keys = {"KEYS": f"k{number}", "UNIQ_KEY": f"U{number:015d}", "TAGS": f"t{number % 3}"}
        return make_record(
            TOPICS[number % len(TOPICS)],
            b"%d:%d:" % (self._seed, number) + b"." * (number * 37 % 500),
            raw_properties=encode_properties(keys),
            queue_id=number % 8 // 4,
            queue_offset=number // 8,
            flag=number % 5,
            born_timestamp=FIRST_TIME + STEP * number - 5,
            born_host=HostPort(V6_HOST if number % 7 == 6 else V4_HOST, 10_000 + number % 4),
            store_timestamp=FIRST_TIME + STEP * number,
            reconsume_times=number % 3,
            prepared_transaction_offset=number % 2,
        )

    def _file(self, offset: int) -> Path:
        """The file that holds `offset`, made if need be."""
        path = self.root / "commitlog" / layout.file_name(offset - offset % FILE_SIZE)
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(FILE_SIZE)
        return path


def growing_twice(store: GrowingStore, stop: threading.Event) -> Callable[[int, int], None]:
    """A landing's `progress`: ten more messages after each of the first two calls; the third one sets `stop`."""
    rounds = iter(range(100))

    def progress(done: int, total: int) -> None:
        if next(rounds) == 2:
            stop.set()
        else:
            store.append(10)

    return progress


def main(root: str, records: str, per_second: str) -> None:
    """At least so many records, then forty times slower, and one more at the end: who reads the log finds
    something new however long it takes, and can still catch up."""
    store, least, rate = GrowingStore(Path(root)), int(records), int(per_second)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    begun = time.monotonic()
    while not ended.is_set() or len(store.offsets) < least:
        due = int((time.monotonic() - begun) * rate) + 1
        store.append(max(0, min(due, least) + max(0, due - least) // 40 - len(store.offsets)))
        time.sleep(0.05)
    store.append(1)
    print(len(store.offsets))


if __name__ == "__main__":
    main(*sys.argv[1:])
