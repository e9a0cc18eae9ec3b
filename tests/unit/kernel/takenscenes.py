"""Sends as Java's clients write them, for both ways that the compiled twin takes them from a read, and the scenes
that both have to play: whatever is in a read, what is taken equals what the receiver makes of it."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.kernel.limits import SEEN_TOPICS
from hatwisted.wire.remoting import MAX_FRAME, MAX_HEADER, RemotingCommand
from tests.support.kerneltwins import NOT_BUILT, compiled

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


text = st.text(max_size=20) | st.text('ab\x01\x02"\\/\n\x7f', max_size=20)
number = st.integers(-(1 << 33), 1 << 33).map(str) | st.sampled_from(["", "007", "-0", "1e3", " 1", "9" * 19])
truth = st.sampled_from(["true", "false", "1", "0", "True", "", "x"])
OPAQUES = st.integers(-(1 << 40), 1 << 40)
CODES = st.sampled_from([310, 320])
KINDS = dict.fromkeys("abcin", text) | dict.fromkeys("defghjl", number) | {"k": truth, "m": truth}

DEBRIS = (b'"', b"\\", b"\\u0001", b",", b"}", b"{", b"0", b"\xff", b"\0")
"""What damage puts between a frame's bytes."""


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """With bytes changed, left out, or put in between."""
    data = bytearray(whole)
    for _ in range(chance.randrange(1, 5)):
        if not data:
            break
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[at] = chance.randrange(256)
        elif chance.random() < 0.5:
            del data[at : at + chance.randrange(1, 20)]
        else:
            data[at:at] = chance.choice(DEBRIS)
    return bytes(data)


class Scenes:
    """Of one way, for a test case.

    - way: its name in the compiled twin
    - received: what the receiver makes of a read, without it or with it
    - fields: of the usual send
    - kinds: what hypothesis may put into each field
    """

    class Case(SynchronousTestCase):
        """In a class of its own: the scenes by themselves are nobody's tests."""

        way: str
        fields: dict[str, str]
        kinds: dict[str, st.SearchStrategy[str]]
        received: Callable[..., Any]

        def setUp(self) -> None:
            if NOT_BUILT:
                self.skipTest(NOT_BUILT)
            self.take = getattr(compiled(), self.way)
            self.send = frame(header(self.fields))

        def taken(self, data: bytes) -> tuple[list[RemotingCommand], int]:
            commands: list[RemotingCommand] = []
            return commands, self.take(data, 0, commands, MAX_FRAME, MAX_HEADER)

        def assert_as_received(self, data: bytes) -> None:
            self.assertEqual(self.received(data, self.take), self.received(data), data)

        def assert_left(self, head: bytes) -> None:
            """To the receiver."""
            self.assertEqual(self.taken(frame(head)), ([], 0), head)
            self.assert_as_received(self.send + frame(head))

        def test_a_javas_send_is_taken(self) -> None:
            for code in (310, 320):
                data = frame(header(self.fields, code))
                commands, position = self.taken(data * 3)
                self.assertEqual(position, 3 * len(data))
                self.assertIsNot(commands[0].ext, commands[1].ext)
                self.assert_as_received(data * 3)

        def topics_of(self, names: list[str]) -> list[str]:
            data = b"".join(frame(header(self.fields | {"b": name})) for name in names)
            topics = [command.header.topic for command in self.taken(data)[0]]  # type: ignore[attr-defined]
            self.assertEqual(topics, names)
            return topics

        def test_topics_come_again_as_the_same_objects(self) -> None:
            """Those that others haven't taken the place of; and none that is longer than a topic may be."""
            topics = self.topics_of([f"Topic{number}" for number in range(64)] * 2)
            self.assertGreater(sum(topics[number] is topics[64 + number] for number in range(64)), 48)
            self.topics_of([f"T{number:04d}" for number in range(3 * SEEN_TOPICS)] * 2)
            for length, kept in ((127, True), (128, False)):
                first, _, again = self.topics_of(["t" * length, "T", "t" * length])
                self.assertIs(first is again, kept)

        def test_all_escapes_of_one_byte(self) -> None:
            usual = header(self.fields)
            for byte in range(128):
                for escape in (b"\\u%04x" % byte, b"\\u%04X" % byte):
                    data = frame(usual.replace(b"UNIQ_KEY", escape).replace(b"account", escape))
                    self.assertEqual(self.taken(data)[1], len(data))
                    self.assert_as_received(data)
                for other in (b"\\" + bytes([byte]), bytes([byte])):
                    self.assert_as_received(frame(usual.replace(b"UNIQ_KEY", other)))

        def test_what_is_unusual_is_left_to_the_receiver(self) -> None:
            usual = header(self.fields)
            for old, new in (
                (b'"code":310', b'"code":311'),
                (b'"d":"4"', b'"d":4'),
                (b'"d":"4"', b'"d":"04"'),
                (b'"d":"4"', b'"d":"-0"'),
                (b'"d":"4"', b'"d":"2147483648"'),
                (b'"d":"4"', b'"d":"4","d":"5"'),
                (b'"d":"4",', b""),
                (b'"k":"false"', b'"k":"1"'),
                (b'"k":"false"', b'"k":"False"'),
                *((b'"m":', b'"%b":' % name) for name in (b"z", b"o", b"mm", b"", b"A", b"\x80")),
                (b"Topic", "T\u00f6pic".encode()),
                (b"Topic", b"T\\u00e4"),
                (b'"flag":0', b'"flag":00'),
                (b",", b", "),
                (b'"version":407}', b'"version":407} '),
            ):
                self.assert_left(changed(usual, old, new))

        def test_numbers_of_the_header_are_int32(self) -> None:
            for name in ("flag", "opaque", "version"):
                for number in ((1 << 31) - 1, -(1 << 31)):
                    data = frame(header(self.fields, **{name: number}))
                    self.assertEqual(self.taken(data)[1], len(data))
                    self.assert_as_received(data)
                for number in (1 << 31, -(1 << 31) - 1, 10**17, 1 << 63):
                    self.assert_left(header(self.fields, **{name: number}))

        def test_between_other_frames(self) -> None:
            other = frame(header({"x": "y"}, code=11))
            data = self.send + other + self.send + self.send + other
            self.assert_as_received(data)
            self.assertEqual(self.taken(data)[1], len(self.send))

        def test_a_read_that_ends_anywhere(self) -> None:
            size = len(self.send)
            data = self.send * 2
            for end in range(len(data)):
                self.assert_as_received(data[:end])
                self.assertEqual(self.taken(data[:end])[1], end // size * size)

        def test_limits_are_the_receivers(self) -> None:
            send, size, head = self.send, len(self.send), len(header(self.fields))
            commands: list[RemotingCommand] = []
            self.assertEqual(self.take(send, 0, commands, size - 1, MAX_HEADER), 0)
            self.assertEqual(self.take(send, 0, commands, size, head - 1), 0)
            self.assertEqual(self.take(send, 0, commands, size, head), size)
            for position in (size, size + 5, 1 << 60):
                self.assertEqual(self.take(send, position, commands, MAX_FRAME, MAX_HEADER), position)
            self.assertRaises(IndexError, self.take, send, -1, commands, MAX_FRAME, MAX_HEADER)

        def assert_fields_as_received(self, data: st.DataObject, opaque: int, code: int) -> None:
            """Whichever fields.

            - data: draws them
            - opaque, code: of the header
            """
            names = data.draw(st.lists(st.sampled_from(sorted(self.kinds)), unique=True, max_size=14))
            fields = self.fields | {name: data.draw(self.kinds[name]) for name in names}
            whole = frame(header(fields, code, opaque=opaque, language=data.draw(text)))
            self.assert_as_received(whole + self.send)


def changed(head: bytes, old: bytes, new: bytes) -> bytes:
    """A header with something else in it, which must have been there.

    - head: the header
    - old, new: its bytes
    """
    assert old in head, old
    return head.replace(old, new)
