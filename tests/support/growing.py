"""A broker's store that grows: real records, several topics and days, small files with blanks at their ends.

Run as a program it appends until its standard input ends: `python growing.py STORE RECORDS PER_SECOND`.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from hatwisted.wire import layout
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.record import encode_blank, encode_record, make_record
from hatwisted.wire.storedrecord import Record

FILE_SIZE = 1 << 20
TOPICS = ("orders", "%RETRY%billing", "SCHEDULE_TOPIC_XXXX", "logs")
FIRST_TIME = 1_763_600_000_000  # 2025-11-20T00:53:20Z, ms
STEP = 3_000  # ms between two records, so that 28,800 records make a day


class GrowingStore:
    """Appends records number 0, 1, ... as a broker does: whole records into preallocated files."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.root = root
        self.offsets: list[int] = []
        self._seed = seed
        self._end = 0
        (root / "commitlog").mkdir(parents=True)
        self._new_file()

    def append(self, count: int) -> None:
        for _ in range(count):
            self._append_one()

    def _append_one(self) -> None:
        data = encode_record(self._record(len(self.offsets)))
        room = FILE_SIZE - self._end % FILE_SIZE
        if len(data) + layout.BLANK_MIN_SIZE > room:
            self._write(encode_blank(room))
            self._end += room
            self._new_file()
            data = encode_record(self._record(len(self.offsets)))
        self._write(data)
        self.offsets.append(self._end)
        self._end += len(data)

    def _record(self, number: int) -> Record:
        keys = {"KEYS": f"k{number}", "UNIQ_KEY": f"U{number:015d}", "TAGS": f"t{number % 3}"}
        return make_record(
            TOPICS[number % len(TOPICS)],
            b"%d:%d:" % (self._seed, number) + b"." * (number * 37 % 500),
            raw_properties=encode_properties(keys),
            queue_id=number % 8 // 4,
            queue_offset=number // 8,
            physical_offset=self._end,
            born_timestamp=FIRST_TIME + STEP * number - 5,
            store_timestamp=FIRST_TIME + STEP * number,
        )

    def _path(self) -> Path:
        return self.root / "commitlog" / layout.file_name(self._end - self._end % FILE_SIZE)

    def _new_file(self) -> None:
        with self._path().open("wb") as file:
            file.truncate(FILE_SIZE)

    def _write(self, data: bytes) -> None:
        with self._path().open("r+b") as file:
            file.seek(self._end % FILE_SIZE)
            file.write(data)


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
