"""How RocketMQ's clients prove who sends a request: the signature of ACL 1.0, which 5.x takes as well.

A request carries its account's AccessKey, a SecurityToken for temporary keys, and a Signature: the HMAC-SHA1 of
its fields' values, in the order of the fields' names, and its body.
"""

from __future__ import annotations

from base64 import b64encode
from binascii import b2a_base64
from collections.abc import Container, Mapping
from hmac import compare_digest
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


def key_text(value: object) -> str | None:
    """A key from a YAML file, where digits alone are read as a number; None if it's something else."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def signed_bytes(ext: Mapping[str, str], body: bytes, left_out: Container[str] = (SIGNATURE,)) -> bytes:
    """The bytes that a signature covers.

    - ext: the request's fields
    - body: its body
    - left_out: names of fields that aren't covered
    """
    values = "".join([ext[name] for name in sorted(ext) if name not in left_out])
    return values.encode("utf-8", "replace") + body


class SecretKey:
    """Signs requests. The key is hashed in once, which is half of the work for a small request.

    OpenSSL by way of cryptography: the standard library's hmac takes twice as long for a message of 1 KiB.
    """

    __slots__ = ("_copy", "secret")

    def __init__(self, secret: str) -> None:
        # 20 ms that a command without an account doesn't need.
        from cryptography.hazmat.primitives.hashes import SHA1
        from cryptography.hazmat.primitives.hmac import HMAC

        self.secret = secret.encode("utf-8", "replace")
        self._copy = HMAC(self.secret, SHA1()).copy

    def signature(self, content: bytes) -> str:
        """Base64 of the HMAC-SHA1 of `content`."""
        signing = self._copy()
        signing.update(content)
        return b64encode(signing.finalize()).decode()

    def is_signature(self, content: bytes, given: str) -> bool:
        """Is `given` the signature of `content`? In constant time."""
        signing = self._copy()
        signing.update(content)
        return compare_digest(b2a_base64(signing.finalize(), newline=False), given.encode("utf-8", "replace"))
