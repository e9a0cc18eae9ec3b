"""Certificates and keys: PEM bytes in, objects out, or an error that names the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

MAX_SIZE: Final = 1 << 20
"""Bytes of one PEM file; a bundle of all public authorities has a quarter of that."""
SELF_SIGNED_DAYS: Final = 365
"""Days that a certificate of `self_signed` is valid; a new one is made at every start."""

KEYS: Final = (
    rsa.RSAPrivateKey,
    ec.EllipticCurvePrivateKey,
    ed25519.Ed25519PrivateKey,
    ed448.Ed448PrivateKey,
)
"""Kinds of keys that a server or a client can show."""


class CertificateError(ValueError):
    """A certificate or a key can't be used; `str()` is one line that names the file."""


@dataclass(frozen=True)
class Identity:
    """Who this end is: its own certificate, the chain that leads to an authority, and the key."""

    chain: tuple[x509.Certificate, ...]
    key: PrivateKeyTypes = field(repr=False)

    @property
    def expires(self) -> float:
        """Seconds since the epoch until which the whole chain is valid."""
        return min(each.not_valid_after_utc.timestamp() for each in self.chain)


@dataclass(frozen=True, kw_only=True)
class PemFiles:
    """Where they are; certificate and key are given both or neither.

    - certificate: chain of this end, its own one first; None: this end shows none
    - key: its private key
    - key_password: of the key, if it is encrypted
    - trust: authorities, or single peers, whose certificates are accepted; None: not said
    """

    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    trust: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Of all files that there are."""
        return tuple(path for path in (self.certificate, self.key, self.trust) if path is not None)


@dataclass(frozen=True)
class Material:
    """The files' contents. identity: None if this end shows no certificate; trust: None if nothing is said."""

    identity: Identity | None
    trust: tuple[x509.Certificate, ...] | None


def read_material(files: PemFiles, read: Callable[[str], bytes]) -> Material:
    """What the files hold. read: a file's bytes. Raises CertificateError."""
    identity = None
    if files.certificate is not None and files.key is not None:
        chain = read_certificates(_content(files.certificate, read), files.certificate)
        identity = Identity(chain, read_key(_content(files.key, read), files.key_password, files.key))
        if not isinstance(identity.key, KEYS):
            raise CertificateError(f"{files.key}: not a key for TLS: give RSA, an elliptic curve, or Ed25519")
        if identity.key.public_key() != _public_key(chain[0]):
            raise CertificateError(f"{files.key} isn't the key of the certificate {files.certificate}")
    elif files.certificate is not None or files.key is not None:
        raise CertificateError(f"{files.paths[0]}: certificate and key must be given together")
    trust = None if files.trust is None else read_certificates(_content(files.trust, read), files.trust)
    return Material(identity, trust)


def read_certificates(pem: bytes, name: str) -> tuple[x509.Certificate, ...]:
    """All certificates of a PEM file, at least one. name: the file's, for errors. Raises CertificateError."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError:
        raise CertificateError(
            f"{name}: no certificate in it: give PEM, -----BEGIN CERTIFICATE-----"
        ) from None


def read_key(pem: bytes, password: str | None, name: str) -> PrivateKeyTypes:
    """The private key of a PEM file. Raises CertificateError.

    - pem: its bytes
    - password: None if it isn't encrypted
    - name: the file's, for errors
    """
    try:
        return load_pem_private_key(pem, None if password is None else password.encode())
    except TypeError:
        # What the library says of a password where none is needed, and of none where one is.
        if password is not None:
            return read_key(pem, None, name)
        raise CertificateError(f"{name}: the key is encrypted, and no password is given") from None
    except UnsupportedAlgorithm as error:
        raise CertificateError(f"{name}: a key that can't be read here: {error}") from None
    except ValueError:
        what = "no private key in it" if password is None else "no private key in it, or the wrong password"
        raise CertificateError(f"{name}: {what}: give PEM, -----BEGIN PRIVATE KEY-----") from None


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Whom it names: its common names, then its subject's other names of hosts, and its addresses."""
    names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return tuple(names)
    names += others.get_values_for_type(x509.DNSName)
    names += map(str, others.get_values_for_type(x509.IPAddress))
    return tuple(dict.fromkeys(names))


def self_signed(name: str, now: float) -> Identity:
    """A new key with a certificate that nobody vouches for. now: seconds since the epoch."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.fromtimestamp(now, UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=SELF_SIGNED_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity((certificate,), cast(PrivateKeyTypes, key))


def _public_key(certificate: x509.Certificate) -> object:
    """None for one of a kind that isn't known: it's no key's that can be read."""
    try:
        return certificate.public_key()
    except (UnsupportedAlgorithm, ValueError):
        return None


def _content(path: str, read: Callable[[str], bytes]) -> bytes:
    try:
        data = read(path)
    except OSError as error:
        raise CertificateError(f"{path}: can't be read: {error.strerror or error}") from None
    if len(data) > MAX_SIZE:
        raise CertificateError(f"{path}: {len(data)} bytes are too many for certificates")
    return data
