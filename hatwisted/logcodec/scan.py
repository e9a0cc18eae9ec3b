"""The records of a piece of log as columns: where they are, whether they are complete, what their fields say.

Everything that reads the log from end to end (dispatch to queues and index, recovery, offline tools, Arrow
batches) goes through here, so it is built for speed. The starts of the records come first, in one of two ways
that follow the chain of sizes to the byte. `walk` is a tight loop, some 100 ns a record. For small records it is
faster to look at every byte: `search` finds the first byte of the magic, and each candidate must carry the offset
it lies at and begin where its predecessor ends; where one doesn't (a body may hold a whole record) the loop
decides. Then numpy gathers the fixed fields of all records at once, through a view of 88 bytes at every byte
position whose indexing is one memcpy a record, and every length is checked, as `wire.recordreader` does for one.
Topics are distinguished by `topicgroups`. What the properties say is a second step
(`dispatchscan`), because recovery needs only this one.

Numpy calls cost about 1 us each, however small the arrays, so a handful of records is decoded one by
one instead: see `fewscan`, which must agree with this in every detail, as both must with `wire.record`.

Heads with IPv6 hosts are brought into the form of the others, so that later steps don't see the difference,
except those that need the hosts. Rejected: numba (not everywhere where this has to run).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from hatwisted.logcodec.octets import Buffer, Longs, at_every_byte
from hatwisted.logcodec.topicgroups import group_topics
from hatwisted.wire import layout
from hatwisted.wire.recordreader import decode_record
from hatwisted.wire.storedrecord import CorruptRecord, Record

MAX_RECORDS: Final = 2048
"""Records of one scan: bounds the time of one step of the dispatch (about 2 ms) and its scratch memory,
however small the records."""

NO_LIMIT: Final = 1 << 62
"""For callers that limit a scan by its bytes."""

LARGEST_RECORD: Final = 64 << 20
"""Bytes; a record that claims to be longer is damage rather than something to read into memory. RocketMQ's default
limit is 4 MiB and 64 KiB."""

WALK_FROM: Final = 600
"""Bytes of an average record from which on walking (per record) is cheaper than searching (per byte)."""


class Stop(enum.Enum):
    """Why a scan ended where it ended."""

    LIMIT = "as far as was asked for"
    NEED_DATA = "the record continues past the buffer"
    BLANK = "the rest of the file is filler"
    END = "nothing is written here"
    CORRUPT = "no valid record"


class ScanEnd(NamedTuple):
    """Where and why a scan ended.

    position: in the buffer, after the last valid record; size: bytes of the blank, or of the record that
    continues after the buffer (0 if not even its head is there); reason: what is wrong, for CORRUPT.
    """

    position: int
    stop: Stop
    size: int = 0
    reason: str = ""


HEAD: Final = np.dtype(
    {
        "names": [
            *("size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag"),
            *("born_timestamp", "born_host", "store_timestamp", "store_host", "reconsume_times"),
            *("prepared_transaction_offset", "body_length"),
        ],
        "formats": [
            *(">i4", ">i4", ">i4", ">i4", ">i4", ">i8", ">i8", ">i4"),
            *(">i8", ">u8", ">i8", ">u8", ">i4"),
            *(">i8", ">u4"),
        ],
        "offsets": [
            *(layout.TOTAL_SIZE_AT, layout.MAGIC_AT, layout.BODY_CRC_AT, layout.QUEUE_ID_AT, layout.FLAG_AT),
            *(layout.QUEUE_OFFSET_AT, layout.PHYSICAL_OFFSET_AT, layout.SYS_FLAG_AT),
            *(layout.BORN_TIMESTAMP_AT, layout.BORN_HOST_AT, layout.STORE_TIMESTAMP_AT, layout.STORE_HOST_AT),
            *(layout.RECONSUME_TIMES_AT, layout.PREPARED_OFFSET_AT, layout.BODY_LENGTH_AT),
        ],
        "itemsize": layout.BODY_AT,
    }
)
"""A record's head with IPv4 hosts, each host as one number: address, then port. The body length is read unsigned:
a negative one then points far beyond the buffer instead of before it."""

_HEAD: Final = struct.Struct(">ii").unpack_from
_V6: Final = layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6
_MOVED: Final = (
    ("store_timestamp", layout.STORE_TIMESTAMP_AT, False),
    ("reconsume_times", layout.RECONSUME_TIMES_AT, True),
    ("prepared_transaction_offset", layout.PREPARED_OFFSET_AT, True),
    ("body_length", layout.BODY_LENGTH_AT, True),
)
"""Fields after a host: name, place with IPv4 hosts, and whether it is after both."""


def walk(
    buf: Buffer, start: int = 0, limit: int = MAX_RECORDS, before: int = NO_LIMIT
) -> tuple[list[int], ScanEnd]:
    """Positions of the records that follow one another, by magic and size alone.

    - buf: a piece of log
    - start: position of the first
    - limit: records at most
    - before: no record that starts at this position or after it
    """
    positions: list[int] = []
    add, head = positions.append, _HEAD
    magic_v1, smallest, end = layout.MAGIC_V1_SIGNED, layout.FIXED_SIZE, len(buf)
    at, last = start, end - layout.BLANK_HEAD_SIZE
    if before <= last:
        last = before - 1
    stop = None
    for _ in range(limit):
        if at > last:
            stop = ScanEnd(at, Stop.LIMIT if at >= before else Stop.NEED_DATA)
            break
        size, magic = head(buf, at)
        if (magic != magic_v1 and magic != layout.MAGIC_V2_SIGNED) or size < smallest:
            stop = look(buf, at)
            break
        add(at)
        at += size
    if at > end:
        at = positions.pop()
        stop = look(buf, at)
    return positions, stop or ScanEnd(at, Stop.LIMIT)


def search(buf: Buffer, base: int, start: int, before: int) -> tuple[list[int] | Longs, ScanEnd]:
    """The same positions, found by looking for the magic.

    - buf: a piece of log
    - base: physical offset of its first byte
    - start: position of the first
    - before: no record that starts at this position or after it
    """
    last = min(before, len(buf) - layout.BODY_AT + 1)
    octets = np.frombuffer(buf, np.uint8)[start + layout.MAGIC_AT : max(start, last) + layout.MAGIC_AT]
    starts: Longs = np.flatnonzero(octets == layout.MAGIC_V1 >> 24) + start
    starts = starts[at_every_byte(buf, 8, ">i8")[starts + layout.PHYSICAL_OFFSET_AT] == starts + base]
    if not len(starts) or starts[0] != start:
        return walk(buf, start, NO_LIMIT, before)
    ends: Longs = starts + at_every_byte(buf, 4, ">i4")[starts]
    if not np.array_equal(ends[:-1], starts[1:]):
        return walk(buf, start, NO_LIMIT, before)
    at = int(ends[-1])
    if not starts[-1] + layout.FIXED_SIZE <= at <= len(buf):
        return starts[:-1], look(buf, int(starts[-1]), base)
    return starts, ScanEnd(at, Stop.LIMIT) if at >= before else look(buf, at, base)


def look(buf: Buffer, at: int, base: int | None = None, check_crc: bool = False) -> ScanEnd:
    """What is at a position where the chain of valid records ends.

    - buf: a piece of log
    - at: the position
    - base: physical offset of the piece's first byte; None: records carry any offset
    - check_crc: compare body checksums
    """
    if len(buf) - at < layout.BLANK_HEAD_SIZE:
        return ScanEnd(at, Stop.NEED_DATA)
    offset = None if base is None else base + at
    try:
        found = decode_record(buf, at, check_crc=check_crc, at=offset, max_size=LARGEST_RECORD)
    except CorruptRecord as error:
        return ScanEnd(at, Stop.CORRUPT, 0, error.reason)
    size, magic = _HEAD(buf, at)
    if magic == layout.MAGIC_BLANK_SIGNED:
        return ScanEnd(at, Stop.BLANK, size)
    if magic == 0:
        return ScanEnd(at, Stop.END)
    if isinstance(found, Record):
        return ScanEnd(at, Stop.CORRUPT, 0, "the lengths contradict each other")
    return ScanEnd(at, Stop.NEED_DATA, size)


@dataclass(slots=True)
class Records:
    """The whole valid records of a piece of log, one column per field, n rows in log order.

    buf, base: the piece and the physical offset of its first byte. positions, sizes: in the buffer, bytes.
    heads: HEAD[n]; its common fields are columns of their own, timestamps in ms. topics:
    the distinct ones; topic_rows: index into them. The body is [body_at, body_ends); the properties reach from
    properties_at to the record's end. end: where and why the scan stopped.
    """

    buf: Buffer
    base: int
    positions: Longs
    sizes: Longs
    heads: npt.NDArray[Any]
    queue_ids: Longs
    queue_offsets: Longs
    sys_flags: Longs
    store_timestamps: Longs
    body_at: Longs
    body_ends: Longs
    topics: list[str]
    topic_rows: Longs
    properties_at: Longs
    end: ScanEnd

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def physical_offsets(self) -> Longs:
        """int64[n]."""
        return self.positions + self.base

    @property
    def ends(self) -> Longs:
        """int64[n]: positions after the records."""
        return self.positions + self.sizes

    @property
    def octets(self) -> npt.NDArray[np.uint8]:
        """The buffer, which all positions are indices of."""
        return np.frombuffer(self.buf, np.uint8)

    @property
    def end_offset(self) -> int:
        """Physical offset after the last record."""
        return self.base + self.end.position

    def take(self, rows: npt.NDArray[Any] | slice) -> Records:
        """Only these rows (a mask, indices or a slice); topics and end stay."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _ROWS})


_ROWS: Final = tuple(
    field.name for field in fields(Records) if field.name not in ("buf", "base", "topics", "end")
)


def scan_records(
    buf: Buffer,
    base: int,
    *,
    start: int = 0,
    before: int = NO_LIMIT,
    mean_size: float = WALK_FROM,
    check_crc: bool = False,
) -> Records:
    """The records of a piece of log. One counts if its magic and all its lengths are right, it carries the offset
    it lies at, and, with `check_crc`, its body's checksum is right. The scan stops at the first that doesn't.

    - buf: the piece
    - base: physical offset of its first byte
    - start: position in it of the first record
    - before: no record counts that starts at this position or after it
    - mean_size: typical size of a record here, in bytes, which decides how they are looked for
    - check_crc: compare body checksums
    """
    positions: list[int] | Longs
    if mean_size >= WALK_FROM:
        positions, end = walk(buf, start, NO_LIMIT, before)
    else:
        positions, end = search(buf, base, start, before)
    return gather(buf, base, positions, end, check_crc)


def gather(
    buf: Buffer,
    base: int,
    positions: list[int] | Longs,
    end: ScanEnd,
    check_crc: bool = False,
    placed: bool = True,
) -> Records:
    """The columns of walked records, cut before the first that isn't valid.

    - buf: the piece of log
    - base: physical offset of its first byte
    - positions: where in it the records begin
    - end: why there are no more
    - check_crc: compare body checksums
    - placed: do they carry the offset they lie at? Not in what a broker answers to a pull
    """
    at = np.array(positions, np.int64)
    if not len(at):
        return Records(buf, base, at, at, np.empty(0, HEAD), at, at, at, at, at, at, [], at, at, end)
    heads = at_every_byte(buf, layout.BODY_AT)[at].view(HEAD)
    sys_flags = heads["sys_flag"].astype(np.int64)
    body_at = at + layout.BODY_AT
    if (sys_flags & _V6).any():
        _level_ipv6(buf, at, heads, sys_flags, body_at)
    sizes = heads["size"].astype(np.int64)
    body_ends: Longs = body_at + heads["body_length"]
    topic_at, topic_lengths, properties_at, valid = _parts(buf, heads["magic"], at + sizes, body_ends)
    if placed:
        valid &= heads["physical_offset"] == at + base
    count = len(at) if valid.all() else int(np.argmin(valid))
    if check_crc:
        count = _check_bodies(buf, body_at[:count], body_ends[:count], heads["body_crc"][:count])
    names, topic_rows = group_topics(buf, topic_at[:count], topic_lengths[:count])
    topics, count = _decode_topics(names, topic_rows)
    records = Records(
        buf=buf,
        base=base,
        positions=at,
        sizes=sizes,
        heads=heads,
        queue_ids=heads["queue_id"].astype(np.int64),
        queue_offsets=heads["queue_offset"].astype(np.int64),
        sys_flags=sys_flags,
        store_timestamps=heads["store_timestamp"].astype(np.int64),
        body_at=body_at,
        body_ends=body_ends,
        topics=topics,
        topic_rows=topic_rows,
        properties_at=properties_at,
        end=end,
    )
    if count < len(at):
        records = records.take(slice(count))
        records.end = look(buf, int(positions[count]), base if placed else None, check_crc)
    return records


def _level_ipv6(buf: Buffer, at: Longs, heads: npt.NDArray[Any], sys_flags: Longs, body_at: Longs) -> None:
    """Put what follows long host fields where it would be after short ones. Positions are clipped into the
    buffer: a record too short for its hosts then gets some length that doesn't add up."""
    rows = np.flatnonzero(sys_flags & _V6)
    born = (sys_flags[rows] >> 4 & 1) * layout.IPV6_EXTRA
    both = born + (sys_flags[rows] >> 5 & 1) * layout.IPV6_EXTRA
    for name, field_at, behind_both in _MOVED:
        kind = HEAD[name]
        moved = at[rows] + field_at + (both if behind_both else born)
        heads[name][rows] = at_every_byte(buf, kind.itemsize, kind.str)[
            np.minimum(moved, len(buf) - kind.itemsize)
        ]
    body_at[rows] += both


def _parts(
    buf: Buffer, magics: npt.NDArray[Any], ends: Longs, body_ends: Longs
) -> tuple[Longs, Longs, Longs, npt.NDArray[np.bool_]]:
    """Topic start and length, properties start, and which records have a known magic and lengths that add up.

    Positions beyond the buffer are clipped for reading; the unclipped ones don't add up then.
    """
    octets = np.frombuffer(buf, np.uint8)
    topic_lengths = octets[np.minimum(body_ends, len(buf) - 1)].astype(np.int64)
    topic_at = body_ends + 1
    too_long = topic_lengths
    others = magics != layout.MAGIC_V1_SIGNED
    if others.any():
        rows = np.flatnonzero(magics == layout.MAGIC_V2_SIGNED)
        topic_lengths[rows] = at_every_byte(buf, 2, ">u2")[np.minimum(body_ends[rows], len(buf) - 2)]
        topic_at[rows] += 1
        too_long = topic_lengths.copy()
        too_long[rows] >>= 8
        others[rows] = False
        too_long[others] = 0x80
    properties_at = topic_at + topic_lengths + 2
    properties_lengths = at_every_byte(buf, 2, ">u2")[np.minimum(properties_at, len(buf)) - 2].astype(
        np.int64
    )
    valid = properties_at + properties_lengths == ends
    valid &= (too_long | properties_lengths >> 8) < 0x80
    return topic_at, topic_lengths, properties_at, valid


def _check_bodies(buf: Buffer, starts: Longs, ends: Longs, stored: npt.NDArray[Any]) -> int:
    """How many records from the first on have the right body checksum (an empty body has none)."""
    view = memoryview(buf)
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    right = (
        np.array([crc32(view[start:end]) for start, end in spans], np.uint32) & layout.CRC_MASK
    ) == stored
    right |= starts == ends
    return len(starts) if right.all() else int(np.argmin(right))


def _decode_topics(names: list[bytes], rows: Longs) -> tuple[list[str], int]:
    """Topics as text, and how many records come before the first whose topic isn't UTF-8."""
    topics: list[str] = []
    count = len(rows)
    for index, name in enumerate(names):
        try:
            topics.append(name.decode())
        except UnicodeDecodeError:
            topics.append("")
            count = min(count, int(np.argmax(rows == index)))
    return topics, count
