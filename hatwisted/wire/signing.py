"""How RocketMQ's clients prove who sends a request: the signature of ACL 1.0, which 5.x takes as well.

A request carries its account's AccessKey, a SecurityToken for temporary keys, and a Signature: the HMAC-SHA1 of
its fields' values, in the order of the fields' names, and its body.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Container, Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


def signed_bytes(ext: Mapping[str, str], body: bytes, left_out: Container[str] = (SIGNATURE,)) -> bytes:
    """What a signature is made of.

    - ext: the request's fields
    - body: its body
    - left_out: names of fields that don't count
    """
    values = "".join([ext[name] for name in sorted(ext) if name not in left_out])
    return values.encode("utf-8", "replace") + body


def signature(content: bytes, secret_key: bytes) -> str:
    """Base64 of the HMAC-SHA1 of `content`."""
    return base64.b64encode(hmac.digest(secret_key, content, "sha1")).decode()
