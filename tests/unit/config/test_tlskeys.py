"""TLS properties: where they may be written, what counts more, what is advised and what is never shown."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config import load
from hatwisted.config.errors import ConfigError
from hatwisted.config.load import Loaded, effective_text, load_broker_config
from hatwisted.config.schema import BrokerConfig
from hatwisted.config.tlskeys import TlsClientAuth, TlsMode
from tests.support.loopback import HOST


class TlsKeysTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.conf, self.properties = self.folder / "broker.conf", self.folder / "tls.properties"
        self.conf.write_text("")

    def load(self, *overrides: str) -> Loaded[BrokerConfig]:
        return load_broker_config(str(self.conf), overrides, host=HOST)

    def test_without_a_word_a_port_speaks_both_with_a_self_signed_certificate(self) -> None:
        config = self.load().config
        self.assertEqual((config.tls_server_mode, config.tls_self_signed), (TlsMode.PERMISSIVE, True))

    def test_B186_a_certificate_that_is_given_is_shown(self) -> None:
        given = ("tls.server.certPath=/c.pem", "tls.server.keyPath=/c.key")
        self.assertFalse(self.load(*given).config.tls_self_signed)
        loaded = self.load(*given, "tls.test.mode.enable=true")
        self.assertTrue(loaded.config.tls_self_signed)
        self.assertIn(
            "--set: tls.test.mode.enable=true: a self-signed certificate is shown", loaded.warnings[0]
        )

    def test_rocketmqs_file_counts_more_than_the_configuration_and_less_than_the_command_line(self) -> None:
        self.conf.write_text("tls.server.certPath=/conf.pem\ntls.server.keyPath=/conf.key\n")
        self.properties.write_text(
            "tls.server.certPath=/file.pem\ntls.server.keyPath=/file.key\n"
            "tls.server.need.client.auth=REQUIRE\ntls.server.mode=disabled\ntls.enable=true\n"
        )
        named = f"tls.config.file={self.properties}"
        config = self.load(named, "tls.server.keyPath=/set.key").config
        self.assertEqual((config.tls_server_cert_path, config.tls_server_key_path), ("/file.pem", "/set.key"))
        self.assertIs(config.tls_server_need_client_auth, TlsClientAuth.REQUIRE)
        self.assertEqual((config.tls_server_mode, config.tls_enable), (TlsMode.PERMISSIVE, False))

    def test_rocketmqs_file_is_read_where_it_lies(self) -> None:
        self.patch(load, "TLS_FILE", str(self.properties))
        self.assertEqual(self.load().warnings, [])
        self.properties.write_text("\ntls.server.need.client.auth=sometimes\n")
        error = self.assertRaises(ConfigError, self.load)
        self.assertEqual(
            str(error),
            f"{self.properties}:2: tls.server.need.client.auth: can't be 'sometimes'; "
            "allowed: one of none, optional, require",
        )

    def test_a_file_that_is_named_must_be_there(self) -> None:
        error = self.assertRaises(ConfigError, self.load, "tls.config.file=/none")
        self.assertEqual(str(error), "/none: can't be read: No such file or directory")

    def test_settings_that_do_less_than_they_seem_to_are_told(self) -> None:
        for entry, advice in (
            ("tls.server.mode=enforcing", "no client can tell this server from another"),
            ("tls.server.authClient=true", "no client is asked for a certificate"),
            ("tls.server.need.client.auth=require", "any certificate will do"),
            ("haTlsCertPath=/broker.pem", "the HA link is plain all the same; set haTlsEnable=true"),
        ):
            (warning,) = self.load(entry).warnings
            self.assertIn(advice, warning)
        self.assertEqual(self.load("tls.server.mode=disabled", "tls.server.authClient=true").warnings, [])

    def test_passwords_are_never_shown(self) -> None:
        given = [
            f"{key}=open sesame"
            for key in ("tls.server.keyPassword", "tls.client.keyPassword", "haTlsKeyPassword")
        ]
        loaded = self.load(*given)
        self.assertEqual(loaded.config.tls_server_key_password, "open sesame")
        self.assertNotIn("sesame", repr(loaded.config))
        text = effective_text(loaded)
        self.assertNotIn("sesame", text)
        self.assertIn("# tls.server.keyPassword is set, and not shown\n", text)
