"""How a client's connections are encrypted, and whom it trusts.

A value, and the standard library's context for sockets; Twisted's is made in `hatwisted.tls`. RocketMQ's
clients don't verify a server's certificate by default; here it is verified unless `verify` says otherwise, and a
refusal says which setting would accept it.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final, Literal

from hatwisted.clientcore.errors import BadSetting

Verify = Literal["full", "chain", "none"]
VERIFY: Final[tuple[Verify, ...]] = ("full", "chain", "none")

VERIFY_ADVICE: Final = (
    "name its authority in the trust file, or relax verification (chain: any host name, none: "
    "any certificate)"
)


@dataclass(frozen=True)
class Tls:
    """How connections are encrypted. Paths of PEM files, as they are on every machine that reads.

    trust_file: authorities to trust, the machine's own if None. certificate, key: shown to a server that asks.
    verify: `full` (chain of trust and host name), `chain` (routes often carry addresses that no certificate
    names) or `none`.
    """

    trust_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: Verify = "full"

    def context(self) -> ssl.SSLContext:
        """The context to wrap sockets with. Raises BadSetting, naming the file, if one can't be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify == "full"
        context.verify_mode = ssl.CERT_NONE if self.verify == "none" else ssl.CERT_REQUIRED
        if self.verify != "none":
            self._load_trust(context)
        if self.certificate is not None:
            self._load_certificate(context, self.certificate)
        return context

    def _load_trust(self, context: ssl.SSLContext) -> None:
        try:
            if self.trust_file is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self.trust_file)
        except OSError as error:  # ssl.SSLError is one
            raise BadSetting(
                f"trust file {self.trust_file}: {_reason(error)}: give PEM certificates"
            ) from None

    def _load_certificate(self, context: ssl.SSLContext, certificate: str) -> None:
        # Without a password OpenSSL would ask the terminal for one.
        password = self.key_password or ""
        try:
            context.load_cert_chain(certificate, self.key, password=lambda: password)
        except OSError as error:
            where = certificate if self.key is None else f"{certificate} with key {self.key}"
            raise BadSetting(
                f"client certificate {where}: {_reason(error)}: give PEM files that belong together"
            ) from None


def tls_problem(error: OSError) -> str | None:
    """What a handshake failed of, and what to do; None if it's not a matter of TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate isn't accepted ({error.verify_message}): {VERIFY_ADVICE}"
    return f"no TLS there: {_reason(error)}" if isinstance(error, ssl.SSLError) else None


def _reason(error: OSError) -> str:
    return error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)
