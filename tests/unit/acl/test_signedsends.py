"""Sends whose fields are decoded in one go are let in and refused like those whose texts are looked at."""

from __future__ import annotations

import base64
import copy
import itertools
import json
import struct
from typing import ClassVar

from twisted.internet.task import Clock

from hatwisted.acl import accounts as module
from hatwisted.acl.accounts import AccessDenied, Accounts, access_key_of, drop_texts
from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.acl.requestguard import RequestGuard
from hatwisted.clientcore.credentials import Credentials
from hatwisted.remoting.server import RemotingConnection
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingReceiver,
    SignedSendCommand,
    TakeSends,
    encode_command,
)
from hatwisted.wire.requestheader import parse_send_v2
from hatwisted.wire.signing import ACCESS_KEY, SIGNATURE, signed_bytes
from tests.support.kerneltwins import twins
from tests.unit.acl.accountscase import STRANGER, AccountsCase
from tests.unit.acl.files import ADMIN, SAMPLE, SECRET, USER, request

BODY = b"what is sent"


class SignedSendsCase(AccountsCase):
    # As RocketMQ's client of 4.9.7 sends them; l and n are others'.
    FIELDS: ClassVar[dict[str, str]] = {
        "a": "p", "b": "topicB", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1795221957475", "h": "0",
        "i": "TAGS\x01é\x02KEYS\x01\U0001f600", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip

    def command(self, account: Credentials | None = USER, code: int = 310, **changes: str) -> RemotingCommand:
        """A signed send with other fields; "": without that field."""
        ext = {name: text for name, text in (self.FIELDS | changes).items() if text}
        command = RemotingCommand(code, ext=ext, body=BODY)
        if account is not None:
            account.sign(command)
        return command

    def received(self, frame: bytes, *, fast: bool = True, take: TakeSends | None = None) -> RemotingCommand:
        (command,) = RemotingReceiver(signed_sends=fast, take_sends=take).receive(frame)
        return command

    def both(self, frame: bytes, host: str = STRANGER) -> str | None:
        """What both ways say of a request."""
        plain = self.refusal(self.received(frame, fast=False), host)
        for twin in twins():
            for _ in range(2):  # the second time its wish may be known
                command = self.received(frame, take=twin.take_signed_sends)
                self.assertEqual(self.refusal(command, host), plain)
            if plain is not None:
                command = self.received(frame, take=twin.take_signed_sends)
                self.assertEqual(self.accounts.let_in([command], 0), 0)
        return plain


class DecodingTests(SignedSendsCase):
    def test_the_bytes_of_a_signature_are_written_again(self) -> None:
        wishes = itertools.product(("", "0", "3"), ("", "true", "false"), ("", "16"), ("", "true"), ("", "b"))
        for code, (j, k, most, m, n) in itertools.product((310, 320), wishes):
            sent = self.command(code=code, j=j, k=k, l=most, m=m, n=n)
            typed = self.received(encode_command(sent))
            assert isinstance(typed, SignedSendCommand) and typed.header is not None
            self.assertEqual(typed.header.signed_bytes(BODY), signed_bytes(sent.ext, BODY))
            self.assertEqual(typed.with_texts(), sent)
            plain = parse_send_v2(sent.ext)
            for name in plain.__struct_fields__:
                self.assertEqual(getattr(typed.header, name), getattr(plain, name), name)

    def test_a_token_is_signed_too(self) -> None:
        sent = self.command(Credentials(USER.access_key, SECRET, "token"))
        typed = self.received(encode_command(sent))
        assert isinstance(typed, SignedSendCommand) and typed.header is not None
        self.assertEqual(typed.header.signed_bytes(BODY), signed_bytes(sent.ext, BODY))

    def test_what_is_not_known_here_is_taken_as_texts(self) -> None:
        for frame in (
            encode_command(self.command(unknown="x")),
            encode_command(self.command(e="x")),
            encode_command(self.command(code=RequestCode.SEND_MESSAGE)),
            encode_command(RemotingCommand(310)),
        ):
            self.assertNotIsInstance(self.received(frame), SignedSendCommand)

    def test_a_code_that_comes_twice_is_the_last(self) -> None:
        frame = encode_command(self.command())
        other = frame.replace(b'"version":407}', b'"code":17    }')
        self.assertEqual(len(other), len(frame))
        command = self.received(other)
        self.assertEqual(command.code, RequestCode.UPDATE_AND_CREATE_TOPIC)
        self.assertNotIsInstance(command, SignedSendCommand)
        self.assertIsNone(self.both(frame))
        self.assertIn("Need admin permission", str(self.both(other)))


class AgreementTests(SignedSendsCase):
    def test_who_may_send_is_let_in(self) -> None:
        for code in (310, 320):
            self.assertIsNone(self.both(encode_command(self.command(code=code))))

    def test_who_has_sent_there_before_is_only_asked_for_the_signature(self) -> None:
        frame = encode_command(self.command(i="TAGS\x01t"))
        forged = frame.replace(BODY, BODY.upper())
        elsewhere = encode_command(self.command(b="topicC"))
        for twin in twins():
            self.accounts = Accounts({"plain_acl.yml": parse_acl_file(SAMPLE)})
            receiver = RemotingReceiver(signed_sends=True, take_sends=twin.take_signed_sends)
            requests = receiver.receive(3 * frame + forged + frame + elsewhere + frame)
            self.assertEqual(self.accounts.let_in(requests, 0), 0)
            self.accounts.check(requests[0], STRANGER)
            self.assertEqual([self.accounts.let_in(requests, first) for first in (1, 4, 6)], [3, 5, 7])
            for index in (3, 5):
                self.assertRaises(AccessDenied, self.accounts.check, requests[index], STRANGER)
            for index in (0, 1, 2, 4, 6):
                request = requests[index]
                assert isinstance(request, SignedSendCommand)
                self.assertEqual((request.encoded, request.signed), (b"", b""))

    def test_a_read_with_forged_sends_has_just_these_refused(self) -> None:
        """Wherever they are among those that are checked together."""
        frame = encode_command(self.command(i="TAGS\x01t"))
        forged = frame.replace(BODY, BODY.upper())
        for twin in twins():
            for places in ((), (0,), (7,), (31, 32), (3, 70, 71, 99), tuple(range(100))):
                guard = RequestGuard(lambda: self.accounts, Clock())
                connection = RemotingConnection()
                connection.address = STRANGER
                receiver = RemotingReceiver(signed_sends=True, take_sends=twin.take_signed_sends)
                read = b"".join(forged if index in places else frame for index in range(100))
                requests = receiver.receive(read)
                for _ in range(2):  # the second time its wish is known
                    denials = guard.denials(copy.deepcopy(requests), connection)
                    refused = tuple(index for index, denial in enumerate(denials) if denial is not None)
                    self.assertEqual(refused, places)

    def test_texts_of_other_clients(self) -> None:
        for changes in (
            {"unknown": "x"}, {"d": "04"}, {"d": "+4"}, {"k": "True"}, {"k": "1"}, {"m": "TRUE"}, {"j": "00"},
            {"j": "", "k": "", "m": ""}, {"l": "-1"}, {"l": "0"}, {"n": "broker-a"}, {"e": "-1"}, {"e": "x"},
            {"f": str(1 << 40)}, {"i": ""},
        ):  # fmt: skip
            self.assertIsNone(self.both(encode_command(self.command(**changes))), changes)

    def test_every_field_is_covered(self) -> None:
        self.assertIsNone(self.both(encode_command(self.command(l="3", n="b"))))
        for name in (*self.FIELDS, "l", "n", "unknown"):
            for text in ("1", "7", "true", "topicB2", ""):
                command = self.command(l="3", n="b")
                if command.ext.get(name, "") == text:
                    continue
                command.ext.pop(name, None)
                command.ext.update({name: text} if text else {})
                refusal = self.both(encode_command(command))
                self.assertIn("Check signature failed", str(refusal), f"{name}={text}")

    def test_the_body_is_covered_however_often_it_came(self) -> None:
        command = self.command()
        self.assertIsNone(self.both(encode_command(command)))
        command.body = BODY.upper()
        self.assertIn("Check signature failed", str(self.both(encode_command(command))))

    def test_nobody_says_what_a_signature_covers(self) -> None:
        """What somebody overheard of an account's requests doesn't let others send in its name."""
        seen = request(30, USER, topic="topicB", queueId="0")
        covered = base64.b64encode(signed_bytes(seen.ext, seen.body)).decode()
        honest = encode_command(self.command())
        (size,) = struct.unpack_from(">I", honest, 4)
        header = base64.b64encode(honest[8 : 8 + size]).decode()
        proof = {name: seen.ext[name] for name in (ACCESS_KEY, SIGNATURE)}
        self.assertIsNone(self.both(honest))
        for said in (
            {"(signed)": covered}, {"(encoded)": header}, {"(signed)": covered, "(encoded)": header},
            {"(ext)": seen.ext}, {"(body)": covered, "(ext)": seen.ext}, {"(binary)": True, "(signed)": covered},
        ):  # fmt: skip
            for fields in (self.FIELDS | proof, self.FIELDS | proof | {"k": "True"}):
                names = {"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7, **said}
                forged = json.dumps(names, separators=(",", ":")).encode()
                frame = struct.pack(">II", 4 + len(forged) + 3, len(forged)) + forged + b"pay"
                self.assertIn("Check signature failed", str(self.both(frame)), said)

    def test_who_is_not_let_in(self) -> None:
        wrong = self.command(Credentials(USER.access_key, "wrong-secret"))
        self.assertIn("Check signature failed", str(self.both(encode_command(wrong))))
        nobody = self.command(Credentials("nobody!", SECRET))
        self.assertEqual(self.both(encode_command(nobody)), "No acl config for nobody!")
        self.assertEqual(self.both(encode_command(self.command(None))), "No accessKey is configured")
        for given in ("", "é", "A" * 10_000):
            command = self.command()
            command.ext[SIGNATURE] = given
            self.assertIn("Check signature failed", str(self.both(encode_command(command))))
        empty = RemotingCommand(310, ext={**self.FIELDS, ACCESS_KEY: "", SIGNATURE: ""})
        self.assertEqual(self.both(encode_command(empty)), "No acl config for ")

    def test_numbers_that_are_no_texts_may_be_signed(self) -> None:
        frame = encode_command(self.command())
        loose = frame.replace(b'"d":"4"', b'"d":4  ').replace(b'"k":"false"', b'"k":false  ')
        self.assertNotEqual(loose, frame)
        self.assertIsNone(self.both(loose))

    def test_numbers_that_only_one_of_the_ways_reads(self) -> None:
        """They are refused, or mean the same: no error reaches the requests beside them."""
        good = encode_command(self.command())
        bad = encode_command(self.command(Credentials(USER.access_key, "wrong-secret")))
        for number in (b"4e2", b"4.0"):
            first, second = (frame.replace(b'"version":407', b'"version":' + number) for frame in (good, bad))
            self.assertIsNone(self.refusal(self.received(first)))
            self.assertIn("Check signature failed", str(self.refusal(self.received(second))))

    def test_trusted_addresses(self) -> None:
        self.assertIsNone(self.both(encode_command(self.command(None)), "192.168.0.7"))
        unsigned = self.command(None)
        unsigned.ext[ACCESS_KEY] = ADMIN.access_key
        self.assertIsNone(self.both(encode_command(unsigned), "192.168.1.5"))
        self.assertIn("Check signature failed", str(self.both(encode_command(unsigned))))


class PermissionTests(SignedSendsCase):
    def test_one_topic_says_nothing_of_another(self) -> None:
        self.assertIsNone(self.both(encode_command(self.command())))
        for topic in ("topicA", "topicC", "topicD"):
            refused = f"No default permission for topic:{topic}"
            self.assertEqual(self.both(encode_command(self.command(b=topic))), refused)

    def test_one_account_says_nothing_of_another(self) -> None:
        self.assertIsNone(self.both(encode_command(self.command(ADMIN, b="topicA"))))
        self.assertIsNotNone(self.both(encode_command(self.command(b="topicA"))))

    def test_a_retry_topic_is_its_groups(self) -> None:
        self.assertIsNone(self.both(encode_command(self.command(b="%RETRY%groupC"))))
        self.assertIsNotNone(self.both(encode_command(self.command(b="%RETRY%groupA"))))

    def test_what_is_remembered_is_bounded(self) -> None:
        self.patch(module, "KNOWN_WISHES", 3)
        for number in range(10):
            self.assertIsNone(self.both(encode_command(self.command(ADMIN, b=f"topic{number}"))))
            self.assertLessEqual(len(self.accounts._granted), 3)


class MemoryTests(SignedSendsCase):
    def test_nothing_that_only_the_check_needs_is_kept(self) -> None:
        for command in (self.command(), self.command(k="1")):
            typed = self.received(encode_command(command))
            assert isinstance(typed, SignedSendCommand)
            self.assertNotEqual(typed.encoded, b"")
            self.assertIsNone(self.refusal(typed))
            self.assertEqual(typed.encoded, b"")
        typed = self.received(encode_command(self.command()))
        assert isinstance(typed, SignedSendCommand)
        drop_texts([typed, self.command()])
        self.assertEqual(typed.encoded, b"")

    def test_the_account_is_known_in_both_ways(self) -> None:
        frame = encode_command(self.command())
        for fast in (True, False):
            self.assertEqual(access_key_of(self.received(frame, fast=fast)), USER.access_key)
