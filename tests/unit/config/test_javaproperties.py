"""The `.properties` syntax, compared with what java.util.Properties itself made of the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.errors import ConfigError
from hatwisted.config.javaproperties import (
    check_text,
    format_property,
    parse_properties,
    with_properties,
)
from hatwisted.wire import javaproperties
from hatwisted.wire.javaproperties import MAX_LINES, Entry
from tests.support.examples import examples
from tests.support.growth import grows_linearly

# [text in ISO-8859-1, what Java's Properties.load gave | null for its IllegalArgumentException]
JAVA_VECTORS = Path(__file__).with_name("java-properties.json")

TEXT = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=20)


def parse(text: str) -> list[Entry]:
    return parse_properties(text.encode("iso-8859-1"), "broker.conf")


class Rewriting(SynchronousTestCase):
    def test_changed_keys_keep_their_place_and_the_rest_stays(self) -> None:
        data = b"# ours\na=1\nb = x\\\n  y\n\na=2\nc:3\n"
        changed = with_properties(data, {"a": "9", "b": "z", "d": "a b"})
        self.assertEqual(changed, b"# ours\nb=z\n\na=9\nc:3\nd=a b\n")
        self.assertEqual(with_properties(changed, {"a": "9"}), changed)
        self.assertEqual(with_properties(b"", {"a": "9"}), b"a=9\n")

    def test_what_is_added_is_an_entry_whatever_the_file_ends_with(self) -> None:
        for data in (b"a=b\\", b"a=b\\\n\n", b"# a\\\n"):
            entries = parse_properties(with_properties(data, {"x": "1"}), "")
            self.assertEqual([entry[:2] for entry in entries if entry.key != "a"], [("x", "1")], data)
            self.assertIn(("a", "b"), [entry[:2] for entry in entries if entry.key == "a"] or [("a", "b")])

    def test_any_value_is_read_back_from_a_file_that_is_taken(self) -> None:
        for value in (
            "a\nbrokerRole=SLAVE",
            "a\rb=c",
            "a\r\nb=c\n",
            "a\0b",
            "\x1b[1m",
            "\x7f",
            "é€",
            "\U0001f680",
            " #=:\\",
        ):
            data = with_properties(b"# ours\n", {"x": value})
            check_text(data, "broker.conf")
            self.assertEqual([entry[:2] for entry in parse_properties(data, "")], [("x", value)])


class PropertiesSyntax(SynchronousTestCase):
    def test_a_file_has_so_many_lines(self) -> None:
        self.assertEqual(len(parse("a=1\n" * MAX_LINES)), MAX_LINES)
        error = self.assertRaises(ConfigError, parse, "\n" * MAX_LINES + "a=1")
        self.assertEqual(str(error), f"broker.conf:{MAX_LINES + 1}: more than {MAX_LINES} lines")

    def test_B14_as_java_reads_it(self) -> None:
        for text, expected in json.loads(JAVA_VECTORS.read_text()):
            if expected is None:
                self.assertRaises(ConfigError, parse, text)
            else:
                self.assertEqual({key: value for key, value, _ in parse(text)}, expected, repr(text))

    def test_comments_separators_and_lines(self) -> None:
        entries = parse("# a\n\nbrokerName = broker-a\r\n! b\r  listenPort:10911\nbrokerRole SLAVE\n")
        self.assertEqual(
            entries, [("brokerName", "broker-a", 3), ("listenPort", "10911", 5), ("brokerRole", "SLAVE", 6)]
        )

    def test_a_continued_entry_has_the_line_it_begins_on(self) -> None:
        self.assertEqual(
            parse("x=1\nlevels=1s \\\n   5s\ny=2"), [("x", "1", 1), ("levels", "1s 5s", 2), ("y", "2", 4)]
        )

    def test_B176_lines_that_go_on_are_each_read_once(self) -> None:
        self.assertEqual(parse("a\\\n" * 1000 + "=1"), [("a" * 1000, "1", 1)])
        self.assertEqual(parse("\\\n# no entry yet\na=1\\\n\\\n"), [("a", "1", 3)])
        self.patch(javaproperties, "MAX_LINES", 1 << 20)
        self.assertTrue(grows_linearly(lambda size: parse("a\\\n" * size), 40_000))

    def test_a_repeated_key_is_kept_in_order(self) -> None:
        self.assertEqual(parse("a=1\na=2"), [("a", "1", 1), ("a", "2", 2)])

    def test_text_is_latin_1_and_escapes_are_utf_16(self) -> None:
        self.assertEqual(parse("a=\xe9\\u20ac\\ud83d\\ude80")[0].value, "é€🚀")

    def test_a_malformed_escape_names_its_line(self) -> None:
        error = self.assertRaises(ConfigError, parse, "a=1\nb=\\u12x4\n")
        self.assertTrue(str(error).startswith("broker.conf:2: "), str(error))

    @examples(30)
    @given(TEXT.filter(bool), TEXT)
    def test_what_is_formatted_is_read_back(self, key: str, value: str) -> None:
        self.assertEqual(parse(format_property(key, value) + "\n"), [(key, value, 1)])
