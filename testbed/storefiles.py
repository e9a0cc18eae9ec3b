"""What lies in a RocketMQ store folder, read straight from the files and sharing no line with hatwisted.

Enough of the format to judge two stores against each other and against what a producer was promised: the log
as one stream of bytes, its records one by one, and the consume queues that must follow from them.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

RECORD, RECORD_V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
QUEUE_ENTRY = struct.Struct(">qiq")  # log offset, size, tags code
PRE_BLANK = (0, 0x7FFFFFFF, 0)  # fills a queue that doesn't start at 0
TRANSACTION_TYPE, PREPARED, ROLLBACK = 0xC, 0x4, 0xC
_BORN_V6, _STORE_V6 = 0x10, 0x20
_HEAD = 48  # bytes of a record before the host of its birth
_COMPARE_BYTES = 1 << 22


@dataclass(frozen=True)
class StoredMessage:
    """One record of the log at `offset`."""

    offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    flag: int
    sys_flag: int
    born_timestamp: int
    """ms, as the next one."""
    store_timestamp: int
    born_host: str
    """1.2.3.4:5 or [::1]:5, as the next one."""
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    body: bytes
    properties: bytes

    def all_properties(self) -> dict[str, str]:
        """Of one that is there twice the last value."""
        return dict(self._properties())

    def property(self, name: str) -> str | None:
        """Its value; the last one wins."""
        found = [value for key, value in self._properties() if key == name and value]
        return found[-1] if found else None

    def _properties(self) -> Iterator[tuple[str, str]]:
        for piece in self.properties.decode().split("\x02"):
            key, separator, value = piece.partition("\x01")
            if separator:
                yield key, value


class BadStore(AssertionError):
    """The files contradict each other or the format."""


def log_files(store: Path) -> list[tuple[int, Path]]:
    """(first offset, file) of the commit log, in order."""
    folder = store / "commitlog"
    names = sorted(path for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []
    return [(int(path.name), path) for path in names]


def read_log(store: Path) -> Iterator[StoredMessage]:
    """All whole records; ends quietly at zeros or a torn tail. A wrong CRC or own offset raises BadStore."""
    for start, path in log_files(store):
        data, at = path.read_bytes(), 0
        while len(data) - at >= 8:
            size, magic = struct.unpack_from(">iI", data, at)
            if magic == BLANK:
                break
            if magic not in (RECORD, RECORD_V2) or size <= 0 or at + size > len(data):
                return
            yield _decode(data, at, start + at, magic)
            at += size


def read_records(data: bytes) -> list[StoredMessage]:
    """The records of a pull's body, each at the log offset that it names itself."""
    found, at = [], 0
    while at < len(data):
        size, magic, own = *struct.unpack_from(">iI", data, at), *struct.unpack_from(">q", data, at + 28)
        found.append(_decode(data, at, own, magic))
        at += size
    return found


def log_end(store: Path) -> int:
    """End of the last whole record on disk."""
    end = log_files(store)[0][0] if log_files(store) else 0
    for message in read_log(store):
        end = message.offset + message.size
    return end


def _decode(data: bytes, at: int, offset: int, magic: int) -> StoredMessage:
    size, _, crc, queue_id, flag, queue_offset, own, sys_flag, born = struct.unpack_from(
        ">iIiiiqqiq", data, at
    )
    born_host, position = _host(data, at + _HEAD, sys_flag & _BORN_V6)
    (stored,) = struct.unpack_from(">q", data, position)
    store_host, position = _host(data, position + 8, sys_flag & _STORE_V6)
    reconsumed, prepared = struct.unpack_from(">iq", data, position)
    position += 12
    (length,) = struct.unpack_from(">i", data, position)
    body = data[position + 4 : position + 4 + length]
    position += 4 + length
    prefix = ">b" if magic == RECORD else ">h"
    (length,) = struct.unpack_from(prefix, data, position)
    position += struct.calcsize(prefix)
    topic = data[position : position + length].decode()
    position += length
    (length,) = struct.unpack_from(">h", data, position)
    properties = data[position + 2 : position + 2 + length]
    if own != offset or position + 2 + length != at + size:
        raise BadStore(
            f"record at {offset} says offset {own}, size {size}, its fields end at {position + 2 + length}"
        )
    if body and crc != zlib.crc32(body) & 0x7FFFFFFF:
        raise BadStore(f"record at {offset} has a wrong CRC")
    return StoredMessage(
        *(offset, size, topic, queue_id, queue_offset, flag, sys_flag, born, stored, born_host, store_host),
        *(reconsumed, prepared, crc, body, properties),
    )


def _host(data: bytes, at: int, is_v6: int) -> tuple[str, int]:
    """An address, and where it ends."""
    end = at + (16 if is_v6 else 4)
    address = ip_address(data[at:end])
    (port,) = struct.unpack_from(">i", data, end)
    return f"[{address}]:{port}" if is_v6 else f"{address}:{port}", end + 4


def first_difference(one: Path, other: Path, end: int) -> int | None:
    """First log offset below `end` where two stores differ, from where both begin on, or None."""
    files, others = dict(log_files(one)), dict(log_files(other))
    if not files or not others:
        return None if end == 0 else 0
    begin = max(min(files), min(others))
    for start in sorted(files.keys() | others.keys()):
        if start < begin or start >= end:
            continue
        if start not in files or start not in others:
            return start
        found = _differ(files[start], others[start], end - start)
        if found is not None:
            return start + found
    return None


def difference_told(one: Path, other: Path, at: int) -> str:
    """What two stores have at a log offset where they differ, for whoever has to find out why.

    - at: as `first_difference` gives it
    """
    lines, rests = list[str](), list[bytes]()
    for store in (one, other):
        start, path = max((file for file in log_files(store) if file[0] <= at), default=(0, None))
        rests.append(path.read_bytes()[at - start :] if path else b"")
        mine = [message for message in _readable(store) if message.offset <= at]
        last = mine[-1] if mine else None
        around = f"record {last.offset} + {last.size}, {last.topic}" if last else "no record"
        lines.append(f"{store.name}: {rests[-1][:32].hex(' ')}, file from {start}, {around}")
    pairs = zip(*rests, strict=False)
    unequal = [place for place, (left, right) in enumerate(pairs) if left != right]
    span = unequal[-1] + 1 if unequal else 0
    zeros = [rest.count(0, 0, span) for rest in rests]
    lines.append(
        f"{len(unequal)} of {span} bytes from {at} on differ in that file, zeros among them: {zeros}"
    )
    return "\n".join(lines)


def _readable(store: Path) -> Iterator[StoredMessage]:
    with contextlib.suppress(BadStore, struct.error, UnicodeDecodeError):
        yield from read_log(store)


def _differ(one: Path, other: Path, limit: int) -> int | None:
    with open(one, "rb") as a, open(other, "rb") as b:
        at = 0
        while at < limit:
            want = min(_COMPARE_BYTES, limit - at)
            left, right = a.read(want), b.read(want)
            if left != right:
                pairs = enumerate(zip(left, right, strict=False))
                shorter = min(len(left), len(right))
                return at + next((i for i, (x, y) in pairs if x != y), shorter)
            if not left:
                return None  # both files end here
            at += len(left)
    return None


def java_hash(text: str) -> int:
    """String.hashCode, signed 32 bits, over UTF-16 units."""
    units = text.encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def read_queue(store: Path, topic: str, queue_id: int) -> dict[int, tuple[int, int, int]]:
    """index -> (log offset, size, tags code) of the entries on disk, without pre-blank and unwritten ones."""
    folder = store / "consumequeue" / topic / str(queue_id)
    entries: dict[int, tuple[int, int, int]] = {}
    for path in sorted(folder.iterdir()) if folder.exists() else []:
        first = int(path.name) // QUEUE_ENTRY.size
        data = path.read_bytes()
        whole = len(data) - len(data) % QUEUE_ENTRY.size
        for number, entry in enumerate(QUEUE_ENTRY.iter_unpack(data[:whole])):
            if entry[1] > 0 and entry != PRE_BLANK:
                entries[first + number] = entry
    return entries


def expected_queues(store: Path) -> dict[tuple[str, int], dict[int, tuple[int, int, int]]]:
    """What the consume queues must hold, from the log alone (delayed messages aren't covered)."""
    queues: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for message in read_log(store):
        if message.sys_flag & TRANSACTION_TYPE in (PREPARED, ROLLBACK):
            continue
        tag = message.property("TAGS")
        entry = (message.offset, message.size, java_hash(tag) if tag else 0)
        index = message.queue_offset
        if index in queues[message.topic, message.queue_id]:
            raise BadStore(f"queue offset {index} of {message.topic}/{message.queue_id} was given twice")
        queues[message.topic, message.queue_id][index] = entry
    return queues


def check_queues(store: Path) -> int:
    """Compare all consume queues with the log; returns the number of entries, raises BadStore."""
    checked = 0
    for (topic, queue_id), expected in expected_queues(store).items():
        found = read_queue(store, topic, queue_id)
        wrong = [index for index, entry in expected.items() if found.get(index) != entry]
        if wrong:
            index = wrong[0]
            raise BadStore(
                f"{store}: queue {topic}/{queue_id} has {len(wrong)} of {len(expected)} entries wrong or "
                f"missing, the first is {index}: {found.get(index)} instead of {expected[index]}"
            )
        beyond = [index for index in found if index > max(expected)]
        if beyond:
            raise BadStore(f"{store}: queue {topic}/{queue_id} has entry {beyond[0]} without a record")
        checked += len(expected)
    return checked
