"""Who a client is, to servers that ask: an account of ACL 1.0, with which 5.x's remoting works as well.

Name servers of RocketMQ don't ask for it and ignore it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from hatwisted.wire.remoting import RemotingCommand
from hatwisted.wire.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, SecretKey, signed_bytes


@dataclass(frozen=True)
class Credentials:
    """An account of a broker's ACL. security_token: of temporary keys only."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, request: RemotingCommand) -> None:
        """Add who sends it, and the proof."""
        request.ext[ACCESS_KEY] = self.access_key
        if self.security_token is not None:
            request.ext[SECURITY_TOKEN] = self.security_token
        content = signed_bytes(request.ext, request.body)
        request.ext[SIGNATURE] = _secret_key(self.secret_key).signature(content)


@lru_cache(maxsize=16)
def _secret_key(secret: str) -> SecretKey:
    """One for all requests of an account. Not its field: that travels to other processes, which this can't."""
    return SecretKey(secret)
