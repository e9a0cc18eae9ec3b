"""What connections are encrypted with: versions, ciphers, whose certificates are accepted.

TLS 1.2 and 1.3, forward secrecy and authenticated ciphers alone. A session is resumed by its ticket (the server
keeps nothing), renegotiation and compression are off, and idle connections give their buffers back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Any, Final, Protocol, runtime_checkable

from cryptography import x509
from OpenSSL import SSL
from OpenSSL.crypto import X509, X509StoreFlags

from hatwisted.tls.certificates import CertificateError, Identity, names_of

CIPHERS: Final = b"ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2; all of 1.3's are like these."""
SESSIONS: Final = b"hatwisted"
"""Names our sessions to OpenSSL, which resumes none of a peer with a certificate otherwise."""

REASONS: Final = {
    9: "it isn't valid yet",
    10: "it has expired",
    18: "it is signed by itself alone",
    19: "its authority isn't trusted",
    20: "its authority isn't trusted",
    21: "its authority isn't trusted",
    26: "it isn't meant for this purpose",
}
"""Why a certificate isn't accepted, by OpenSSL's numbers."""


class ClientAuth(Enum):
    """Must clients show a certificate? The values are RocketMQ's."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


@runtime_checkable
class RefusalListener(Protocol):
    """An OpenSSL connection's app data that wants to know why the peer isn't accepted."""

    def certificate_refused(self, reason: str) -> None:
        """For this reason; the handshake fails next."""


def server_context(
    identity: Identity,
    trust: Sequence[x509.Certificate] | None = None,
    client_auth: ClientAuth = ClientAuth.NONE,
    peers: Collection[str] = (),
) -> SSL.Context:
    """For connections that we accept.

    - identity: what we show
    - trust: authorities of clients; None: any certificate will do
    - client_auth: whether they have to show one
    - peers: of the clients that `trust` vouches for, those with one of these names; empty: all of them
    """
    context = _context()
    context.set_options(SSL.OP_CIPHER_SERVER_PREFERENCE)
    context.set_session_id(SESSIONS)
    _show(context, identity)
    if client_auth is ClientAuth.NONE:
        context.set_verify(SSL.VERIFY_NONE)
        return context
    for authority in trust or ():
        context.add_client_ca(authority)
    need = SSL.VERIFY_FAIL_IF_NO_PEER_CERT if client_auth is ClientAuth.REQUIRE else 0
    _trust(context, trust, SSL.VERIFY_PEER | need, peers)
    return context


def client_context(
    identity: Identity | None,
    trust: Sequence[x509.Certificate] | None,
    *,
    verify: bool = True,
    peers: Collection[str] = (),
) -> SSL.Context:
    """For connections that we make.

    - identity: what we show to a server that asks
    - trust: authorities of servers; None: the machine's
    - verify: False accepts any certificate
    - peers: as in `server_context`
    """
    context = _context()
    if identity is not None:
        _show(context, identity)
    if not verify:
        context.set_verify(SSL.VERIFY_NONE)
        return context
    if trust is None:
        context.set_default_verify_paths()
    _trust(context, trust or (), SSL.VERIFY_PEER, peers)
    return context


def _context() -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_cipher_list(CIPHERS)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    return context


def _show(context: SSL.Context, identity: Identity) -> None:
    own, *rest = identity.chain
    try:
        context.use_certificate(own)
        for each in rest:
            context.add_extra_chain_cert(each)
        context.use_privatekey(identity.key)  # type: ignore[arg-type]
    except SSL.Error as error:  # a weak key, say
        raise CertificateError(f"can't be used for TLS: {error_text(error)}") from None


def _trust(
    context: SSL.Context, trust: Sequence[x509.Certificate] | None, mode: int, peers: Collection[str]
) -> None:
    store = context.get_cert_store()
    assert store is not None
    for each in trust or ():
        store.add_cert(X509.from_cryptography(each))
    # A trusted certificate needn't be an authority's: a peer's own one in the list is enough, as it is for Java.
    store.set_flags(X509StoreFlags.PARTIAL_CHAIN)
    accept = _accept_named(frozenset(peers)) if peers else _accept_trusted
    context.set_verify(mode, _accept_any if trust is None else accept)


def _accept_any(*checked: Any) -> bool:
    return True


def _accept_trusted(
    connection: SSL.Connection, certificate: X509, number: int, depth: int, good: int
) -> bool:
    listener = connection.get_app_data()
    if not good and isinstance(listener, RefusalListener):
        listener.certificate_refused(REASONS.get(number, f"OpenSSL's error {number}"))
    return bool(good)


def _accept_named(peers: frozenset[str]) -> Callable[[SSL.Connection, X509, int, int, int], bool]:
    def accept(connection: SSL.Connection, certificate: X509, number: int, depth: int, good: int) -> bool:
        if not _accept_trusted(connection, certificate, number, depth, good):
            return False
        names = names_of(certificate.to_cryptography())
        if depth or not peers.isdisjoint(names):
            return True
        listener = connection.get_app_data()
        if isinstance(listener, RefusalListener):
            listener.certificate_refused(f"it's for {', '.join(map(ascii, names))}, who isn't expected here")
        return False

    return accept


def error_text(error: BaseException) -> str:
    """What OpenSSL says, in one line."""
    if isinstance(error, SSL.Error) and error.args and isinstance(error.args[0], (list, tuple)):
        return "; ".join(str(each[-1]) for each in error.args[0]) or "connection closed"
    return str(error) or type(error).__name__


ContextSource = Callable[[], SSL.Context]
"""The context for a new connection; another one once certificates have been read again."""
