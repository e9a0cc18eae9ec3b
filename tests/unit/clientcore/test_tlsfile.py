"""A file of TLS properties as clients read it. What it says is tested where commands take it."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.tlsfile import MAX_SIZE, read_properties


class TlsFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp())

    def test_one_that_is_too_large_is_refused_not_cut(self) -> None:
        self.path.write_bytes(b"\na=1".rjust(MAX_SIZE, b"#"))
        self.assertEqual(read_properties(self.path), {"a": "1"})
        self.path.write_bytes(b"\na=1".rjust(MAX_SIZE + 1, b"#"))
        error = self.assertRaises(BadSetting, read_properties, self.path)
        self.assertEqual(str(error), f"{self.path}: more than 65536 bytes are no file of TLS properties")

    def test_what_cannot_be_read_names_the_place(self) -> None:
        self.path.write_bytes(b"a=\\u12\n")
        error = self.assertRaises(BadSetting, read_properties, self.path)
        self.assertIn(f"{self.path}:1: malformed", str(error))
        error = self.assertRaises(BadSetting, read_properties, self.path / "none")
        self.assertIn("can't be read: Not a directory", str(error))
