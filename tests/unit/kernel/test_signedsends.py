"""Signed sends taken from a read: what the compiled twin takes equals what the receiver makes of the same frames,
and what it says that a signature covers is what the texts say."""

from __future__ import annotations

import itertools
import random
import string

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.remoting import MAX_FRAME, MAX_HEADER, RemotingCommand, SignedSendCommand
from hatwisted.wire.signing import signed_bytes
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, received_signed
from tests.unit.kernel.test_requests import FIELDS, KINDS, frame, header, text

SIGNED = {"AccessKey": "account", **FIELDS, "Signature": "q83vEjRWeJA="}
SEND = frame(header(SIGNED))
PROOF = dict.fromkeys(("AccessKey", "SecurityToken", "Signature"), text)


class TakingTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.take = compiled().take_signed_sends

    def taken(self, data: bytes) -> tuple[list[RemotingCommand], int]:
        commands: list[RemotingCommand] = []
        return commands, self.take(data, 0, commands, MAX_FRAME, MAX_HEADER)

    def assert_as_received(self, data: bytes) -> None:
        self.assertEqual(received_signed(data, self.take), received_signed(data))

    def test_a_javas_send_is_taken(self) -> None:
        for code in (310, 320):
            data = frame(header(SIGNED, code))
            commands, position = self.taken(data * 3)
            self.assertEqual(position, 3 * len(data))
            self.assertIsNot(commands[0].ext, commands[1].ext)
            self.assert_as_received(data * 3)

    def test_what_a_signature_covers(self) -> None:
        """Whichever of the fields are sent, in whatever order."""
        chance = random.Random(1)
        wanted = itertools.product(
            ("", "0", "3"), ("", "true"), ("", "16"), ("", "b"), ("", "t"), ("", "x\\y")
        )
        for j, k, most, n, token, properties in wanted:
            changes = {"j": j, "k": k, "l": most, "n": n, "SecurityToken": token, "i": properties}
            fields = [(name, value) for name, value in (SIGNED | changes).items() if value]
            chance.shuffle(fields)
            ((command,), _) = self.taken(frame(header(dict(fields))))
            assert isinstance(command, SignedSendCommand)
            self.assertEqual(command.signed, signed_bytes(dict(fields), b"body"))
            self.assertEqual(command.with_texts().ext, dict(fields))
            self.assert_as_received(frame(header(dict(fields))))

    def test_a_send_without_a_proof_is_taken_too(self) -> None:
        data = frame(header(FIELDS))
        ((command,), _) = self.taken(data)
        assert isinstance(command, SignedSendCommand) and command.header is not None
        self.assertIsNone(command.header.access_key)
        self.assert_as_received(data)

    def test_numbers_of_the_header_are_int32(self) -> None:
        for name in ("flag", "opaque", "version"):
            for number in (1 << 31, -(1 << 31) - 1, 10**17, 1 << 63):
                data = frame(header(SIGNED, **{name: number}))
                self.assertEqual(self.taken(data), ([], 0), number)
                self.assert_as_received(SEND + data)

    def test_all_escapes_of_one_byte(self) -> None:
        for byte in range(128):
            for escape in (b"\\u%04x" % byte, b"\\u%04X" % byte):
                data = frame(header(SIGNED).replace(b"UNIQ_KEY", escape).replace(b"account", escape))
                self.assertEqual(self.taken(data)[1], len(data))
                self.assert_as_received(data)
            for other in (b"\\" + bytes([byte]), bytes([byte])):
                self.assert_as_received(frame(header(SIGNED).replace(b"UNIQ_KEY", other)))

    def test_what_is_unusual_is_left_to_the_receiver(self) -> None:
        usual = header(SIGNED)
        unusual = [
            usual.replace(b'"code":310', b'"code":311'),
            usual.replace(b'"d":"4"', b'"d":4'),
            usual.replace(b'"d":"4"', b'"d":"04"'),
            usual.replace(b'"d":"4"', b'"d":"-0"'),
            usual.replace(b'"d":"4"', b'"d":"2147483648"'),
            usual.replace(b'"d":"4"', b'"d":"4","d":"5"'),
            usual.replace(b'"d":"4",', b""),
            usual.replace(b'"k":"false"', b'"k":"1"'),
            usual.replace(b'"k":"false"', b'"k":"False"'),
            *(usual.replace(b'"m":', b'"%b":' % name) for name in (b"z", b"o", b"mm", b"", b"A", b"\x80")),
            *(
                usual.replace(b'"AccessKey":', b'"%b":' % name)
                for name in (b"AccessKe", b"AccessKeys", b"accessKey", b"Sign", b"SecurityTokens")
            ),
            usual.replace(b'"Signature":', b'"AccessKey":'),
            usual.replace(b'"AccessKey":', b'"Signature":'),
            usual.replace(b'"q83', b'"SecurityToken":"","SecurityToken":"'),
            usual.replace(b"account", "k\u00f6nto".encode()),
            usual.replace(b"q83", b"\\u00e4"),
            usual.replace(b",", b", "),
            usual + b" ",
        ]
        for head in unusual:
            self.assertEqual(self.taken(frame(head)), ([], 0), head)
            self.assert_as_received(frame(head))

    def test_no_letter_stands_for_another_field(self) -> None:
        for name in sorted(set(string.ascii_letters + string.digits) - set(KINDS)):
            data = frame(header(FIELDS | {name: "account"}))
            self.assertEqual(self.taken(data), ([], 0), name)
            self.assert_as_received(data)

    def test_a_read_that_ends_anywhere(self) -> None:
        data = SEND + SEND
        for end in range(len(data)):
            self.assert_as_received(data[:end])
            self.assertEqual(self.taken(data[:end])[1], end // len(SEND) * len(SEND))

    def test_a_header_that_ends_anywhere(self) -> None:
        whole = header(SIGNED | {"SecurityToken": "t"})
        for end in range(len(whole)):
            self.assertEqual(self.taken(frame(whole[:end]))[1], 0)

    def test_limits_are_the_receivers(self) -> None:
        commands: list[RemotingCommand] = []
        head = len(header(SIGNED))
        self.assertEqual(self.take(SEND, 0, commands, len(SEND) - 1, MAX_HEADER), 0)
        self.assertEqual(self.take(SEND, 0, commands, len(SEND), head - 1), 0)
        self.assertEqual(self.take(SEND, 0, commands, len(SEND), head), len(SEND))
        for position in (len(SEND), len(SEND) + 5, 1 << 60):
            self.assertEqual(self.take(SEND, position, commands, MAX_FRAME, MAX_HEADER), position)
        self.assertRaises(IndexError, self.take, SEND, -1, commands, MAX_FRAME, MAX_HEADER)

    @examples(100)
    @given(
        st.dictionaries(st.sampled_from(sorted(KINDS | PROOF)), st.just(None), max_size=14),
        st.data(),
        st.integers(-(1 << 40), 1 << 40),
        st.sampled_from([310, 320]),
    )
    def test_any_fields(self, names: dict[str, None], data: st.DataObject, opaque: int, code: int) -> None:
        fields = SIGNED | {name: data.draw((KINDS | PROOF)[name]) for name in names}
        whole = frame(header(fields, code, opaque=opaque, language=data.draw(text)))
        self.assert_as_received(whole + SEND)

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
        self.assert_as_received(bytes(data))
