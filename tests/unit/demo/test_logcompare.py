"""Holding two commit logs against each other."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.demo.logcompare import compare_logs
from tests.support.golden import GOLDEN

END = 111_453  # any offset in the second file


class LogCompare(SynchronousTestCase):
    def setUp(self) -> None:
        self.one = str(GOLDEN / "master" / "commitlog")
        self.other = os.path.join(self.mktemp(), "commitlog")
        shutil.copytree(self.one, self.other)

    def change(self, file: int, byte: int) -> None:
        path = Path(self.other, f"{file:020d}")
        content = bytearray(path.read_bytes())
        content[byte] ^= 1
        path.write_bytes(content)

    def test_B88_a_golden_pair_is_byte_identical(self) -> None:
        found = compare_logs(self.one, str(GOLDEN / "slave" / "commitlog"), END)
        self.assertEqual((found.size, found.differs_at), (END, None))
        names = sorted(os.listdir(self.one))
        content = b"".join(Path(self.one, name).read_bytes() for name in names)[:END]
        self.assertEqual(found.digest, hashlib.sha256(content).hexdigest())

    def test_one_bit_is_found(self) -> None:
        self.change(65536, 1234)
        found = compare_logs(self.one, self.other, END)
        self.assertEqual((found.size, found.differs_at), (65536 + 1234, 65536 + 1234))

    def test_bytes_past_the_end_dont_count(self) -> None:
        self.change(65536, END - 65536)
        self.assertIsNone(compare_logs(self.one, self.other, END).differs_at)

    def test_a_missing_file(self) -> None:
        os.remove(os.path.join(self.other, f"{65536:020d}"))
        self.assertEqual(compare_logs(self.one, self.other, END).differs_at, 65536)

    def test_a_shorter_file(self) -> None:
        os.truncate(os.path.join(self.other, f"{0:020d}"), 1000)
        self.assertEqual(compare_logs(self.one, self.other, END).differs_at, 1000)
