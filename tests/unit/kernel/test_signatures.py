"""Signatures checked many at once: what the compiled twin lets in is what a library's HMAC says is signed."""

from __future__ import annotations

import hmac
import random
from base64 import b64encode
from typing import Any, ClassVar

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from hatwisted.kernel.limits import SIGNATURES
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand, SignedSendCommand
from hatwisted.wire.signedsend import SignedSendHeader
from tests.support.kerneltwins import NOT_BUILT, PARTS, compiled

SEND = int(RequestCode.SEND_MESSAGE_V2)


class SignaturesTests(SynchronousTestCase):
    """With AVX-512, where this processor has it."""

    wide: ClassVar[bool] = True

    def setUp(self) -> None:
        if NOT_BUILT or compiled().check_signatures is None:
            raise SkipTest(NOT_BUILT or "this processor has no AVX2")
        PARTS["_signatures"].take_avx512(self.wide)
        self.addCleanup(PARTS["_signatures"].take_avx512, True)
        self.chance = random.Random(7)
        lengths = (7, 16, 63, 64, 65, 200)
        self.secrets = {f"account{length}": self.chance.randbytes(length) for length in lengths}
        self.keys = {name: compiled().signing_key(secret) for name, secret in self.secrets.items()}
        self.granted = {(name, SEND, "T") for name in self.secrets}

    def sent(self, covered: bytes, account: str = "account16", **changes: Any) -> SignedSendCommand:
        digest = hmac.digest(self.secrets[account], covered, "sha1")
        fields = {"access_key": account, "signature": b64encode(digest).decode(), "topic": "T"} | changes
        header = SignedSendHeader("g", fields.pop("topic"), "TBW102", 4, 0, 0, 0, 0, "", **fields)
        return SignedSendCommand(SEND, header=header, encoded=b"{}", signed=covered)

    def let_in(self, requests: list[RemotingCommand], first: int = 0) -> int:
        return compiled().check_signatures(requests, first, self.keys, self.granted)

    def test_messages_of_every_length(self) -> None:
        """Up to and beyond where another block begins, alone in their lane and in each other's company."""
        lengths = [*range(1, 300), 1000, 1024, 4095, 4096, 100_003]
        for _ in range(3):
            self.chance.shuffle(lengths)
            requests: list[RemotingCommand] = [
                self.sent(self.chance.randbytes(length), self.chance.choice(list(self.secrets)))
                for length in lengths
            ]
            at = 0
            while len(requests) - at > 2:
                after = self.let_in(requests, at)
                self.assertGreater(after, at)
                at = after
            self.assertGreaterEqual(at, len(requests) - 2)
            for request in requests[:at]:
                assert isinstance(request, SignedSendCommand)
                self.assertEqual((request.signed, request.encoded), (b"", b""))

    def test_any_number_of_them(self) -> None:
        for count in range(2 * SIGNATURES + 10):
            requests: list[RemotingCommand] = [
                self.sent(self.chance.randbytes(self.chance.randrange(1, 200))) for _ in range(count)
            ]
            rest = count % SIGNATURES
            self.assertEqual(self.let_in(requests), count if rest >= 3 or count == 0 else count - rest)

    def test_the_first_wrong_one_ends_it(self) -> None:
        for count, wrong in ((5, 0), (5, 4), (40, 31), (40, 33), (8, 7)):
            for flip in (lambda text: text[:-1] + "A", lambda text: "A" + text[1:], str.swapcase):
                requests: list[RemotingCommand] = [self.sent(bytes([number]) * 90) for number in range(count)]
                bad = self.sent(b"x" * 90)
                assert bad.header is not None
                requests[wrong] = self.sent(b"x" * 90, signature=flip(bad.header.signature))
                self.assertEqual(self.let_in(requests), wrong, (count, wrong))
                kept = requests[wrong]
                assert isinstance(kept, SignedSendCommand)
                self.assertEqual((kept.signed, kept.encoded), (b"x" * 90, b"{}"))

    def test_each_bit_of_a_signature_counts(self) -> None:
        good = self.sent(b"body")
        assert good.header is not None
        text = good.header.signature
        for place in range(len(text)):
            for bit in range(7):
                other = text[:place] + chr(ord(text[place]) ^ 1 << bit) + text[place + 1 :]
                requests: list[RemotingCommand] = [self.sent(b"body", signature=other)] * 3
                self.assertEqual(self.let_in(requests), 0, other)

    def test_another_account_does_not_sign_for_one(self) -> None:
        digest = hmac.digest(self.secrets["account7"], b"body", "sha1")
        forged = self.sent(b"body", signature=b64encode(digest).decode())
        self.assertEqual(self.let_in([self.sent(b"body"), forged, self.sent(b"body")]), 1)

    def test_what_is_unusual_is_left_to_the_caller(self) -> None:
        unusual: list[RemotingCommand] = [
            RemotingCommand(SEND),
            SignedSendCommand(SEND),
            self.sent(b"body", topic="other"),
            self.sent(b"body", access_key="nobody"),
            self.sent(b"body", access_key=None),
            self.sent(b"body", signature=""),
            self.sent(b"body", signature="é" * 28),
            self.sent(b"body", signature="A" * 29),
            self.sent(b""),
        ]
        for each in unusual:
            requests = [self.sent(b"1"), self.sent(b"2"), self.sent(b"3"), each, self.sent(b"4")]
            self.assertEqual(self.let_in(requests), 3)
            self.assertEqual(self.let_in([each, *requests]), 0)

    def test_an_account_whose_key_is_not_made_ready_is_left_to_the_caller(self) -> None:
        del self.keys["account16"]
        self.assertEqual(self.let_in([self.sent(b"body")] * 4), 0)

    def test_any_sequence_will_do(self) -> None:
        requests = tuple(self.sent(b"body") for _ in range(4))
        self.assertEqual(compiled().check_signatures(requests, 0, self.keys, self.granted), 4)

    def test_a_negative_place_is_refused(self) -> None:
        self.assertRaises(IndexError, self.let_in, [self.sent(b"body")] * 4, -1)


class NarrowSignaturesTests(SignaturesTests):
    """The same with AVX2."""

    wide = False
