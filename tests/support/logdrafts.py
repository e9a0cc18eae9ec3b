"""Logs to decode: laid out as a broker does, of records that hypothesis makes up, and what their rows must be."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import strategies as st

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import make_record
from hatwisted.wire.storedrecord import Record, crc
from tests.support.logbuilder import START_TIME, LogBuilder

TIMES = ("store_timestamp", "born_timestamp")
TRANSACTIONS = {0: "none", 4: "prepared", 8: "commit", 12: "rollback"}

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
PORTS = st.one_of(st.integers(0, 65535), INT32)
HOSTS = st.builds(
    HostPort, st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)), PORTS
)
PIECES = st.sampled_from(
    [
        *(
            b"KEYS",
            b"TAGS",
            b"UNIQ_KEY",
            b"KEY",
            b"WAIT",
            b"UNIQ_KEYS",
            b"a-name-of-its-own",
            b"a-name-of-its-owN",
        ),
        *(
            b"\x01",
            b"\x01",
            b"\x01",
            b"\x02",
            b"\x02",
            b" ",
            b"  ",
            b"k1 k2",
            b"true",
            b"\0",
            b"x",
            b"\xc3\x84",
        ),
        *("🚀".encode(), b"\xff", b"\xfe", b"\xe2\x82"),
    ]
)
WORDS = st.sampled_from(
    ["KEYS", "TAGS", "UNIQ_KEY", "WAIT", "CLUSTER", "DELAY", "a", "ÄÖ", "a long name, longer"]
)
VALUES = st.sampled_from(["true", "k1", "k1 k2", " k ", "1", "🚀x", "v\x01w", " "])
PAIRS = st.lists(st.tuples(WORDS, VALUES), max_size=8).map(
    lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
)
PROPERTIES = st.one_of(
    PAIRS, PAIRS.map(lambda raw: raw + b"\x02" if raw else raw), st.lists(PIECES, max_size=24).map(b"".join)
).map(lambda raw: raw.rstrip(b"\0"))
"""A record whose properties end in a zero byte is taken for torn."""
TOPICS = st.one_of(
    st.sampled_from(["TopicA", "TopicB", "ÄÖ", "%RETRY%group"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.just("L" + "o" * 180 + "ng"),
)
COMPRESSIONS = st.sampled_from([0, 0, 0, 0x1, 0x101, 0x201, 0x301])
TRANSACTION_BITS = st.sampled_from([0, 0, 4, 8, 12])


def compress(body: bytes, sys_flag: int) -> bytes:
    """As a producer with this sysFlag does."""
    if not sys_flag & layout.SYS_COMPRESSED:
        return body
    codec = {0x100: "lz4", 0x200: "zstd"}.get(sys_flag & layout.SYS_COMPRESSION_MASK)
    if codec is None:
        return zlib.compress(body)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()


@dataclass(frozen=True)
class Draft:
    """A record that isn't placed yet, and its body before compression."""

    record: Record
    body: bytes


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """Every kind of record a log may hold."""
    body, flags = (
        draw(st.binary(max_size=200)),
        draw(COMPRESSIONS) | draw(TRANSACTION_BITS) | draw(st.sampled_from([0, 2])),
    )
    topic = draw(TOPICS)
    stored = compress(body, flags)
    record = make_record(
        topic,
        stored,
        raw_properties=draw(PROPERTIES),
        queue_id=draw(INT32),
        queue_offset=draw(INT64),
        flag=draw(INT32),
        sys_flag=flags,
        born_timestamp=draw(INT64),
        born_host=draw(HOSTS),
        store_timestamp=draw(INT64),
        store_host=draw(HOSTS),
        reconsume_times=draw(INT32),
        prepared_transaction_offset=draw(INT64),
        version=2 if len(topic.encode()) > layout.MAX_TOPIC_LENGTH else draw(st.sampled_from([1, 1, 1, 2])),
    )
    if draw(st.integers(0, 9)) == 0:
        record = msgspec.structs.replace(record, body_crc=record.body_crc ^ 1)
    return Draft(record, body)


@dataclass(frozen=True)
class Log:
    """Files by first offset, the placed records, their bodies before compression, and the log's end."""

    files: dict[int, bytes]
    records: list[Record]
    bodies: list[bytes]
    end: int

    def write(self, folder: Path) -> Path:
        """As a store."""
        (folder / "commitlog").mkdir(parents=True)
        for base, data in self.files.items():
            (folder / "commitlog" / layout.file_name(base)).write_bytes(data)
        return folder

    def rows(self, broker: str) -> list[dict[str, Any]]:
        """All records' rows."""
        return [
            row_of(record, body, broker, self.file_of(record.physical_offset))
            for record, body in zip(self.records, self.bodies, strict=True)
        ]

    def file_of(self, offset: int) -> str:
        return layout.file_name(max(base for base in self.files if base <= offset))


def lay_out(found: Sequence[Draft], file_size: int, first: int = 0) -> Log:
    """Back to back, with a blank where a file has no room left; what isn't written is zeros. Times of
    storing ascend."""
    log = LogBuilder(first, file_size)
    for number, draft in enumerate(found):
        log.place(msgspec.structs.replace(draft.record, store_timestamp=START_TIME + number))
    return Log(log.files(), log.records, [draft.body for draft in found], log.end)


def plain(body: bytes, **fields: Any) -> Draft:
    """An ordinary record."""
    return Draft(make_record("TopicA", body, raw_properties=b"TAGS\x01t", **fields), body)


@st.composite
def logs_of(draw: st.DrawFn, least: int, most: int) -> list[Draft]:
    """So many records and one whose checksum is right: a last one with a wrong one isn't taken for whole."""
    return [*draw(st.lists(drafts(), min_size=least, max_size=most)), plain(b"the last")]


def row_of(record: Record, body: bytes, broker: str, file: str) -> dict[str, Any]:
    """The row of a record as the server's own codec reads it; times in us, properties as a dict."""
    properties = record.properties
    return {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "physical_offset": record.physical_offset,
        "size": record.total_size,
        "store_timestamp": microseconds(record.store_timestamp),
        "born_timestamp": microseconds(record.born_timestamp),
        "store_host": str(record.store_host),
        "born_host": str(record.born_host),
        "tags": properties.get("TAGS"),
        "keys": [key for key in properties.get("KEYS", "").split(" ") if key],
        "unique_key": properties.get("UNIQ_KEY"),
        "properties": properties,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "reconsume_times": record.reconsume_times,
        "transaction": TRANSACTIONS[record.transaction_type],
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "body": body,
        "body_crc": record.body_crc,
        "body_crc_ok": not record.body or crc(record.body) == record.body_crc,
        "broker": broker,
        "file": file,
    }


def microseconds(milliseconds: int) -> int | None:
    found = milliseconds * 1000
    return found if abs(found) < 1 << 63 else None


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Rows as `row_of` makes them, after Arrow's own full check of each batch."""
    found = []
    for batch in batches:
        batch.validate(full=True)
        table = pa.Table.from_batches([batch])
        for name in TIMES:
            if name in table.column_names:
                index = table.column_names.index(name)
                table = table.set_column(index, name, table.column(name).cast(pa.int64()))
        for row in table.to_pylist():
            if row.get("properties") is not None:
                pairs = row["properties"]
                row["properties"] = dict(pairs)
                assert len(row["properties"]) == len(pairs), f"a map with a key twice: {pairs}"
            found.append(row)
    return found
