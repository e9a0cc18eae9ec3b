"""A log of any length that takes next to no room: records with bodies of zeros, which files needn't have."""

from __future__ import annotations

from pathlib import Path
from struct import pack_into

from hatwisted.wire import layout
from hatwisted.wire.record import encode_blank, encode_record, make_record

FILE_SIZE = 1 << 30
BODY_BYTES = 4 << 20
"""The most that brokers take."""
FIRST_TIME = 1_763_600_000_000


QUEUE_OFFSET, PHYSICAL_OFFSET, STORED = 20, 28, 56
"""Where in a record they are, eight bytes each."""


def save_sparse_log(store: Path, files: int, body_bytes: int = BODY_BYTES) -> int:
    """A store's log of so many full files, and how many records it has.

    - store: its folder
    - files: of 1 GiB each
    - body_bytes: of each record
    """
    (store / "commitlog").mkdir(parents=True)
    body = bytes(body_bytes)
    record = encode_record(make_record("Zeros", body, born_timestamp=FIRST_TIME))
    begin = record.index(body)
    head, tail = bytearray(record[:begin]), record[begin + body_bytes :]
    in_a_file, count = (FILE_SIZE - layout.BLANK_MIN_SIZE) // len(record), 0
    for number in range(files):
        base = number * FILE_SIZE
        with open(store / "commitlog" / layout.file_name(base), "wb") as file:
            file.truncate(FILE_SIZE)
            for at in range(0, in_a_file * len(record), len(record)):
                pack_into(">qq", head, QUEUE_OFFSET, count, base + at)
                pack_into(">q", head, STORED, FIRST_TIME + count)
                file.seek(at)
                file.write(head)
                file.seek(at + begin + body_bytes)
                file.write(tail)
                count += 1
            file.seek(in_a_file * len(record))
            file.write(encode_blank(FILE_SIZE - in_a_file * len(record))[: layout.BLANK_HEAD_SIZE])
    return count
