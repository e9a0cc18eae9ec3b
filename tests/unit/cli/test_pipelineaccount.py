"""`--credentials` of the commands that reach clusters from Spark: which account counts, and where it's kept."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.pipeline.account import credentials_option, settings_of
from hatwisted.clientcore.credentialfile import find_credentials
from hatwisted.clientcore.credentials import Credentials

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
