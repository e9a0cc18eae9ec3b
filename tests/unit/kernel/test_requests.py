"""Sends taken from a read: what the compiled twin takes equals what the receiver makes of the same frames."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.remoting import (
    MAX_FRAME,
    MAX_HEADER,
    RemotingCommand,
    SendCommand,
)
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, received

FIELDS = {
    "a": "group",
    "b": "Topic",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x017F000001\x02WAIT\x01true\x02",
    "j": "0",
    "k": "false",
    "m": "false",
}


def header(fields: dict[str, str], code: int = 310, **more: Any) -> bytes:
    """As fastjson writes it."""
    whole = {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7}
    whole |= {"serializeTypeCurrentRPC": "JSON", "version": 407}
    return json.dumps(whole | more, separators=(",", ":")).encode()


def frame(head: bytes, body: bytes = b"body") -> bytes:
    return struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body


SEND = frame(header(FIELDS))


text = st.text(max_size=20) | st.text('ab\x01\x02"\\/\n\x7f', max_size=20)
number = st.integers(-(1 << 33), 1 << 33).map(str) | st.sampled_from(["", "007", "-0", "1e3", " 1", "9" * 19])
truth = st.sampled_from(["true", "false", "1", "0", "True", "", "x"])
KINDS = dict.fromkeys("abcin", text) | dict.fromkeys("defghjl", number) | {"k": truth, "m": truth}


class TakingTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.take = compiled().take_sends

    def taken(self, data: bytes) -> tuple[list[RemotingCommand], int]:
        commands: list[RemotingCommand] = []
        return commands, self.take(data, 0, commands, MAX_FRAME, MAX_HEADER)

    def test_a_javas_send_is_taken(self) -> None:
        for code in (310, 320):
            data = frame(header(FIELDS, code))
            commands, position = self.taken(data * 3)
            self.assertEqual(position, 3 * len(data))
            self.assertEqual(received(data * 3), (commands, 0))
            self.assertIsInstance(commands[0], SendCommand)
            self.assertIsNot(commands[0].ext, commands[1].ext)

    def test_all_escapes_of_one_byte(self) -> None:
        for byte in range(128):
            for digits in (f"{byte:04x}", f"{byte:04X}"):
                data = frame(header(FIELDS).replace(b"UNIQ_KEY", b"\\u" + digits.encode()))
                self.assertEqual(self.taken(data)[1], len(data))
                self.assertEqual(received(data, self.take), received(data))
            data = frame(header(FIELDS).replace(b"UNIQ_KEY", b"\\" + bytes([byte])))
            self.assertEqual(received(data, self.take), received(data))
            data = frame(header(FIELDS).replace(b"UNIQ_KEY", bytes([byte])))
            self.assertEqual(received(data, self.take), received(data))

    def test_what_is_unusual_is_left_to_the_receiver(self) -> None:
        usual = header(FIELDS)
        unusual = [
            usual.replace(b'"code":310', b'"code":311'),
            usual.replace(b'"d":"4"', b'"d":4'),
            usual.replace(b'"d":"4"', b'"d":"04"'),
            usual.replace(b'"d":"4"', b'"d":"2147483648"'),
            usual.replace(b'"d":"4"', b'"d":"4","d":"5"'),
            usual.replace(b'"d":"4",', b""),
            usual.replace(b'"k":"false"', b'"k":"1"'),
            usual.replace(b'"m":', b'"z":'),
            usual.replace(b'"m":', b'"mm":'),
            usual.replace(b"Topic", "Töpic".encode()),
            usual.replace(b"Topic", b"T\\u00e4"),
            usual.replace(b",", b", "),
            usual + b" ",
            usual.replace(b'"flag":0', b'"flag":00'),
        ]
        for head in unusual:
            self.assertEqual(self.taken(frame(head)), ([], 0), head)
            self.assertEqual(received(frame(head), self.take), received(frame(head)), head)

    def test_numbers_of_the_header_are_int32(self) -> None:
        for name in ("flag", "opaque", "version"):
            for number in ((1 << 31) - 1, -(1 << 31)):
                data = frame(header(FIELDS, **{name: number}))
                self.assertEqual(self.taken(data)[1], len(data))
                self.assertEqual(received(data, self.take), received(data))
            for number in (1 << 31, -(1 << 31) - 1, 10**17, 1 << 63):
                data = frame(header(FIELDS, **{name: number}))
                self.assertEqual(self.taken(data), ([], 0), number)
                self.assertEqual(received(SEND + data, self.take), received(SEND + data))

    def test_between_other_frames(self) -> None:
        other = frame(header({"x": "y"}, code=11))
        data = SEND + other + SEND + SEND + other
        self.assertEqual(received(data, self.take), received(data))
        self.assertEqual(self.taken(data)[1], len(SEND))

    def test_a_read_that_ends_anywhere(self) -> None:
        data = SEND + SEND
        for end in range(len(data)):
            self.assertEqual(received(data[:end], self.take), received(data[:end]))
            self.assertEqual(self.taken(data[:end])[1], end // len(SEND) * len(SEND))

    def test_limits_are_the_receivers(self) -> None:
        commands: list[RemotingCommand] = []
        head = len(header(FIELDS))
        self.assertEqual(self.take(SEND, 0, commands, len(SEND) - 1, MAX_HEADER), 0)
        self.assertEqual(self.take(SEND, 0, commands, len(SEND), head - 1), 0)
        self.assertEqual(self.take(SEND, 0, commands, len(SEND), head), len(SEND))
        for position in (len(SEND), len(SEND) + 5, 1 << 60):
            self.assertEqual(self.take(SEND, position, commands, MAX_FRAME, MAX_HEADER), position)
        self.assertRaises(IndexError, self.take, SEND, -1, commands, MAX_FRAME, MAX_HEADER)

    @examples(100)
    @given(
        st.dictionaries(st.sampled_from(sorted(KINDS)), st.just(None), max_size=14),
        st.data(),
        st.integers(-(1 << 40), 1 << 40),
        st.sampled_from([310, 320]),
    )
    def test_any_fields(self, names: dict[str, None], data: st.DataObject, opaque: int, code: int) -> None:
        fields = FIELDS | {name: data.draw(KINDS[name]) for name in names}
        whole = frame(header(fields, code, opaque=opaque, language=data.draw(text)))
        self.assertEqual(received(whole + SEND, self.take), received(whole + SEND))

    @examples(100)
    @given(st.randoms(use_true_random=False))
    def test_any_damage(self, chance: random.Random) -> None:
        data = bytearray(SEND + SEND)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[at] = chance.randrange(256)
            elif chance.random() < 0.5:
                del data[at : at + chance.randrange(1, 20)]
                if not data:
                    return
            else:
                data[at:at] = chance.choice((b'"', b"\\", b"\\u0001", b",", b"}", b"{", b"0", b"\xff", b"\0"))
        self.assertEqual(received(bytes(data), self.take), received(bytes(data)))
