"""Records as a log has them, drawn by lot: plain ones, and ones with something odd."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hatwisted.wire import layout
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import encode_record, make_record

V6 = HostPort(bytes(15) + b"\1", 10911)
V4 = HostPort(b"\x7f\0\0\1", 10911)
BASE = 1 << 20
"""Physical offset of the first."""

pairs = st.sampled_from(
    [
        *(b"TAGS\x01red\x02", b"TAGS\x01\x02", b"TAGS\x01blue", b"TAG\x01x\x02", b"TAGS\x01a\x01b\x02"),
        *(
            b"KEYS\x01a b\x02",
            b"KEYS\x01  a  \x02",
            b"KEYS\x01 \x02",
            b"KEYS\x01" + b"k" * 300 + b"\x02",
            b"KEYS\x01z",
        ),
        *(
            b"UNIQ_KEY\x017F0001\x02",
            b"UNIQ_KEY\x01a b\x02",
            b"\x02\x02",
            b"\x01x\x02",
            b"DELAY\x013\x02",
            b"x",
        ),
        *(b"\x01", b"KEYS", b"TAGS\x02red\x01"),
    ]
)
odd_pairs = st.sampled_from(
    ["TAGS\x01ü\x02".encode(), "KEYS\x01a ü\x02".encode(), "UNIQ_KEY\x01ü\x02".encode()]
)


@st.composite
def records(draw: st.DrawFn, odd: bool) -> dict[str, Any]:
    """Fields of one. odd: also what the kernel leaves to others."""
    areas = st.one_of(pairs, pairs, pairs, odd_pairs) if odd else pairs
    topics = ["T", "Topic", "x" * 127]
    versions = [1]
    if odd:
        topics += ["ü", layout.SCHEDULE_TOPIC]
        versions += [1] * 9 + [2]
    return {
        "topic": draw(st.sampled_from(topics)),
        "body": draw(st.binary(max_size=40)),
        "raw_properties": b"".join(draw(st.lists(areas, max_size=5))),
        "queue_id": draw(st.sampled_from([0, 1, 2, -1, (1 << 31) - 1])),
        "sys_flag": draw(st.sampled_from([0, 0, 0, 1, 4, 8, 12])),
        "born_host": draw(st.sampled_from([V4, V6])),
        "store_host": draw(st.sampled_from([V4, V6])),
        "store_timestamp": draw(st.integers(0, 1 << 45)),
        "version": draw(st.sampled_from(versions)),
    }


def piece(fields: list[dict[str, Any]], first: int = 7) -> bytes:
    """Records back to back, with queue offsets that follow one another in each queue.

    - fields: of each
    - first: queue offset of each queue's first
    """
    data, next_offsets = b"", dict[tuple[str, int], int]()
    for each in fields:
        key = (each["topic"], each["queue_id"])
        offset = next_offsets.get(key, first)
        if not each["sys_flag"] & layout.SYS_UNQUEUED:
            next_offsets[key] = offset + 1
        record = make_record(**each, queue_offset=offset, physical_offset=BASE + len(data))
        data += encode_record(record)
    return data
