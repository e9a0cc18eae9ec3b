"""Whom a client trusts on sockets of the standard library, and what it says of files that don't do."""

from __future__ import annotations

import ssl
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.tls import Tls, tls_problem
from tests.support.certificate import Issued


class ContextTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.issued = Issued(("broker",), authority=True)
        self.trust = self.file("trust.pem", self.issued.pem)

    def file(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def test_how_much_is_verified(self) -> None:
        found = {}
        for verify in ("full", "chain", "none"):
            context = Tls(trust_file=self.trust, verify=verify).context()
            found[verify] = (context.check_hostname, context.verify_mode, len(context.get_ca_certs()))
        expected = {
            "full": (True, ssl.CERT_REQUIRED, 1),
            "chain": (False, ssl.CERT_REQUIRED, 1),
            "none": (False, ssl.CERT_NONE, 0),
        }
        self.assertEqual(found, expected)

    def test_without_a_file_the_machines_authorities_are_trusted(self) -> None:
        asked = []
        self.patch(ssl.SSLContext, "load_default_certs", lambda context: asked.append(context))
        context = Tls().context()
        self.assertEqual(asked, [context])

    def test_a_trust_file_that_isnt_one(self) -> None:
        for path, reason in ((self.file("no.pem", b"nonsense"), ""), ("/nowhere.pem", "No such file")):
            error = self.assertRaises(BadSetting, Tls(trust_file=path).context)
            self.assertTrue(str(error).startswith(f"trust file {path}: {reason}"), error)
            self.assertTrue(str(error).endswith(": give PEM certificates"), error)

    def test_a_certificate_with_its_key_and_the_keys_password(self) -> None:
        certificate = self.file("own.pem", self.issued.pem)
        key = self.file("key.pem", self.issued.key_pem("secret"))
        tls = Tls(trust_file=self.trust, certificate=certificate, key=key, key_password="secret")
        self.assertIsInstance(tls.context(), ssl.SSLContext)
        self.assertNotIn("secret", repr(tls))

    def test_a_certificate_that_doesnt_fit(self) -> None:
        certificate = self.file("own.pem", self.issued.pem)
        other = self.file("other.pem", Issued(("other",)).key_pem())
        locked = self.file("locked.pem", self.issued.key_pem("secret"))
        for key in (other, locked, None):
            tls = Tls(trust_file=self.trust, certificate=certificate, key=key)
            error = self.assertRaises(BadSetting, tls.context)
            where = certificate if key is None else f"{certificate} with key {key}"
            self.assertTrue(str(error).startswith(f"client certificate {where}: "), error)
            self.assertIn("give PEM files that belong together", str(error))


class ProblemTests(SynchronousTestCase):
    def test_each_is_said_with_what_to_do(self) -> None:
        refused = ssl.SSLCertVerificationError(1, "refused")
        refused.verify_message = "self-signed certificate"
        self.assertIn("(self-signed certificate): name its authority", tls_problem(refused) or "")
        plain = ssl.SSLError(1, "it didn't work")
        plain.reason = "WRONG_VERSION_NUMBER"
        self.assertEqual(tls_problem(plain), "no TLS there: WRONG_VERSION_NUMBER")
        self.assertIsNone(tls_problem(ConnectionRefusedError(111, "refused")))
