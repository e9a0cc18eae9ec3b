"""Remoting frames: real requests and answers, cut everywhere, from careless and from hostile peers."""

from __future__ import annotations

import itertools
import json
import random
from typing import ClassVar

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import (
    MAX_FRAME,
    MAX_HEADER,
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    SendCommand,
    encode_command,
    encode_command_parts,
    encode_send_response,
    send_response_fields,
)
from hatwisted.wire.requestheader import parse_send_v2
from tests.support import golden
from tests.support.examples import examples

BINARY_ROUTE_REQUEST = bytes.fromhex(
    "0000002a 01000026 0069 00 0197 00000002 00000000 00000000 00000011 0005 746f706963 00000006 544257313032"
)
SEND_HEADER = (
    b'{"code":310,"extFields":{"a":"g","b":"T","c":"TBW102","d":"4","e":"0","f":"0","g":"1795221957475","h":"0",'
    b'"i":"KEYS\\u0001k\\u0002TAGS\\u0001t","j":"0","k":"false","m":"false"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":407}'
)


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    length = 4 + len(header) + len(body)
    return length.to_bytes(4, "big") + bytes([kind]) + len(header).to_bytes(3, "big") + header + body


SEND = frame(SEND_HEADER, b"sync")


def one(data: bytes) -> RemotingCommand:
    (command,) = RemotingReceiver().receive(data)
    return command


class Decoding(SynchronousTestCase):
    """What real clients send."""

    def test_java_send(self) -> None:
        self.assertEqual(SEND[:8], bytes.fromhex("0000010b00000103"))
        command = one(SEND)
        self.assertEqual(
            (command.code, command.opaque, command.version), (RequestCode.SEND_MESSAGE_V2, 7, 407)
        )
        self.assertEqual(command.ext["i"], "KEYS\x01k\x02TAGS\x01t")
        self.assertEqual((command.body, command.binary, command.remark), (b"sync", False, None))
        self.assertFalse(command.is_response or command.is_oneway)

    def test_binary_header(self) -> None:
        command = one(BINARY_ROUTE_REQUEST)
        expected = RemotingCommand(105, 2, 0, "JAVA", 407, None, {"topic": "TBW102"}, b"", True)
        self.assertEqual(command, expected)
        self.assertEqual(encode_command(command), BINARY_ROUTE_REQUEST)

    def test_ext_fields_may_be_missing_or_null(self) -> None:
        self.assertEqual(one(frame(b'{"code":43,"flag":0,"opaque":1}')).ext, {})
        self.assertEqual(one(frame(b'{"code":43,"extFields":null,"opaque":1,"remark":null}')).ext, {})

    def test_numbers_and_booleans_become_text(self) -> None:
        header = b'{"code":11,"extFields":{"queueId":0,"k":false,"x":true,"r":1.50,"n":null,"s":"t\\u0001"}}'
        self.assertEqual(
            one(frame(header)).ext, {"queueId": "0", "k": "false", "x": "true", "r": "1.50", "s": "t\x01"}
        )

    def test_everything_else_careless(self) -> None:
        header = b'{"code":"34","flag":"1","opaque":"9","language":4,"version":null,"remark":""}\n'
        command = one(frame(header, b"{}\n"))
        self.assertEqual((command.code, command.flag, command.opaque, command.version), (34, 1, 9, 0))
        self.assertEqual((command.language, command.remark, command.body), ("DELPHI", "", b"{}\n"))

    def test_unknown_fields_and_languages_are_normal(self) -> None:
        command = one(
            frame(b'{"code":1,"language":"COBOL","later":{"a":[1]},"body":"eA==","opaque":3}', b"real")
        )
        self.assertEqual((command.language, command.body), ("COBOL", b"real"))

    def test_text_that_is_none_is_read_as_java_reads_it(self) -> None:
        for sent, read in (
            (rb"a\ud800b", "a?b"),
            (rb"a\udc00\ud83d", "a??"),
            (rb"\ud83d\ude00\ud83d", "\U0001f600?"),
            (rb"\\ud800 \udc00", r"\ud800 ?"),
            (b"a\xff\xfeb", "a\ufffd\ufffdb"),
            (b"K\x01v\x02\x00", "K\x01v\x02\x00"),
        ):
            for code in (12, 310):
                command = one(frame(b'{"code":%d,"extFields":{"i":"%b"},\n"opaque":7}' % (code, sent)))
                self.assertEqual((command.code, command.opaque, command.ext), (code, 7, {"i": read}))
        binary = b"\0\7\0\1\x97\0\0\0\7\0\0\0\0\0\0\0\0\0\0\0\x09\0\1i\0\0\0\2\xffb"
        self.assertEqual(one(frame(binary, kind=1)).ext, {"i": "\ufffdb"})

    def test_flags(self) -> None:
        self.assertTrue(one(frame(b'{"code":1,"flag":1}')).is_response)
        self.assertTrue(one(frame(b'{"code":1,"flag":2}')).is_oneway)

    def test_binary_with_remark_and_unknown_language(self) -> None:
        command = RemotingCommand(
            17, 5, 1, "OTHER", 479, "nicht gefunden: Ä", {"k": "v", "ü": ""}, b"body", True
        )
        self.assertEqual(one(encode_command(command)), command)
        raw = bytearray(encode_command(command))
        raw[10] = 99
        self.assertEqual(one(bytes(raw)).language, "OTHER")


class Pieces(SynchronousTestCase):
    """A socket cuts where it likes."""

    stream = SEND + BINARY_ROUTE_REQUEST + frame(b'{"code":34,"opaque":8}') + SEND

    def test_cut_at_every_byte(self) -> None:
        whole = RemotingReceiver().receive(self.stream)
        self.assertEqual([command.opaque for command in whole], [7, 2, 8, 7])
        for cut in range(len(self.stream) + 1):
            receiver = RemotingReceiver()
            got = receiver.receive(self.stream[:cut])
            self.assertEqual(got, whole[: len(got)])
            self.assertEqual(got + receiver.receive(self.stream[cut:]), whole, cut)
            self.assertEqual(receiver.buffered, 0)

    def test_byte_by_byte(self) -> None:
        receiver = RemotingReceiver()
        got = [command for byte in self.stream for command in receiver.receive(bytes([byte]))]
        self.assertEqual(got, RemotingReceiver().receive(self.stream))

    def test_trailing_bytes_are_held(self) -> None:
        receiver = RemotingReceiver()
        self.assertEqual(len(receiver.receive(SEND + SEND[:11])), 1)
        self.assertEqual(receiver.buffered, 11)
        self.assertEqual(receiver.receive(SEND[11:]), [one(SEND)])

    def test_big_frame_in_reads_of_the_reactor(self) -> None:
        command = RemotingCommand(320, 1, body=random.Random(2).randbytes(12_000_000))
        data = encode_command(command)
        receiver = RemotingReceiver()
        got = [
            found for at in range(0, len(data), 65536) for found in receiver.receive(data[at : at + 65536])
        ]
        self.assertEqual(got, [command])

    def test_dribbled_bytes_are_held_in_few_pieces(self) -> None:
        receiver = RemotingReceiver()
        data = encode_command(RemotingCommand(10, body=bytes(100_000)))
        for at in range(0, len(data) - 2, 2):
            receiver.receive(data[at : at + 2])
        self.assertLess(len(receiver._pieces), 30)
        self.assertEqual(len(receiver.receive(data[-2:])), 1)

    @examples(20)
    @given(st.lists(st.integers(1, 400), min_size=1, max_size=20))
    def test_B151_any_split_gives_the_same_commands(self, steps: list[int]) -> None:
        receiver = RemotingReceiver()
        got: list[RemotingCommand] = []
        position = turn = 0
        while position < len(self.stream):
            step = steps[turn % len(steps)]
            got += receiver.receive(self.stream[position : position + step])
            position, turn = position + step, turn + 1
        self.assertEqual(got, RemotingReceiver().receive(self.stream))


class Refusals(SynchronousTestCase):
    """Bytes that are no frame end in RemotingProtocolError, as early as they can be recognised."""

    def assertRefused(self, data: bytes, reason: str) -> None:
        error = self.assertRaises(RemotingProtocolError, RemotingReceiver().receive, data)
        self.assertIn(reason, error.reason)

    def test_frame_above_16_mib(self) -> None:
        self.assertRefused((MAX_FRAME - 3).to_bytes(4, "big"), "frame of")
        self.assertRefused(b"\xff\xff\xff\xff\0\0\0\1", "at most")
        self.assertEqual(RemotingReceiver().receive((MAX_FRAME - 4).to_bytes(4, "big") + bytes(4)), [])

    def test_frame_without_room_for_its_header(self) -> None:
        self.assertRefused(b"\0\0\0\3", "frame of 3 bytes")
        self.assertRefused(b"\0\0\0\5\0\0\0\2", "header of 2 bytes in a frame of 5")

    def test_header_above_the_limit(self) -> None:
        size = MAX_HEADER + 1
        self.assertRefused((4 + size).to_bytes(4, "big") + size.to_bytes(4, "big"), "header of")

    def test_unknown_header_type(self) -> None:
        self.assertRefused(frame(b"{}", kind=2), "unknown header type 2")

    def test_tls_and_http_on_the_plain_port(self) -> None:
        self.assertRefused(bytes.fromhex("16030100a5010000"), "at most")
        self.assertRefused(b"GET / HTTP/1.1\r\n\r\n", "at most")

    def test_headers_that_are_no_command(self) -> None:
        for header in (
            b"",
            b"{",
            b"[]",
            b'"x"',
            b"{}",
            b'{"code":null',
            b'{"code":"x"}',
            b'{"code":{}}',
            b"\xff\xfe",
            b"[" * 5000,
            b'{"code":28,"extFields":' + b'{"a":' * 50_000,
        ):
            self.assertRefused(frame(header), "unreadable header")
        self.assertRefused(frame(b'{"code":"\xff"}'), "unreadable header")

    def test_numbers_beyond_int32(self) -> None:
        """RocketMQ's decoder fails for these, and its server closes the connection."""
        usual = {"code": b"310", "flag": b"0", "opaque": b"7", "version": b"407"}
        receivers: list[dict[str, bool]] = [{}, {"typed_sends": True}, {"signed_sends": True}]
        for name, value in usual.items():
            was = b'"%b":%b' % (name.encode(), value)
            for number in (1 << 31, -(1 << 31) - 1, 1 << 32, 1 << 63, -(1 << 63) - 1, 10**40):
                for quote, kinds in itertools.product((b"", b'"'), receivers):
                    text = b"%d" % number
                    odd = SEND_HEADER.replace(was, b'"%b":%b%b%b' % (name.encode(), quote, text, quote))
                    self.assertNotEqual(odd, SEND_HEADER)
                    error = self.assertRaises(
                        RemotingProtocolError, RemotingReceiver(**kinds).receive, SEND + frame(odd)
                    )
                    self.assertIn("unreadable header", error.reason)
                    self.assertLess(len(error.reason), 250)
            for number in ((1 << 31) - 1, -(1 << 31)):
                text = b'"%b":%d' % (name.encode(), number)
                for kinds in receivers:
                    (command,) = RemotingReceiver(**kinds).receive(frame(SEND_HEADER.replace(was, text)))
                    self.assertEqual(getattr(command, name), number)

    def test_a_number_of_more_digits_than_python_reads(self) -> None:
        """Beyond 4,300 digits `int` refuses, and not as a decoder does."""
        digits = b"9" * 5000
        for name in (b"code", b"flag", b"opaque", b"version"):
            for number in (digits, b"-" + digits, b'"%b"' % digits):
                header = b'{"code":28,"%b":%b}' % (name, number)
                self.assertRefused(frame(header), "unreadable header")
        for header in (SEND_HEADER, b'{"code":28,"extFields":{"x":1}}'):
            at = header.index(b'"extFields":{') + len(b'"extFields":{')
            odd = header[:at] + b'"n":%b,' % digits + header[at:]
            for kinds in ({}, {"typed_sends": True}, {"signed_sends": True}):
                (command,) = RemotingReceiver(**kinds).receive(frame(odd))
                self.assertEqual(command.ext["n"], digits.decode())

    def test_binary_headers_that_are_no_command(self) -> None:
        good = BINARY_ROUTE_REQUEST[8:]
        for header in (
            b"",
            good[:-1],
            good + b"\0",
            good[:13] + b"\xff\xff\xff\xff" + good[17:],
            good[:21] + b"\xff\xff" + good[23:],
        ):
            self.assertRefused(frame(header, kind=1), "unreadable header")

    def test_position_points_at_the_bad_frame(self) -> None:
        error = self.assertRaises(RemotingProtocolError, RemotingReceiver().receive, SEND + frame(b"?"))
        self.assertEqual(error.position, len(SEND))

    @examples(100)
    @given(st.binary(max_size=80), st.integers(0, 3))
    def test_any_header_gives_a_command_or_the_one_error(self, noise: bytes, kind: int) -> None:
        try:
            RemotingReceiver().receive(frame(noise, b"", kind))
        except RemotingProtocolError:
            return

    def test_mutated_requests_give_commands_or_the_one_error(self) -> None:
        chance = random.Random(310)
        for _ in range(4000):
            data = bytearray(chance.choice((SEND, BINARY_ROUTE_REQUEST)))
            for _ in range(chance.randrange(1, 5)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            try:
                RemotingReceiver().receive(bytes(data))
            except RemotingProtocolError:
                continue


class Encoding(SynchronousTestCase):
    """What we send."""

    def test_golden_answers_are_encoded_as_they_came(self) -> None:
        """An empty extFields object is the one thing left out when written again; nobody reads it."""
        for name, answer in golden.answers().items():
            header = json.dumps(answer["header"], separators=(",", ":"), sort_keys=True).encode()
            body = answer["body"].encode()
            command = one(frame(header, body))
            self.assertTrue(command.is_response, name)
            self.assertEqual(
                encode_command(command), frame(header.replace(b'"extFields":{},', b""), body), name
            )

    def test_java_send_is_encoded_as_it_came(self) -> None:
        self.assertEqual(encode_command(one(SEND)), SEND)

    def test_parts_keep_the_body_uncopied(self) -> None:
        command = RemotingCommand(11, 3, body=b"records")
        head, body = encode_command_parts(command)
        self.assertIs(body, command.body)
        self.assertEqual(head + body, encode_command(command))
        self.assertEqual(len(encode_command_parts(RemotingCommand(11, 3))), 1)

    def test_send_response_equals_the_general_encoder(self) -> None:
        stored = (3, 77, "7F00000100002A9F00000000000000E3")
        data = encode_send_response(9, *stored)
        command = one(data)
        self.assertEqual((command.code, command.opaque, command.flag, command.binary), (0, 9, 1, False))
        self.assertIsNone(command.remark)
        self.assertEqual((command.ext["queueId"], command.ext["queueOffset"]), ("3", "77"))
        self.assertEqual(command.ext["msgId"], "7F00000100002A9F00000000000000E3")
        self.assertEqual(command.ext, send_response_fields(*stored))
        self.assertEqual(encode_command(command), data)

    def test_what_does_not_fit_a_binary_header_is_our_mistake(self) -> None:
        self.assertRaises(ValueError, encode_command, RemotingCommand(70000, binary=True))
        self.assertRaises(ValueError, encode_command, RemotingCommand(1, ext={"x" * 40000: ""}, binary=True))

    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    int32 = st.integers(-(1 << 31), (1 << 31) - 1)

    @examples(60)
    @given(
        st.builds(
            RemotingCommand,
            code=st.integers(-(1 << 15), (1 << 15) - 1),
            opaque=int32,
            flag=int32,
            language=st.sampled_from(("JAVA", "GO", "OTHER")),
            version=st.integers(0, 500),
            remark=text.filter(bool) | st.none(),
            ext=st.dictionaries(text, text, max_size=5),
            body=st.binary(max_size=50),
            binary=st.booleans(),
        )
    )
    def test_what_is_written_is_read_back(self, command: RemotingCommand) -> None:
        data = encode_command(command)
        self.assertEqual(RemotingReceiver().receive(data), [command])
        if not command.binary:
            msgspec.json.decode(data[8 : 8 + int.from_bytes(data[5:8], "big")])


class TypedSends(SynchronousTestCase):
    """A broker's receiver decodes good sends in one go and must agree with the ordinary way in all else."""

    FIELDS: ClassVar[dict[str, str]] = {
        "a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1795221957475", "h": "0",
        "i": "TAGS\x01t", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip

    def both(self, frame: bytes) -> tuple[RemotingCommand, RemotingCommand]:
        (typed,) = RemotingReceiver(typed_sends=True).receive(frame)
        (plain,) = RemotingReceiver().receive(frame)
        return typed, plain

    def test_a_good_send_has_its_header_decoded(self) -> None:
        for code in (310, 320):
            command = RemotingCommand(code, 5, ext={**self.FIELDS, "n": "b", "unknown": "x"}, body=b"hi")
            typed, plain = self.both(encode_command(command))
            assert isinstance(typed, SendCommand)
            self.assertEqual(typed.header, parse_send_v2(plain.ext))
            self.assertEqual((typed.code, typed.opaque, typed.body, typed.binary), (code, 5, b"hi", False))

    def test_anything_else_takes_the_ordinary_way(self) -> None:
        odd = [{**self.FIELDS, name: value} for name, value in (("e", "x"), ("f", str(1 << 40)), ("j", ""))]
        commands = [RemotingCommand(310, 1, ext=ext) for ext in odd]
        commands += [RemotingCommand(310, 1, ext={"a": "g"}), RemotingCommand(310, 1)]
        commands += [
            RemotingCommand(310, 1, ext=self.FIELDS, binary=True),
            RemotingCommand(11, 1, ext=self.FIELDS),
        ]
        for command in commands:
            typed, plain = self.both(encode_command(command))
            self.assertNotIsInstance(typed, SendCommand)
            self.assertEqual(typed, plain)

    def test_numbers_and_booleans_of_liberal_clients(self) -> None:
        frame = encode_command(RemotingCommand(310, 1, ext=self.FIELDS))
        loose = frame.replace(b'"e":"1"', b'"e":1  ').replace(b'"k":"false"', b'"k":false  ')
        typed, plain = self.both(loose)
        header = typed.header if isinstance(typed, SendCommand) else parse_send_v2(typed.ext)
        self.assertEqual(header, parse_send_v2(plain.ext))
