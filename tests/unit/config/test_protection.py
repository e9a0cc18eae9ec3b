"""A configuration that asks for protection which isn't given doesn't start a server by itself."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.load import read_source
from hatwisted.config.protection import missing_protection

ASKED = (
    "useTLS=true",
    "tls.enable=TRUE",
    "tls.server.mode=enforcing",
    "authenticationEnabled=true",
    "authorizationEnabled=true",
)
NOT_ASKED = (
    "useTLS=false",
    "tls.enable=",
    "tls.server.mode=permissive",
    "tls.server.mode=disabled",
    "aclEnable=true",
)


class ProtectionTests(SynchronousTestCase):
    def test_what_asks_for_it_is_named_with_its_place(self) -> None:
        for entry in ASKED:
            (line,) = missing_protection(read_source(None, [entry]))
            self.assertTrue(line.startswith(f"--set: {entry}: "), line)

    def test_what_does_not(self) -> None:
        self.assertEqual(missing_protection(read_source(None, NOT_ASKED)), [])
