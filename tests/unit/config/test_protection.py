"""A configuration that asks for protection which isn't given doesn't start a server by itself."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.load import (
    Loaded,
    lacks_protection,
    load_broker_config,
    load_namesrv_config,
    schema_fields,
)
from hatwisted.config.protection import missing_protection, open_to_strangers
from hatwisted.config.rocketmqkeys import FORMER_BROKER_KEYS, UNUSED_BROKER_KEYS, UNUSED_NAMESRV_KEYS
from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.wire.javaproperties import Entry
from tests.support.loopback import HOST

ASKED = ("authenticationEnabled=true", "authorizationEnabled=TRUE")
MISSPELT = {
    "aclEnable": "true", "listenAllowList": "10.0.0.0/8", "haAllowList": "10.0.0.2", "haTlsEnable": "true",
    "useTLS": "true", "tls.enable": "true", "tls.server.mode": "enforcing", "tls.server.authClient": "true",
    "tls.server.need.client.auth": "require", "tls.client.authServer": "true",
    "metricsTlsMode": "enforcing", "dashboardTlsMode": "enforcing", "adminAllowList": "10.0.0.2",
    "haTlsPeers": "broker-a",
}  # fmt: skip
LOOKING = {
    "aclEnabled=true": "aclEnable", "acl.enable=true": "aclEnable", "enableACL=true": "aclEnable",
    "aclEnalbe=true": "aclEnable", "aclEnabl=TRUE": "aclEnable", "tlsServerMode=enforcing": "tls.server.mode",
    "tls.servermode=enforcing": "tls.server.mode", "tls.server.mod=enforcing": "tls.server.mode",
    "TLS_SERVER_MODE=Enforcing": "tls.server.mode", "server.tls.mode=enforcing": "tls.server.mode",
    "sslServerMode=enforcing": "tls.server.mode", "tlsMode=enforcing": "tls.server.mode", "useTls=true": "useTLS",
    "useSSL=true": "useTLS", "isUseTLS=enforcing": "tls.server.mode", "tlsEnabled=true": "tls.enable",
    "haTlsEnabled=true": "haTlsEnable", "listenAllowedList=10.0.0.0/8": "listenAllowList",
    "haAlowList=10.0.0.2": "haAllowList",
    "haTlsPeer=broker-a": "haTlsPeers", "tls.server.needClientAuth=require": "tls.server.need.client.auth",
}  # fmt: skip
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
        for key in ("useTLS", "tls.enable"):
            loaded = load_namesrv_config(None, [f"{key}=true"], host=HOST)
            (line,) = missing_protection(loaded)
            self.assertIn("tls.server.mode=enforcing", line)
            self.assertEqual(loaded.warnings, [])

    def test_who_writes_it_in_another_case_asks_for_it_too(self) -> None:
        """RocketMQ takes a key in its own case alone, and so do we: such a server would be open."""
        (line,) = missing_protection(broker("authenticationenabled=true"))
        self.assertTrue(line.startswith("--set: authenticationenabled=true: not the accounts of 5.x"), line)
        for key, value in MISSPELT.items():
            wrong = {key.lower(), key.upper(), key.capitalize()} - {key}
            loaded = broker(*(f"{each}={value}" for each in wrong))
            self.assertCountEqual(
                missing_protection(loaded), [f"--set: {each}={value}: the key is {key}" for each in wrong]
            )
            self.assertEqual(loaded.warnings, [])

    def test_a_mode_in_the_file_of_tls_properties_counts_for_nothing_and_is_told(self) -> None:
        path = self.mktemp()
        for text, told in (("enforcing", 1), ("Enforcing", 1), ("permissive", 0), ("disabled", 0)):
            Path(path).write_text(f"# shared\ntls.server.mode={text}\ntls.enable=true\n")
            named = f"tls.config.file={path}"
            lines = missing_protection(broker(named))
            self.assertEqual(
                [line.startswith(f"{path}:2: tls.server.mode=") for line in lines], [True] * told
            )
            self.assertEqual(missing_protection(broker(named, "tls.server.mode=enforcing")), [])

    def test_a_value_that_asks_for_nothing_is_an_unknown_key_like_any_other(self) -> None:
        for given in ("aclenable=false", "TLS.server.mode=Permissive", "haallowlist=", "listenallowlist=*"):
            loaded = broker(given)
            self.assertEqual(missing_protection(loaded), [])
            (warning,) = loaded.warnings
            self.assertIn("unknown keys are ignored", warning)

    def test_what_looks_like_one_is_asked_for_too(self) -> None:
        for given, key in LOOKING.items():
            loaded = broker(given)
            self.assertEqual(missing_protection(loaded), [f"--set: {given}: the key is {key}"])
            self.assertEqual(loaded.warnings, [])
        (line,) = missing_protection(broker("authenticationEnabel=true"))
        self.assertIn("not the accounts of 5.x", line)
        for given in ("allowList=10.0.0.2", "listen.allowlist.v4=10.0.0.2"):
            (line,) = missing_protection(broker(given))
            self.assertIn("the keys are adminAllowList, haAllowList, listenAllowList", line)

    def test_a_name_server_is_told_of_its_own_keys(self) -> None:
        def lacked(given: str) -> list[str]:
            return missing_protection(load_namesrv_config(None, [given], host=HOST))

        self.assertEqual(lacked("aclEnabled=true"), ["--set: aclEnabled=true: the key is aclEnable"])
        self.assertIn("a name server calls nobody", lacked("tlsEnabled=true")[0])
        for brokers in ("haTlsEnable=true", "haAllowList=10.0.0.2", "dashboardTlsMode=enforcing"):
            self.assertEqual(lacked(brokers), [], "a warning tells of it")

    def test_what_asks_for_nothing_or_is_something_else_starts(self) -> None:
        others = ("aclEnabled=false", "tlsServerMode=permissive", "oracleEnable=true", "tlsTestModeEnable=true",
                  "authenticationStrategy=x", "allowListing=", "tls.server.authServers=false")  # fmt: skip
        for given in others:
            loaded = broker(given)
            self.assertEqual(missing_protection(loaded), [], given)
            self.assertIn("unknown keys are ignored", loaded.warnings[0])

    def test_no_key_of_anybodys_looks_like_one(self) -> None:
        ours = {field.encode_name for each in (BrokerConfig, NamesrvConfig) for field in schema_fields(each)}
        for key in (ours - set(MISSPELT)) | UNUSED_BROKER_KEYS | UNUSED_NAMESRV_KEYS | {*FORMER_BROKER_KEYS}:
            for known in ({*MISSPELT}, {"aclEnable", "listenAllowList", "tls.server.mode"}):
                self.assertIsNone(lacks_protection(Entry(key, "true", 1), known), key)


class OpenTests(SynchronousTestCase):
    def test_a_name_server_with_accounts_isnt_open(self) -> None:
        self.assertIn(":9876 is served: set listenAllowList, aclEnable or", self.said() or "")
        for protected in ("aclEnable=true", "listenAllowList=10.0.0.0/8", "tls.server.mode=enforcing"):
            self.assertIsNone(self.said(protected))

    def test_a_list_that_has_everybody_protects_nothing(self) -> None:
        wide = ("*", "0.0.0.0/0", "::/0", "0.0.0.0/1", "0.0.0.0/2;128.0.0.0/2", "10.0.0.0/8;::/1;8000::/1")
        for networks in wide:
            said = self.said(f"listenAllowList={networks}") or ""
            self.assertIn(f"is served: set listenAllowList to less than {networks}, aclEnable or", said)
            self.assertIsNone(self.said(f"listenAllowList={networks}", "aclEnable=true"))
        for networks in ("0.0.0.0/2;10.0.0.0/8", "0.0.0.0/2;0.0.0.0/2", "fc00::/7;fe80::/10;2001:db8::/32"):
            self.assertIsNone(self.said(f"listenAllowList={networks}"))

        given = ("aclEnable=true", "namesrvAddr=10.0.0.9:9876")
        said = open_to_strangers(broker(*given, "haAllowList=0.0.0.0/0").config) or ""
        self.assertIn(
            "is sent the whole log, as a slave is: set haAllowList to less than 0.0.0.0/0, or", said
        )
        self.assertIsNone(open_to_strangers(broker(*given, "haAllowList=10.0.0.0/8").config))
        own = ("aclEnable=true", "haAllowList=10.0.0.2", "listenAllowList=::/0")
        self.assertIn(
            "register there: set listenAllowList to less than ::/0, or",
            open_to_strangers(broker(*own).config) or "",
        )
        figures = ("bindAddress=127.0.0.1", "metricsPort=5557", "metricsAddress=0.0.0.0", "listenAllowList=*")
        self.assertIn("reads the figures", self.said(*figures) or "")

    def said(self, *given: str) -> str | None:
        return open_to_strangers(load_namesrv_config(None, given, host=HOST).config)

    def test_a_live_page_for_others_has_a_password_that_can_be_read_along(self) -> None:
        page = ("bindAddress=127.0.0.1", "dashboardPort=8080")
        shown = (*page, "dashboardAddress=10.0.0.1")
        for given in (shown, (*shown, "dashboardTlsMode=permissive")):
            self.assertIn("set dashboardTlsMode=enforcing", open_to_strangers(broker(*given).config) or "")
        for given in (page, (*page, "dashboardAddress=::1"), (*shown, "dashboardTlsMode=enforcing")):
            self.assertIsNone(open_to_strangers(broker(*given).config))

    def test_figures_at_an_address_of_their_own_are_for_everybody(self) -> None:
        figures = ("bindAddress=127.0.0.1", "metricsPort=5557")
        for address in ("0.0.0.0", "10.0.0.1", "::"):
            shown = (*figures, f"metricsAddress={address}")
            for said in (self.said(*shown), open_to_strangers(broker(*shown).config)):
                self.assertIn(f"everybody who reaches {address}:5557 reads the figures", said or "")
            self.assertIsNone(self.said(*shown, "listenAllowList=10.0.0.0/8"))
        self.assertIsNone(self.said(*figures, "metricsAddress=127.0.0.1"))
        self.assertIsNone(self.said(*figures))

    def test_the_name_server_of_a_master_with_accounts_has_none(self) -> None:
        given = ("aclEnable=true", "haAllowList=10.0.0.2")
        self.assertIn("asks for no account", open_to_strangers(broker(*given).config) or "")
        for closed in ("namesrvAddr=10.0.0.9:9876", "embeddedNamesrv=false", "listenAllowList=10.0.0.0/8"):
            self.assertIsNone(open_to_strangers(broker(*given, closed).config))
