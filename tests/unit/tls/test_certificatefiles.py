"""Certificates and keys from files: what is read, what is refused and how, renewal while a server runs, expiry."""

from __future__ import annotations

import math
import os
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.tls.certificatefiles import EXPIRY_WARNING, WARN_INTERVAL, WATCH_INTERVAL, CertificateFiles
from hatwisted.tls.certificates import MAX_SIZE, CertificateError, PemFiles, self_signed
from hatwisted.tls.contexts import server_context
from tests.support.certificate import Issued, authority, server_certificate
from tests.support.rewriting import put_in_place, rewrite

NOW = 1_795_221_957


class CertificateFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        server_certificate().write(self.folder, "server")
        authority().write(self.folder, "authority")
        self.clock = Clock()
        self.clock.advance(NOW)
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self.observe)
        self.addCleanup(globalLogPublisher.removeObserver, self.observe)

    def observe(self, event) -> None:  # type: ignore[no-untyped-def]
        if event["log_namespace"].startswith("hatwisted.tls"):
            self.lines.append(event["log_format"].format(**event))

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def files(self, certificate: str | None = "server.pem", **more: str) -> CertificateFiles:
        given = {"certificate": certificate, "key": "server.key" if certificate else None, **more}
        paths = {
            name: value if value is None or name == "key_password" else self.path(value)
            for name, value in given.items()
        }
        return CertificateFiles(PemFiles(**paths), PosixFileSystem(), InlineWorker(), self.clock)

    def refusal(self, files: CertificateFiles) -> str:
        return str(self.assertRaises(CertificateError, files.load))

    def test_certificate_key_and_authorities_are_read(self) -> None:
        files = self.files(trust="authority.pem")
        files.load()
        assert files.material.identity is not None
        self.assertEqual(files.material.identity.chain, (server_certificate().certificate,))
        self.assertEqual(files.material.trust, (authority().certificate,))
        self.assertEqual(files.expires, server_certificate().certificate.not_valid_after_utc.timestamp())

    def test_a_server_of_which_only_authorities_are_known_shows_nothing(self) -> None:
        files = self.files(None, trust="authority.pem")
        files.load()
        self.assertEqual((files.material.identity, files.expires), (None, math.inf))

    def test_an_encrypted_key_needs_its_password(self) -> None:
        (self.folder / "server.key").write_bytes(server_certificate().key_pem("open sesame"))
        self.assertIn("server.key: the key is encrypted, and no password", self.refusal(self.files()))
        wrong = self.files(key_password="open barley")
        self.assertIn("or the wrong password", self.refusal(wrong))
        self.assertNotIn("barley", repr(wrong._files))
        self.files(key_password="open sesame").load()

    def test_a_password_for_a_key_that_needs_none_does_no_harm(self) -> None:
        self.files(key_password="open sesame").load()

    def test_files_that_cant_be_used_are_named(self) -> None:
        (self.folder / "empty").write_bytes(b"")
        (self.folder / "huge").write_bytes(bytes(MAX_SIZE + 1))
        exchange = x25519.X25519PrivateKey.generate()
        (self.folder / "x25519").write_bytes(
            exchange.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        for given, said in (
            ({"certificate": "none"}, "none: can't be read: No such file"),
            ({"certificate": "empty"}, "empty: no certificate in it"),
            ({"trust": "huge"}, "huge: 1048577 bytes are too many"),
            ({"key": "empty"}, "empty: no private key in it"),
            ({"key": "x25519"}, "x25519: not a key for TLS"),
            ({"key": "authority.key"}, "authority.key isn't the key of the certificate"),
        ):
            with self.subTest(said):
                self.assertIn(said, self.refusal(self.files(**given)))

    def test_a_key_that_openssl_refuses_is_named(self) -> None:
        weak = rsa.generate_private_key(65537, 1024)
        Issued(("broker-a",), key=weak).write(self.folder, "server")
        self.assertIn("server.pem: can't be used for TLS: ee key too small", self.refusal(self.files()))

    def test_renewed_files_hold_within_the_interval(self) -> None:
        files = self.files()
        files.load()
        files.start()
        self.addCleanup(files.stop)
        made = files.derived(lambda material: object())
        before = made()
        self.clock.advance(WATCH_INTERVAL)
        self.assertIs(made(), before)
        Issued(("broker-b",)).write(self.folder, "server")
        self.touch("server.pem")
        self.clock.advance(WATCH_INTERVAL)
        self.assertIsNot(made(), before)
        self.assertIs(made(), made())

    def test_files_of_the_same_size_and_time_are_read_again(self) -> None:
        files = self.files(None, trust="authority.pem")
        authority = self.folder / "authority.pem"
        length = 2000
        authority.write_bytes(authority.read_bytes().ljust(length, b"\n"))
        files.load()
        files.start()
        self.addCleanup(files.stop)
        for change in (rewrite, put_in_place):
            renewed = Issued(("broker-b",))
            change(authority, renewed.pem.ljust(length, b"\n"))
            self.clock.advance(WATCH_INTERVAL)
            self.assertEqual(files.material.trust, (renewed.certificate,))

    def test_B186_half_renewed_files_change_nothing_until_they_fit(self) -> None:
        files = self.files()
        files.load()
        files.start()
        self.addCleanup(files.stop)
        before = files.material
        renewed = Issued(("broker-b",))
        (self.folder / "server.pem").write_bytes(renewed.pem)
        self.touch("server.pem")
        self.clock.pump([WATCH_INTERVAL] * 3)
        self.assertIs(files.material, before)
        told = [line for line in self.lines if "isn't the key of the certificate" in line]
        self.assertEqual(len(told), 1, "once, not at every look")
        (self.folder / "server.key").write_bytes(renewed.key_pem())
        self.clock.advance(WATCH_INTERVAL)
        assert files.material.identity is not None
        self.assertEqual(files.material.identity.chain, (renewed.certificate,))

    def test_a_key_of_a_kind_that_isnt_known_is_named(self) -> None:
        # SEC 1, with the parameters of a curve that nobody has
        key = b64encode(bytes.fromhex("300f0201010403010203a00506032a0304"))
        pem = b"-----BEGIN EC PRIVATE KEY-----\n" + key + b"\n-----END EC PRIVATE KEY-----\n"
        (self.folder / "server.key").write_bytes(pem)
        self.assertIn("server.key: a key that can't be read here", self.refusal(self.files()))

    def test_two_ports_look_once_and_until_both_are_closed(self) -> None:
        files = self.files()
        files.load()
        for change in (files.start, files.start, files.stop):
            change()
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        files.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_expiry_is_warned_of_once_a_day_from_thirty_days_on(self) -> None:
        begin = datetime.fromtimestamp(NOW, UTC)
        Issued(("broker-a",), days=EXPIRY_WARNING + 1, now=begin).write(self.folder, "server")
        files = self.files()
        files.load()
        files.start()
        self.addCleanup(files.stop)
        self.assertEqual(self.lines, [])
        for _ in range(3):
            self.clock.advance(WARN_INTERVAL)
        self.assertEqual(
            [line.partition("expires in ")[2] for line in self.lines], ["30 days", "29 days", "28 days"]
        )

    def test_an_expired_certificate_is_an_error_in_the_log(self) -> None:
        Issued(("broker-a",), days=-1, now=datetime.fromtimestamp(NOW, UTC)).write(self.folder, "server")
        self.files().load()
        self.assertIn("the certificate has expired", self.lines[0])

    def touch(self, name: str) -> None:
        """As if written a second later: file systems may keep times no finer."""
        status = os.stat(self.path(name))
        os.utime(self.path(name), (status.st_atime, status.st_mtime + 1))


class SelfSignedTests(SynchronousTestCase):
    def test_it_can_be_shown(self) -> None:
        identity = self_signed("broker-a", NOW)
        server_context(identity)
        self.assertGreater(identity.expires, NOW + 300 * 86400)
        self.assertNotIn("key", repr(identity))
