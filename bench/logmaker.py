"""Commit logs of any size for the pipeline's rows, made at disk speed and the same at every run.

Records differ as real ones do (queue, offsets, times, unique key, body, checksum) but share one length, so
that a block of them is a matrix whose columns numpy fills. Bodies are cut from one pool of JSON lines with
random numbers: they compress about as orders and events do, not like zeros and not like noise. A server's
store was not used because filling 16 GiB through a broker takes minutes and measures nothing here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.record import encode_blank, encode_record, make_record
from hatwisted.wire.storedrecord import Record, crc

FILE_SIZE: Final = 1 << 30
TOPICS: Final = 4
QUEUES: Final = 4
BLOCK_RECORDS: Final = 2048
POOL_LINES: Final = 200_000  # about 18 MB, more than a compressor remembers
FIRST_TIME: Final = 1_750_000_000_000  # ms since the epoch
RECORDS_A_SECOND: Final = 5_000  # of store time; makes the dates of a landed table
HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
KEY_DIGITS: Final = 16


def make_store(
    folder: Path,
    size: int,
    body: int,
    *,
    file_size: int = FILE_SIZE,
    said: Callable[[int], None] | None = None,
) -> int:
    """Write a store of about `size` bytes of log with bodies of `body` bytes; how many records it has."""
    log = folder / "commitlog"
    log.mkdir(parents=True, exist_ok=True)
    block = _Block(body)
    count = base = 0
    while base < size:
        with (log / layout.file_name(base)).open("wb") as file:
            room = min(file_size, size - base) - layout.BLANK_MIN_SIZE
            at = 0
            while (fit := min(BLOCK_RECORDS, (room - at) // block.width)) > 0:
                file.write(block.fill(count, base + at, fit))
                count += fit
                at += fit * block.width
                if said is not None:
                    said(base + at)
            if base + file_size < size:
                file.write(encode_blank(file_size - at))
            file.truncate(file_size)
        base += file_size
    return count


class _Block:
    """A matrix of records, one a row."""

    def __init__(self, body: int) -> None:
        template = encode_record(_record(body))
        self.width = len(template)
        self._body = body
        self._rows = np.tile(np.frombuffer(template, np.uint8), (BLOCK_RECORDS, 1))
        self._topic_at = layout.BODY_AT + body + len(b"\x00") + len("bench-topic-")
        self._key_at = template.index(b"UNIQ_KEY") + len("UNIQ_KEY") + 1
        self._pool = np.frombuffer(_pool(), np.uint8)
        self._random = np.random.default_rng(7)

    def fill(self, first: int, physical: int, count: int) -> bytes:
        """Records number `first` and following, as they stand from `physical` on."""
        numbers = np.arange(first, first + count)
        lane, turn = numbers % (TOPICS * QUEUES), numbers // (TOPICS * QUEUES)
        times = FIRST_TIME + numbers * 1000 // RECORDS_A_SECOND
        self._put(layout.QUEUE_ID_AT, lane // TOPICS, ">i4")
        self._put(layout.QUEUE_OFFSET_AT, turn, ">i8")
        self._put(layout.PHYSICAL_OFFSET_AT, physical + np.arange(count) * self.width, ">i8")
        self._put(layout.BORN_TIMESTAMP_AT, times - numbers % 7, ">i8")
        self._put(layout.STORE_TIMESTAMP_AT, times, ">i8")
        self._rows[:count, self._topic_at] = ord("0") + lane % TOPICS
        shifts = np.arange(4 * (KEY_DIGITS - 1), -1, -4)
        self._rows[:count, self._key_at : self._key_at + KEY_DIGITS] = HEX[numbers[:, None] >> shifts & 15]
        self._bodies(count)
        return self._rows[:count].tobytes()

    def _put(self, at: int, values: np.ndarray, kind: str) -> None:
        encoded = values.astype(kind)
        self._rows[: len(values), at : at + encoded.itemsize] = encoded.view(np.uint8).reshape(
            len(values), -1
        )

    def _bodies(self, count: int) -> None:
        start = int(self._random.integers(0, len(self._pool) - count * self._body))
        cut = self._pool[start : start + count * self._body].reshape(count, self._body)
        self._rows[:count, layout.BODY_AT : layout.BODY_AT + self._body] = cut
        sums = np.fromiter((crc(row.data) for row in cut), np.int64, count)
        self._put(layout.BODY_CRC_AT, sums, ">i4")


def _record(body: int) -> Record:
    properties = {
        "KEYS": "order",
        "UNIQ_KEY": "0" * KEY_DIGITS,
        "WAIT": "true",
        "TAGS": "paid",
    }
    return make_record(
        "bench-topic-0",
        bytes(body),
        raw_properties=encode_properties(properties),
        born_timestamp=FIRST_TIME,
        born_host=HostPort(b"\x0a\x00\x00\x01", 40000),
        store_host=HostPort(b"\x0a\x00\x00\x02", 10911),
    )


def _pool() -> bytes:
    numbers = random.Random(7)
    words = ("paid", "sent", "open", "returned", "lost in the post", "waiting for the customer's answer")
    lines = (
        f'{{"order": {numbers.randrange(10**9)}, "customer": "{numbers.randbytes(6).hex()}", '
        f'"state": "{numbers.choice(words)}", "cents": {numbers.randrange(10**6)}}}\n'.encode()
        for _ in range(POOL_LINES)
    )
    return b"".join(lines)
