"""Signed sends taken from a read: what the compiled twin takes equals what the receiver makes of the same frames,
and what it says that a signature covers is what the texts say."""

from __future__ import annotations

import itertools
import random
import string

from hypothesis import given
from hypothesis import strategies as st

from hatwisted.wire.remoting import SignedSendCommand
from hatwisted.wire.signing import signed_bytes
from tests.support.examples import examples
from tests.support.kerneltwins import received_signed
from tests.unit.kernel.takenscenes import (
    CODES,
    FIELDS,
    KINDS,
    OPAQUES,
    Scenes,
    changed,
    damaged,
    frame,
    header,
    text,
)

SIGNED = {"AccessKey": "account", **FIELDS, "Signature": "q83vEjRWeJA="}
PROOF = dict.fromkeys(("AccessKey", "SecurityToken", "Signature"), text)


class TakingTests(Scenes.Case):
    way = "take_signed_sends"
    fields = SIGNED
    kinds = KINDS | PROOF
    received = staticmethod(received_signed)

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

    def test_what_is_unusual_of_a_proof_is_left_to_the_receiver(self) -> None:
        usual = header(SIGNED)
        for old, new in (
            *(
                (b'"AccessKey":', b'"%b":' % name)
                for name in (b"AccessKe", b"AccessKeys", b"accessKey", b"Sign", b"SecurityTokens")
            ),
            (b'"Signature":', b'"AccessKey":'),
            (b'"AccessKey":', b'"Signature":'),
            (b'"q83', b'"SecurityToken":"","SecurityToken":"'),
            (b"account", "k\u00f6nto".encode()),
            (b"q83", b"\\u00e4"),
        ):
            self.assert_left(changed(usual, old, new))

    def test_no_letter_stands_for_another_field(self) -> None:
        for name in sorted(set(string.ascii_letters + string.digits) - set(KINDS)):
            data = frame(header(FIELDS | {name: "account"}))
            self.assertEqual(self.taken(data), ([], 0), name)
            self.assert_as_received(data)

    def test_a_header_that_ends_anywhere(self) -> None:
        whole = header(SIGNED | {"SecurityToken": "t"})
        for end in range(len(whole)):
            self.assertEqual(self.taken(frame(whole[:end]))[1], 0)

    @examples(100)
    @given(st.data(), OPAQUES, CODES)
    def test_any_fields(self, data: st.DataObject, opaque: int, code: int) -> None:
        self.assert_fields_as_received(data, opaque, code)

    @examples(100)
    @given(st.randoms(use_true_random=False))
    def test_any_damage(self, chance: random.Random) -> None:
        self.assert_as_received(damaged(self.send * 2, chance))
