"""Which record is whose: every field that says so, and nothing else."""

import pytest

from hatwisted.logcodec.encoder import RecordEncoder
from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.store.log.put import Put
from hatwisted.wire import layout

V4, V6 = b"\x0a\0\0\1\0\0\x2a\x9f", bytes(15) + b"\1\0\0\x2a\x9f"
AT = 7000


def record(topic: str = "orders", queue_id: int = 3, queue_offset: int = 41, host: bytes = V4) -> bytes:
    """A whole record at log offset AT."""
    put = Put(topic, queue_id, [(0, b"body" * 20, b"KEYS\x01k\x02")], host, 0)
    encoder, parts = RecordEncoder(host), []
    encoder.encode(put, encoder.topic_field(topic), parts, AT, 1_700_000_000_000, queue_offset)
    return b"".join(parts)


@pytest.mark.parametrize("host", [V4, V6], ids=["IPv4", "IPv6"])
def test_a_record_of_this_queue_and_place(host: bytes) -> None:
    raw = record(host=host)
    assert QueueRecords("orders", 3).has(b"xx" + raw + b"yy", 2, len(raw), 41, AT)


@pytest.mark.parametrize(
    ("queue", "place"),
    [
        (("order", 3), (41, AT)),
        (("ordersX", 3), (41, AT)),
        (("orders", 2), (41, AT)),
        (("orders", 3), (40, AT)),
        (("orders", 3), (41, AT + 1)),
    ],
    ids=["shorter topic", "longer topic", "queue", "queue offset", "place in the log"],
)
def test_another_one(queue: tuple[str, int], place: tuple[int, int]) -> None:
    raw = record()
    assert not QueueRecords(*queue).has(raw, 0, len(raw), *place)


def test_a_piece_of_one_is_none() -> None:
    raw, records = record(), QueueRecords("orders", 3)
    assert not any(records.has(raw[:size], 0, len(raw), 41, AT) for size in range(len(raw)))
    assert not any(records.has(raw, 0, size, 41, AT) for size in range(len(raw)))
    assert not records.has(raw + b"x", 0, len(raw) + 1, 41, AT)


@pytest.mark.parametrize("at", [layout.MAGIC_AT, layout.BODY_LENGTH_AT, layout.SYS_FLAG_AT + 3])
def test_lengths_and_marks_that_do_not_fit(at: int) -> None:
    raw = bytearray(record())
    raw[at] ^= 0x30
    assert not QueueRecords("orders", 3).has(bytes(raw), 0, len(raw), 41, AT)
