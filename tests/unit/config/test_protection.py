"""A configuration that asks for protection which isn't given doesn't start a server by itself."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.load import Loaded, load_broker_config, load_namesrv_config
from hatwisted.config.protection import missing_protection
from hatwisted.config.schema import BrokerConfig
from tests.support.loopback import HOST

ASKED = ("authenticationEnabled=true", "authorizationEnabled=TRUE")
HONOURED = ("useTLS=true", "tls.enable=true", "tls.server.mode=enforcing", "aclEnable=true")


def broker(*given: str) -> Loaded[BrokerConfig]:
    return load_broker_config(None, given, host=HOST)


class ProtectionTests(SynchronousTestCase):
    def test_what_asks_for_it_is_named_with_its_place(self) -> None:
        for entry in ASKED:
            (line,) = missing_protection(broker(entry))
            self.assertTrue(line.startswith(f"--set: {entry}: "), line)

    def test_what_is_given_isnt_missing(self) -> None:
        self.assertEqual(missing_protection(broker("useTLS=false", "authenticationEnabled=", *HONOURED)), [])

    def test_a_name_server_has_no_calls_to_encrypt(self) -> None:
        (line,) = missing_protection(load_namesrv_config(None, ["useTLS=true"], host=HOST))
        self.assertIn("tls.server.mode=enforcing", line)
