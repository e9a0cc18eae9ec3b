"""fastjson's dialect: golden config files byte for byte, real bodies, and text that is neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.fastjson import (
    MAX_BARE_REQUEST,
    MAX_DEPTH,
    MAX_SLOW,
    MAX_SLOW_REQUEST,
    MAX_VALUES_REQUEST,
    FastjsonError,
    dumps_compact,
    dumps_pretty,
    loads,
    loads_request,
)
from tests.support import golden
from tests.support.examples import examples
from tests.support.growth import grows_linearly


def _refused(text: str) -> None:
    try:
        loads(text)
    except FastjsonError:
        return
    raise AssertionError("it was read")


def with_int_keys(value: Any) -> Any:
    """Text keys that are numbers as the ints they stand for, which is how tables are held in memory."""
    if not isinstance(value, dict):
        return value
    numeric = bool(value) and all(key.isdigit() for key in value)
    return {int(key) if numeric else key: with_int_keys(item) for key, item in value.items()}


class Queue(msgspec.Struct, frozen=True, rename="camel"):
    broker_name: str
    queue_id: int
    topic: str


class ConfigFiles(SynchronousTestCase):
    def test_B108_golden_files_are_written_back_to_their_bytes(self) -> None:
        pretty = [
            path
            for path in golden.config_files()
            if path.parts[-3:] != ("slave", "config", "delayOffset.json")
        ]
        self.assertEqual(len(pretty), 9)
        for path in pretty:
            self.assertEqual(dumps_pretty(with_int_keys(loads(path.read_bytes()))), path.read_bytes(), path)

    def test_B104_slave_delay_offsets_are_the_compact_answer(self) -> None:
        data = (golden.GOLDEN / "slave/config/delayOffset.json").read_bytes()
        self.assertEqual(loads(data), {"offsetTable": {"1": 3, "2": 2}})

    def test_lists_and_structs_in_the_pretty_format(self) -> None:
        value = {"list": [1, Queue("b", 0, "T")], "none": [], "map": {}}
        lines = (
            "{",
            '\t"list":[',
            "\t\t1,",
            "\t\t{",
            '\t\t\t"brokerName":"b",',
            '\t\t\t"queueId":0,',
            '\t\t\t"topic":"T"',
            "\t\t}",
            "\t],",
            '\t"none":[],',
            '\t"map":{}',
            "}",
        )
        self.assertEqual(dumps_pretty(value).decode(), "\n".join(lines))


class Bodies(SynchronousTestCase):
    def test_B108_bare_and_quoted_integer_keys_read_alike(self) -> None:
        expected = {"offsetTable": {"t@g": {"0": 5, "1": 7}}}
        self.assertEqual(loads(b'{"offsetTable":{"t@g":{0:5,1:7}}}'), expected)
        self.assertEqual(loads('{"offsetTable":{"t@g":{"0":5, "1":7}}}'), expected)
        self.assertEqual(loads(dumps_compact(with_int_keys(expected))), expected)

    def test_bare_keys_inside_texts_are_left_alone(self) -> None:
        self.assertEqual(loads(r'{"a,1:2{3:":"{4:5}\",{6:7}",8:9}'), {"a,1:2{3:": '{4:5}",{6:7}', "8": 9})

    def test_every_golden_answer_is_read(self) -> None:
        for name, answer in golden.answers().items():
            self.assertIsInstance(loads(answer["body"].encode()), dict, name)

    def test_objects_as_keys(self) -> None:
        text = '{"offsetTable":{{"topic":"T","brokerName":"b", "queueId":0}:{"maxOffset":3,1:[2,null,true]}}}'
        key = '{"brokerName":"b","queueId":0,"topic":"T"}'
        self.assertEqual(loads(text), {"offsetTable": {key: {"maxOffset": 3, "1": [2, None, True]}}})
        written = dumps_compact({"offsetTable": {Queue("b", 0, "T"): {"maxOffset": 3}}})
        self.assertEqual(written.decode(), '{"offsetTable":{' + key + ':{"maxOffset":3}}}')

    def test_compact_keys_are_quoted(self) -> None:
        self.assertEqual(dumps_compact({0: "h:1", 1: "h:2"}), b'{"0":"h:1","1":"h:2"}')


class Refusals(SynchronousTestCase):
    def test_neither_json_nor_dialect(self) -> None:
        for text in (
            "",
            "{",
            "{1}",
            "{1:}",
            "{1:2",
            "[1,",
            "[1 2]",
            "{a:1}",
            '{"a" 1}',
            "1 2",
            '"open',
            "{:1}",
            '{1:"\\x"}',
            "}",
            ",",
        ):
            error = self.assertRaises(FastjsonError, loads, text)
            self.assertTrue(str(error))
        self.assertRaises(FastjsonError, loads, b'{1:"\xff"}')

    def test_nesting_has_a_limit(self) -> None:
        for text in ("[" * 100_000, "{1:" * 100_000, "{{" * 1000):
            self.assertRaises(FastjsonError, loads, text)
        deepest = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
        self.assertEqual(list(loads("{{}:" + deepest + "}")), ["{}"])

    def test_B176_what_is_refused_is_read_once(self) -> None:
        hostile: list[Callable[[int], str]] = [
            lambda size: '{"clientID":"' + '\\"' * size,
            lambda size: '{"a":"' + "\\" * (2 * size + 1),
            lambda size: '{1:"x' + '\\"' * size + '"',
            lambda size: "{," + " " * size,
            lambda size: "{" + "1" * size + " " * size + "x",
            lambda size: "{1:1" + "," * size,
            lambda size: "{1:" + "x" * size + "}",
        ]
        for number, text in enumerate(hostile):
            self.assertRaises(FastjsonError, loads, text(100))
            self.assertTrue(grows_linearly(lambda size, text=text: _refused(text(size)), 2000), number)

    def test_a_key_holds_no_keys_that_are_objects(self) -> None:
        self.assertEqual(loads('{{"a":{"b":1}}:2}'), {'{"a":{"b":1}}': 2})
        self.assertEqual(loads('{{"a":1}:{{"b":2}:3},[1]:4}'), {'{"a":1}': {'{"b":2}': 3}, "[1]": 4})
        # Each level would double the backslashes before the quotes of those below.
        self.assertRaises(FastjsonError, loads, "{" * 60 + '"a":1' + "}:1" * 59 + "}")
        self.assertRaises(FastjsonError, loads, '{[{{"a":1}:1}]:1}')

    def test_the_small_parser_reads_so_much_and_no_more(self) -> None:
        self.assertEqual(loads("{{}:1" + " " * (MAX_SLOW - 6) + "}"), {"{}": 1})
        self.assertRaises(FastjsonError, loads, "{{}:1" + " " * (MAX_SLOW - 5) + "}")
        self.assertEqual(loads_request(b"{{}:1" + b" " * (MAX_SLOW_REQUEST - 6) + b"}"), {"{}": 1})
        self.assertRaises(FastjsonError, loads_request, b"{{}:1" + b" " * (MAX_SLOW_REQUEST - 5) + b"}")

    def test_a_request_has_so_many_values_and_no_more(self) -> None:
        for separator in (b",", b'","', b"||"):
            head, tail = (b"[", b"]") if separator == b"," else (b'["', b'"]')
            most = head + separator.join([b"1"] * MAX_VALUES_REQUEST) + tail
            loads_request(most)
            self.assertRaises(FastjsonError, loads_request, most[: -len(tail)] + separator + b"1" + tail)
            loads(most[: -len(tail)] + separator + b"1" + tail)

    def test_integers_as_keys_are_looked_for_in_so_much_of_a_request_and_no_more(self) -> None:
        padding = b" " * (MAX_BARE_REQUEST - len(b"{1:1}"))
        self.assertEqual(loads_request(b"{1:1" + padding + b"}"), {"1": 1})
        self.assertRaises(FastjsonError, loads_request, b"{1:1" + padding + b" }")
        self.assertEqual(loads_request(b'{"1":1' + padding + b" }"), {"1": 1})
        self.assertEqual(loads(b"{1:1" + padding + b" }"), {"1": 1})

    @examples(100)
    @given(
        st.lists(
            st.sampled_from(["{", "}", "[", "]", ":", ",", '"', '"a"', "1", "-2", "true", "x", " ", "\\"]),
            max_size=12,
        )
    )
    def test_any_text_is_read_or_refused(self, pieces: list[str]) -> None:
        try:
            loads("".join(pieces))
        except FastjsonError:
            return

    values = st.recursive(
        st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=12,
    )

    @examples(50)
    @given(values)
    def test_what_is_written_is_read_back(self, value: Any) -> None:
        self.assertEqual(loads(dumps_compact(value)), value)
        self.assertEqual(loads(dumps_pretty(value)), value)
