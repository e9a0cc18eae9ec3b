"""`--tls`: where a command takes its TLS properties from, and what is checked."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.clustertls import tls_of, tls_options
from hatwisted.clientcore import tlsfile
from hatwisted.clientcore.tls import Tls
from hatwisted.clientcore.tlsfile import USERS_FILE


@click.command()
@tls_options
def command() -> None:
    context = click.get_current_context()
    try:
        context.obj.append(tls_of(context))
    except ValueError as error:
        context.obj.append(str(error))


class ClusterTlsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        (self.home / ".hatwisted").mkdir(parents=True)
        self.system = self.home / "system.properties"
        self.patch(tlsfile, "TLS_FILE", str(self.system))

    def tls(self, *words: str, **environment: str) -> Tls | str | None:
        found: list[Tls | str | None] = []
        done = CliRunner().invoke(command, words, obj=found, env={"HOME": str(self.home), **environment})
        self.assertEqual(done.exit_code, 0, done.output)
        return found[0]

    def test_nothing_is_encrypted_unless_asked_for(self) -> None:
        self.system.write_text("tls.client.trustCertPath=/ca.pem\n")
        self.assertIsNone(self.tls())
        self.assertIsNone(self.tls("--no-tls", HATWISTED_TLS="true"))

    def test_who_says_how_and_not_that_is_not_connected_in_plain(self) -> None:
        for words in (("--tls-properties", str(self.system)), ("--tls-verify", "chain")):
            self.assertIn(f"{words[0]} is given without --tls", str(self.tls(*words)))
            self.assertIsNone(self.tls(*words, "--no-tls"))
            self.assertIsNone(self.tls(*words, HATWISTED_TLS="false"))
        self.assertIsNone(self.tls(HATWISTED_TLS_PROPERTIES=str(self.system)))

    def test_asked_for_without_a_file_everything_is_checked(self) -> None:
        for given in (self.tls("--tls"), self.tls(HATWISTED_TLS="true")):
            self.assertEqual(given, Tls())

    def test_the_first_file_counts_and_the_users_own_is_before_the_systems(self) -> None:
        named = self.home / "named.properties"
        for path in (self.system, self.home / USERS_FILE, named):
            path.write_text(f"tls.client.trustCertPath=/{path.name}\n")
        for words, expected in ((("--tls-properties", str(named)), named.name), ((), "tls.properties")):
            self.assertEqual(self.tls("--tls", *words), Tls(trust_file=f"/{expected}"))
        (self.home / USERS_FILE).unlink()
        self.assertEqual(self.tls("--tls"), Tls(trust_file=f"/{self.system.name}"))

    def test_all_that_rocketmqs_file_says_to_clients(self) -> None:
        self.system.write_text(
            "tls.client.certPath=/c.pem\ntls.client.keyPath=/c.key\ntls.client.keyPassword=open\n"
            "tls.client.trustCertPath=/ca.pem\ntls.client.authServer=true\ntls.server.certPath=/s.pem\n"
        )
        self.assertEqual(self.tls("--tls"), Tls("/ca.pem", "/c.pem", "/c.key", "open", verify="chain"))

    def test_what_is_checked_is_the_files_or_the_options_word(self) -> None:
        self.system.write_text("tls.client.authServer=false\n")
        self.assertEqual(self.tls("--tls"), Tls(verify="none"))
        self.assertEqual(self.tls("--tls", "--tls-verify", "full"), Tls())

    def test_a_file_that_cant_be_read_is_named(self) -> None:
        self.assertEqual(
            self.tls("--tls", "--tls-properties", "/none"), "/none: can't be read: No such file or directory"
        )
