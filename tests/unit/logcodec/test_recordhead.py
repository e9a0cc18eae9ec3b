"""Heads of records agree with the oracle, whatever the hosts, and are none where bytes are missing."""

from __future__ import annotations

from unittest import TestCase

from hatwisted.logcodec.recordhead import MAGICS, read_head
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import encode_record, make_record

HOSTS = (HostPort(bytes(4), 1), HostPort(bytes(16), 1))


class HeadTests(TestCase):
    def test_every_field_with_every_pair_of_hosts(self) -> None:
        for born in HOSTS:
            for store in HOSTS:
                record = make_record(
                    "T", b"body", queue_id=7, queue_offset=1 << 40, physical_offset=(1 << 50) + 3,
                    store_timestamp=1_700_000_000_123, born_host=born, store_host=store, sys_flag=0x9,
                )  # fmt: skip
                raw = encode_record(record)
                head = read_head(b"???" + raw, 3)
                assert head is not None
                self.assertIn(head.magic, MAGICS)
                self.assertEqual((head.size, head.body_length), (len(raw), 4))
                self.assertEqual(raw[head.body_at : head.body_at + 4], b"body")
                for name in ("queue_id", "queue_offset", "physical_offset", "sys_flag", "store_timestamp"):
                    self.assertEqual(getattr(head, name), getattr(record, name), name)
                for size in range(head.body_at):
                    self.assertIsNone(read_head(raw[:size]), size)
