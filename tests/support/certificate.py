"""Certificates for connections with TLS, made on the spot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

LOOPBACK = ("127.0.0.1", "localhost")


class Issued:
    """A certificate and its key. signed_by: None if it vouches for itself."""

    def __init__(
        self,
        names: tuple[str, ...],
        *,
        signed_by: Issued | None = None,
        days: float = 2,
        now: datetime | None = None,
        authority: bool = False,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
    ) -> None:
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        begin = (now or datetime.now(UTC)) - timedelta(hours=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(signed_by.certificate.subject if signed_by else subject)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(begin, begin + timedelta(days=days - 1)))
            .not_valid_after(begin + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(authority, None), critical=True)
        )
        self.certificate = builder.sign((signed_by or self).key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, password: str | None = None) -> bytes:
        """The key, encrypted with `password` if there is one."""
        how = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)

    def write(self, folder: Path, name: str) -> None:
        """NAME.pem and NAME.key in `folder`."""
        (folder / f"{name}.pem").write_bytes(self.pem)
        (folder / f"{name}.key").write_bytes(self.key_pem())


@cache
def authority(name: str = "authority") -> Issued:
    """One for the whole run."""
    return Issued((name,), authority=True, days=3)


@cache
def server_certificate() -> Issued:
    """For this host, from `authority()`; one for the whole run."""
    return Issued(LOOPBACK, signed_by=authority())


def make_certificate(folder: Path, name: str) -> None:
    """NAME.pem and NAME.key, signed by itself, for a host of that name."""
    Issued((name,)).write(folder, name)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def link_keys(folder: Path, name: str) -> dict[str, Any]:
    """A broker's keys of its HA link's TLS, with a certificate of this name in files of this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    authority().write(folder, "authority")
    Issued((name,), signed_by=authority()).write(folder, name)
    return {
        "ha_tls_enable": True,
        "ha_tls_cert_path": str(folder / f"{name}.pem"),
        "ha_tls_key_path": str(folder / f"{name}.key"),
        "ha_tls_trust_cert_path": str(folder / "authority.pem"),
    }
