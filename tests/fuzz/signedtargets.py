"""Sends that are signed: what strangers may make of their frames, and who is let in with them."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from collections.abc import Iterator
from copy import copy

from hatwisted.acl.accounts import AccessDenied, Accounts
from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.clientcore.credentials import Credentials
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    SignedSendCommand,
    encode_command,
)
from hatwisted.wire.requestheader import SendHeader, parse_send_v2
from hatwisted.wire.signing import SIGNATURE, SecretKey, signed_bytes
from tests.fuzz.target import Target
from tests.fuzz.wiretargets import SEND_V2, stream
from tests.support.kerneltwins import twins

SECRET = "secret-of-account"
ACCOUNT = Credentials("account", SECRET)
ACL = f"accounts:\n- accessKey: account\n  secretKey: {SECRET}\n  defaultTopicPerm: PUB\n".encode()
KEY = SecretKey(SECRET)
STRANGER = "10.9.9.9"
FIELDS = SendHeader.__struct_fields__
FEW = 5
"""Sends that the compiled twin checks together."""
OWN = [name for name in SignedSendCommand.__struct_encode_fields__ if name.startswith("(")]
"""What we call the fields of a command that no header has."""


def frames(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Header and body of each whole frame in JSON, up to the first that is anything else."""
    at = 0
    while len(data) - at >= 8:
        length, mark = struct.unpack_from(">II", data, at)
        if at + 4 + length > len(data) or mark > length - 4:
            return
        yield data[at + 8 : at + 8 + mark], data[at + 8 + mark : at + 4 + length]
        at += 4 + length


def texts_of(header: bytes) -> dict[str, str] | None:
    """The extFields of a header, read by somebody else's parser; None if it can't."""
    try:
        found = json.loads(header, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    ext = found.get("extFields") if isinstance(found, dict) else None
    if not isinstance(ext, dict):
        return None
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in ext.items()
        if value is not None
    }


def let_in(command: RemotingCommand, *, known: bool) -> bool:
    """Is it, from an address that needs a signature? known: has its account sent there before?"""
    accounts = Accounts({"plain_acl.yml": parse_acl_file(ACL)})
    if known:
        (before,) = RemotingReceiver(signed_sends=True).receive(encode_command(a_send()))
        accounts.check(before, STRANGER)
        crowd = [copy(command) for _ in range(FEW)]
        together, alone = accounts.let_in(crowd, 0), accounts.let_in([command], 0)
        assert together == FEW * alone, together
        if alone:
            return True
    try:
        accounts.check_sender(command, STRANGER)
    except AccessDenied:
        return False
    return True


def usual(ext: dict[str, str]) -> dict[str, str]:
    """The texts as Java writes them: "04" and "False" mean what "4" and "false" do."""
    numbers = {name: str(int(ext[name])) for name in "defghjl" if name in ext}
    return ext | numbers | {name: ext[name].lower() for name in "km" if name in ext}


def is_covered(header: bytes, command: RemotingCommand, body: bytes) -> bool:
    """Does the signature that `header` names cover what is done at this command?"""
    ext = texts_of(header)
    if ext is None:  # text that is none, which we mend
        (mended,) = RemotingReceiver().receive(struct.pack(">II", 4 + len(header), len(header)) + header)
        ext = mended.ext
    covered, given = [signed_bytes(ext, body)], ext.get(SIGNATURE, "")
    if not isinstance(command, SignedSendCommand):
        same = command.ext == ext
    else:
        done = parse_send_v2(ext)
        same = all(getattr(command.header, name) == getattr(done, name) for name in FIELDS)
        covered.append(signed_bytes(usual(ext), body))
    return same and command.body == body and any(KEY.is_signature(each, given) for each in covered)


def signed_sends(data: bytes) -> None:
    """Fields decoded in one go that are signed as the texts are mean what the texts do, and whoever is let in has
    signed what is done then."""
    stream(lambda: RemotingReceiver(signed_sends=True).receive)(data)
    for twin in twins():
        for known in (False, True):
            receiver = RemotingReceiver(signed_sends=True, take_sends=twin.take_signed_sends)
            with contextlib.suppress(RemotingProtocolError):
                for command, (header, body) in zip(receiver.receive(data), frames(data), strict=False):
                    if isinstance(command, SignedSendCommand) and command.header is not None:
                        means_its_texts(command)
                    if command.code in (310, 320) and not command.binary and let_in(command, known=known):
                        assert is_covered(header, command, body), header


def means_its_texts(command: SignedSendCommand) -> None:
    with contextlib.suppress(ValueError):
        texts = command.with_texts()
        assert command.header is not None
        if command.header.signed_bytes(command.body) == signed_bytes(texts.ext, texts.body):
            plain = parse_send_v2(texts.ext)
            assert all(getattr(command.header, name) == getattr(plain, name) for name in FIELDS)


def a_send(code: int = 310) -> RemotingCommand:
    command = RemotingCommand(code, ext=dict(SEND_V2), body=b"body")
    ACCOUNT.sign(command)
    return command


def some_signed_sends() -> list[bytes]:
    made = [encode_command(a_send(code)) for code in (310, 320)]
    return [b"".join(made), *made, *forged_sends()]


def forged_sends() -> list[bytes]:
    """With the signature of something else that an account has sent, and what that was in each of our names."""
    seen = RemotingCommand(30, ext={"topic": "T", "queueId": "0"})
    ACCOUNT.sign(seen)
    covered = base64.b64encode(signed_bytes(seen.ext, seen.body)).decode()
    ext = SEND_V2 | {"AccessKey": "account", SIGNATURE: seen.ext[SIGNATURE]}
    honest = encode_command(a_send())
    (size,) = struct.unpack_from(">I", honest, 4)
    values = {
        "(encoded)": base64.b64encode(honest[8 : 8 + size]).decode(),
        "(ext)": seen.ext,
        "(binary)": True,
    }
    made = []
    for names in ({name: values.get(name, covered)} for name in OWN):
        said = {"code": 310, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": 7, **names}
        header = json.dumps(said, separators=(",", ":")).encode()
        made.append(struct.pack(">II", 4 + len(header) + 3, len(header)) + header + b"pay")
    return made


SIGNED = {
    "signed-sends": Target(
        signed_sends,
        (),
        some_signed_sends,
        once=(lambda data: RemotingReceiver(signed_sends=True).receive(data),),
    ),
}
