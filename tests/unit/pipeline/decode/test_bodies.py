"""Compressed bodies and their limits, and records as 5.3.3 wrote them."""

from __future__ import annotations

import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import TestCase
from unittest.mock import patch

from hatwisted.pipeline.decode import bodies
from hatwisted.pipeline.decode.bodies import BadBody, decompress
from hatwisted.pipeline.decode.decode import decode_buffer
from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.wire.record import decode_record
from hatwisted.wire.storedrecord import Record
from tests.support.logdrafts import Draft, compress, lay_out, plain, row_of, rows_of
from tests.unit.wire.test_recordreader import BOTH_HOSTS_V6, LONG_TOPIC_V2

KINDS = (0x1, 0x101, 0x201, 0x301)
LIMIT = 1 << 20
"""Bytes of a batch."""


class Bodies(TestCase):
    def test_every_compression_there_and_back(self) -> None:
        for body in (b"", b"x", b"x" * 100_000):
            for kind in KINDS:
                self.assertEqual(decompress(memoryview(compress(body, kind)), kind), body)

    def test_a_body_cut_short_or_not_compressed_at_all(self) -> None:
        for kind in KINDS:
            stored = compress(b"some text " * 50, kind)
            for broken in (stored[: len(stored) // 2], b"", b"some text"):
                with self.assertRaises(BadBody):
                    decompress(memoryview(broken), kind)
        with self.assertRaisesRegex(BadBody, "unknown compression"):
            decompress(memoryview(b"x"), 0x701)

    def test_a_body_grows_to_its_limit_and_no_further(self) -> None:
        for kind in KINDS:
            stored = memoryview(compress(bytes(1000), kind))
            self.assertEqual(len(decompress(stored, kind, limit=1000)), 1000)
            with self.assertRaisesRegex(BadBody, "more than 999 bytes"):
                decompress(stored, kind, limit=999)

    def test_many_bodies_that_grow_come_in_several_batches(self) -> None:
        size = LIMIT // 3 + 1
        found = [plain(b"small"), *[big(size)] * 7, plain(b"small")]
        with TemporaryDirectory() as folder, patch.object(bodies, "BATCH_BYTES", LIMIT):
            log = lay_out(found, 1 << 20)
            (split,) = LogStore.open(str(log.write(Path(folder) / "store"))).splits()
            batches = list(read_split(split, ["body", "physical_offset"]))
        self.assertEqual([batch.num_rows for batch in batches], [4, 3, 2])
        lengths = [len(body) for batch in batches for body in batch.column("body").to_pylist()]
        self.assertEqual(lengths, [5, *[size] * 7, 5])
        offsets = [offset for batch in batches for offset in batch.column("physical_offset").to_pylist()]
        self.assertEqual(offsets, [record.physical_offset for record in log.records])


class Written533(TestCase):
    """Version 2 for a long topic, and both hosts IPv6, byte for byte as a 5.3.3 store has them."""

    def test_columns(self) -> None:
        for data, store_host, topic in (
            (LONG_TOPIC_V2, "10.9.8.7:10911", "L" + "o" * 180 + "ng"),
            (BOTH_HOSTS_V6, "[fd00::34]:10911", "T2"),
        ):
            record = decode_record(data)
            assert isinstance(record, Record)
            (row,) = rows_of([decode_buffer(data, broker="b", file="f")])
            self.assertEqual(row, row_of(record, record.body, "b", "f"))
            self.assertEqual((row["store_host"], row["topic"]), (store_host, topic))
        self.assertEqual(row["tags"], "🚀x")


def big(size: int) -> Draft:
    """So many zeros, compressed."""
    return Draft(plain(zlib.compress(bytes(size)), sys_flag=0x301).record, bytes(size))
