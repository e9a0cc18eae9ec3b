"""`--credentials` and `--tls` of the commands that reach clusters from Spark: what counts, and where it's kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import patch

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.pipeline.account import (
    SECRETS,
    account_options,
    connection_values,
    credentials_option,
    settings_of,
)
from hatwisted.cli.pipeline.commands import pipeline
from hatwisted.clientcore.credentialfile import find_credentials
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import BadSetting
from hatwisted.clientcore.tls import Tls
from hatwisted.pipeline.spark.rocketmqoptions import CLUSTER_OPTIONS, cluster_settings, rocketmq_options

SECRET = "secret-of-somebody"


@click.command()
@credentials_option
def who() -> None:
    raise Found(find_credentials(os.environ, Path.home()))


class Found(Exception):
    """The account that a process started now would sign with."""


class PipelineAccountTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir(parents=True)
        (self.home / "named.yml").write_text(f"accessKey: named-one\nsecretKey: {SECRET}\n")

    def outcome(self, *arguments: str, **environ: str) -> tuple[BaseException | None, str]:
        with patch.dict(os.environ, {"HOME": str(self.home), **environ}):
            result = CliRunner().invoke(who, arguments)
        return result.exception, result.output

    def account(self, *arguments: str, **environ: str) -> Credentials | None:
        found, _ = self.outcome(*arguments, **environ)
        assert isinstance(found, Found), found
        return found.args[0]

    def test_a_named_file_counts_more_than_variables(self) -> None:
        named = Credentials("named-one", SECRET)
        variables = {"HATWISTED_ACCESS_KEY": "variable", "HATWISTED_SECRET_KEY": "12345678"}
        self.assertIsNone(self.account())
        self.assertEqual(self.account(**variables), Credentials("variable", "12345678"))
        self.assertEqual(self.account("--credentials", str(self.home / "named.yml"), **variables), named)

    def test_a_file_that_is_none_ends_the_command_without_its_secret(self) -> None:
        (self.home / "half.yml").write_text(f"secretKey: {SECRET}\n")
        for name, told in (("missing.yml", "can't be read"), ("half.yml", "must have lines accessKey")):
            found, output = self.outcome("--credentials", str(self.home / name))
            self.assertIsInstance(found, SystemExit)
            self.assertIn(told, " ".join(output.split()))
            self.assertNotIn(SECRET, output)

    def test_an_import_without_options_signs_too(self) -> None:
        with patch.dict(os.environ, {"HATWISTED_CREDENTIALS": str(self.home / "named.yml")}):
            os.environ.pop("HATWISTED_ACCESS_KEY", None)
            self.assertEqual(settings_of("127.0.0.1:9", {}).credentials, Credentials("named-one", SECRET))


@click.command()
@account_options
def encrypted() -> None:
    asked = settings_of("127.0.0.1:9", {})
    source = cluster_settings(rocketmq_options({"namesrvAddr": "127.0.0.1:9"}))
    raise Encrypted(asked.tls, source.tls)


class Encrypted(Exception):
    """How the command's own connections are encrypted, and those of a source in a process started now."""


class PipelineTlsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.properties = self.home / ".hatwisted" / "tls.properties"
        self.properties.parent.mkdir(parents=True)
        (self.home / "named").write_text("tls.client.trustCertPath=/named.pem\n")

    def outcome(self, *arguments: str, **environ: str) -> tuple[BaseException | None, str]:
        with patch.dict(os.environ, {"HOME": str(self.home), **environ}):
            result = CliRunner().invoke(encrypted, arguments)
        return result.exception, result.output

    def tls(self, *arguments: str, **environ: str) -> Tls | None:
        found, _ = self.outcome(*arguments, **environ)
        assert isinstance(found, Encrypted), found
        asked, source = found.args
        self.assertEqual(asked, source)
        assert asked is None or isinstance(asked, Tls)
        return asked

    def test_nothing_is_encrypted_unless_asked_for(self) -> None:
        self.properties.write_text("tls.client.trustCertPath=/ca.pem\n")
        self.assertIsNone(self.tls())
        self.assertIsNone(self.tls("--no-tls", HATWISTED_TLS="true"))

    def test_asked_for_it_is_as_the_client_s_file_says(self) -> None:
        self.properties.write_text("tls.client.trustCertPath=/ca.pem\ntls.client.authServer=true\n")
        for given in (self.tls("--tls"), self.tls(HATWISTED_TLS="yes")):
            self.assertEqual(given, Tls(trust_file="/ca.pem", verify="chain"))
        self.assertEqual(self.tls("--tls", "--tls-verify", "none"), Tls(trust_file="/ca.pem", verify="none"))
        named = str(self.home / "named")
        self.assertEqual(self.tls("--tls", "--tls-properties", named), Tls(trust_file="/named.pem"))
        self.assertEqual(self.tls("--tls", HATWISTED_TLS_PROPERTIES=named), Tls(trust_file="/named.pem"))

    def test_what_makes_no_sense_ends_the_command_in_a_line(self) -> None:
        for words, environ, told in (
            (("--tls-verify", "chain"), {}, "--tls-verify is given without --tls"),
            (("--tls-properties", str(self.home / "named")), {}, "--tls-properties is given without --tls"),
            (("--tls", "--tls-properties", "/none"), {}, "/none: can't be read: No such file or directory"),
        ):
            found, output = self.outcome(*words, **environ)
            self.assertIsInstance(found, SystemExit)
            self.assertIn(told, " ".join(output.split()))
        for environ, told in (
            ({"HATWISTED_TLS": "perhaps"}, "HATWISTED_TLS=perhaps: give true or false"),
            (
                {"HATWISTED_TLS": "1", "HATWISTED_TLS_VERIFY": "a"},
                "HATWISTED_TLS_VERIFY=a: give one of full,",
            ),
        ):
            found, _ = self.outcome(**environ)
            self.assertIsInstance(found, BadSetting)
            self.assertIn(told, str(found))


@click.command()
@click.option("--option", multiple=True, callback=connection_values)
def connected(option: dict[str, str]) -> None:
    click.echo(json.dumps(option))


class SecretsOnTheLineTests(SynchronousTestCase):
    def said(self, *given: str) -> list[str]:
        words = [word for each in given for word in ("--option", each)]
        result = CliRunner().invoke(connected, words)
        self.assertEqual(result.exit_code, 0, result.output)
        self.assertEqual(json.loads(result.stdout), dict(each.split("=", 1) for each in given))
        self.assertNotIn(SECRET, result.stderr)
        return result.stderr.splitlines()

    def test_who_gives_one_is_told_once_and_where_else_it_can_be(self) -> None:
        (line,) = self.said("accessKey=somebody", f"secretKey={SECRET}", "tls=true")
        self.assertEqual(
            line,
            "warning: --option secretKey: any user of this host may read it in the list of processes: use the "
            "file that --credentials names, or HATWISTED_SECRET_KEY in the environment",
        )
        (line,) = self.said("accessKey=somebody", f"secretkey=1{SECRET}", f"SECRETKEY={SECRET}")
        self.assertIn("--option secretKey: ", line)
        (line,) = self.said(f"tlsKeyPassword={SECRET}")
        self.assertIn("--option tlsKeyPassword: ", line)
        self.assertIn("--tls-properties", line)

    def test_nothing_is_said_of_others(self) -> None:
        self.assertEqual(self.said("accessKey=somebody", "tls=true", "secretKey=", "retries=3"), [])

    def test_they_are_options_of_a_connection(self) -> None:
        self.assertEqual(SECRETS.keys() - set(CLUSTER_OPTIONS), set())

    def test_each_command_that_takes_such_options_says_so(self) -> None:
        taking = {
            name: parameter.callback
            for name, command in pipeline.commands.items()
            for parameter in command.params
            if "--option" in parameter.opts
        }
        self.assertGreater(len(taking), 2)
        self.assertEqual({name for name, each in taking.items() if each is not connection_values}, set())
