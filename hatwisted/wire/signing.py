"""How RocketMQ's clients prove who sends a request: the signature of ACL 1.0, which 5.x takes as well.

A request carries its account's AccessKey, a SecurityToken for temporary keys, and a Signature: the HMAC-SHA1 of
its fields' values, in the order of the fields' names, and its body.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Container, Mapping
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
    """Signs requests. The key is hashed in once, which is half of the work for a small request."""

    __slots__ = ("_keyed",)

    def __init__(self, secret: str) -> None:
        self._keyed = hmac.new(secret.encode("utf-8", "replace"), digestmod="sha1")

    def signature(self, content: bytes) -> str:
        """Base64 of the HMAC-SHA1 of `content`."""
        return self._sign(content).decode()

    def is_signature(self, content: bytes, given: str) -> bool:
        """Is `given` the signature of `content`? In constant time."""
        return hmac.compare_digest(self._sign(content), given.encode("utf-8", "replace"))

    def _sign(self, content: bytes) -> bytes:
        signing = self._keyed.copy()
        signing.update(content)
        return b64encode(signing.digest())
