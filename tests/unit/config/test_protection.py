"""A configuration that asks for protection which isn't given doesn't start a server by itself."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.load import Loaded, load_broker_config, load_namesrv_config
from hatwisted.config.protection import missing_protection, open_to_strangers
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


class OpenTests(SynchronousTestCase):
    def test_a_name_server_with_accounts_isnt_open(self) -> None:
        self.assertIn(":9876 is served: set listenAllowList, aclEnable or", self.said() or "")
        for protected in ("aclEnable=true", "listenAllowList=10.0.0.0/8", "tls.server.mode=enforcing"):
            self.assertIsNone(self.said(protected))

    def said(self, *given: str) -> str | None:
        return open_to_strangers(load_namesrv_config(None, given, host=HOST).config)

    def test_a_live_page_for_others_has_a_password_that_can_be_read_along(self) -> None:
        page = ("bindAddress=127.0.0.1", "dashboardPort=8080")
        shown = (*page, "dashboardAddress=10.0.0.1")
        for given in (shown, (*shown, "dashboardTlsMode=permissive")):
            self.assertIn("set dashboardTlsMode=enforcing", open_to_strangers(broker(*given).config) or "")
        for given in (page, (*page, "dashboardAddress=::1"), (*shown, "dashboardTlsMode=enforcing")):
            self.assertIsNone(open_to_strangers(broker(*given).config))

    def test_the_name_server_of_a_master_with_accounts_has_none(self) -> None:
        given = ("aclEnable=true", "haAllowList=10.0.0.2")
        self.assertIn("asks for no account", open_to_strangers(broker(*given).config) or "")
        for closed in ("namesrvAddr=10.0.0.9:9876", "embeddedNamesrv=false", "listenAllowList=10.0.0.0/8"):
            self.assertIsNone(open_to_strangers(broker(*given, closed).config))
