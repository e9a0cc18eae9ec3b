"""Others' text for a log, a terminal, a page: one line, of which nothing is obeyed and nothing unseen."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.printable import printable, printable_json

OBEYED = {
    **{chr(code): f"\\x{code:02x}" for code in range(0x20) if chr(code) not in "\t\n\r"},
    "\t": "\\t",
    "\n": "\\n",
    "\r": "\\r",
    **{chr(code): f"\\x{code:02x}" for code in range(0x7F, 0xA0)},
    # Line and paragraph ends, no letter's width, directions of writing, marks of an encoding.
    **{
        chr(code): f"\\u{code:04x}"
        for code in (0x2028, 0x2029, *range(0x200B, 0x2010), *range(0x202A, 0x202F))
    },
    **{
        chr(code): f"\\u{code:04x}"
        for code in (*range(0x2060, 0x2065), *range(0x2066, 0x206A), 0x061C, 0xFEFF)
    },
    "\U000e0001": "\\U000e0001",
    "\ud800": "\\ud800",
}


class PrintableTests(SynchronousTestCase):
    def test_each_of_them_is_an_escape(self) -> None:
        for char, shown in OBEYED.items():
            self.assertEqual(printable(f"a{char}b"), f"a{shown}b", ascii(char))

    def test_letters_of_all_languages_stay(self) -> None:
        for text in ("", "Zürich 東京", "שלום", "👩", "a\\b"):
            self.assertEqual(printable(text), text)

    def test_what_may_stay(self) -> None:
        self.assertEqual(printable("a\n\tb\r\x85", keep="\n\t"), "a\n\tb\\r\\x85")


class JsonTests(SynchronousTestCase):
    def test_it_means_the_same_and_a_terminal_obeys_nothing(self) -> None:
        for char in OBEYED.keys() - {"\ud800"}:
            value = {f"a{char}b": [char, f'"{char}\\']}
            shown = printable_json(json.dumps(value, ensure_ascii=False).encode())
            self.assertEqual(json.loads(shown), value, ascii(char))
            self.assertTrue(shown.decode().isprintable(), shown)

    def test_what_is_printable_is_as_it_was(self) -> None:
        for text in ('{"a": "Zürich 東京 👩"}', '{\n\t"a": 1\n}\n'):
            self.assertEqual(printable_json(text.encode()), text.encode())
