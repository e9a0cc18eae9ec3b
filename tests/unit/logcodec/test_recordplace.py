"""Which record is whose: every field that says so, and nothing else."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.encoder import RecordEncoder
from hatwisted.logcodec.recordplace import QueueRecords
from hatwisted.store.log.put import Put
from hatwisted.wire import layout

V4, V6 = b"\x0a\0\0\1\0\0\x2a\x9f", bytes(15) + b"\1\0\0\x2a\x9f"
AT = 7000

LENGTH = struct.Struct(">i")


def record(topic: str = "orders", queue_id: int = 3, queue_offset: int = 41, host: bytes = V4) -> bytes:
    """A whole record at log offset AT."""
    put = Put(topic, queue_id, [(0, b"body" * 20, b"KEYS\x01k\x02")], host, 0)
    encoder, parts = RecordEncoder(host), []
    encoder.encode(put, encoder.topic_field(topic), parts, AT, 1_700_000_000_000, queue_offset)
    return b"".join(parts)


class PlaceTests(SynchronousTestCase):
    def test_a_record_of_this_queue_and_place(self) -> None:
        for host in (V4, V6):
            raw = record(host=host)
            self.assertTrue(QueueRecords("orders", 3).has(b"xx" + raw + b"yy", 2, len(raw), 41, AT))

    def test_another_topic_queue_or_place(self) -> None:
        raw = record()
        for queue, place in (
            (("order", 3), (41, AT)),
            (("ordersX", 3), (41, AT)),
            (("orders", 2), (41, AT)),
            (("orders", 3), (40, AT)),
            (("orders", 3), (41, AT + 1)),
        ):
            self.assertFalse(QueueRecords(*queue).has(raw, 0, len(raw), *place), (queue, place))

    def test_a_piece_of_one_is_none(self) -> None:
        raw, records = record(), QueueRecords("orders", 3)
        for size in range(len(raw)):
            self.assertFalse(records.has(raw[:size], 0, len(raw), 41, AT), size)
            self.assertFalse(records.has(raw, 0, size, 41, AT), size)
        self.assertFalse(records.has(raw + b"x", 0, len(raw) + 1, 41, AT))

    def test_lengths_and_marks_that_do_not_fit(self) -> None:
        for at in (layout.MAGIC_AT, layout.BODY_LENGTH_AT, layout.SYS_FLAG_AT + 3):
            raw = bytearray(record())
            raw[at] ^= 0x30
            self.assertFalse(QueueRecords("orders", 3).has(bytes(raw), 0, len(raw), 41, AT), at)

    def test_a_record_too_short_for_the_hosts_that_it_claims(self) -> None:
        put = Put("t", 3, [(0, b"", b"")], V4, 0)
        encoder, parts = RecordEncoder(V4), []
        encoder.encode(put, encoder.topic_field("t"), parts, AT, 1_700_000_000_000, 41)
        raw = bytearray(b"".join(parts))
        self.assertTrue(QueueRecords("t", 3).has(bytes(raw), 0, len(raw), 41, AT))
        raw[layout.SYS_FLAG_AT + 3] ^= layout.SYS_BORN_HOST_V6 | layout.SYS_STORE_HOST_V6
        self.assertFalse(QueueRecords("t", 3).has(bytes(raw), 0, len(raw), 41, AT))

    def test_a_topic_is_looked_for_within_the_record(self) -> None:
        """A length that leads behind it, or before it, to where the topic's name stands, too."""
        raw = record()
        field = raw.rindex(b"\x06orders")
        queue = QueueRecords("orders", 3)
        for more, data, at in (
            (len(raw), raw + raw, 0),
            (-len(raw), raw + raw, len(raw)),
            (-2 * len(raw), raw, 0),
        ):
            (length,) = LENGTH.unpack_from(raw, layout.BODY_LENGTH_AT)
            lied = bytearray(data)
            LENGTH.pack_into(lied, at + layout.BODY_LENGTH_AT, length + more)
            lied[at + field + 1] ^= 1
            self.assertFalse(queue.has(bytes(lied), at, len(raw), 41, AT), more)
