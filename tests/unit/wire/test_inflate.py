"""Inflating what somebody else has compressed: whole, cut anywhere, too much, and no zlib at all."""

from __future__ import annotations

import zlib
from unittest import TestCase

from hatwisted.wire.inflate import NotInflated, inflate

PLAIN = bytes(range(256)) * 40


class InflateTests(TestCase):
    def test_as_much_as_allowed_and_not_a_byte_more(self) -> None:
        packed = zlib.compress(PLAIN)
        self.assertEqual(inflate(packed, len(PLAIN)), PLAIN)
        with self.assertRaisesRegex(NotInflated, f"more than {len(PLAIN) - 1} bytes"):
            inflate(packed, len(PLAIN) - 1)

    def test_cut_anywhere_it_is_none(self) -> None:
        packed = zlib.compress(PLAIN)
        for size in range(len(packed)):
            with self.assertRaises(NotInflated):
                inflate(packed[:size])

    def test_other_bytes(self) -> None:
        with self.assertRaisesRegex(NotInflated, "not zlib"):
            inflate(b"plain text")
