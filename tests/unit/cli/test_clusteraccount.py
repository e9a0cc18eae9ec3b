"""`--credentials`: which account counts, and that no secret is shown."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.clusteraccount import credentials_of, credentials_option
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import BadSetting


@click.command()
@credentials_option
@click.pass_context
def who(context: click.Context) -> None:
    raise Found(credentials_of(context))


class Found(Exception):
    """The account that a command would sign with."""


class CredentialsOptionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        (self.home / ".hatwisted").mkdir(parents=True)

    def file(self, name: str, text: str) -> str:
        (self.home / name).write_text(text)
        return str(self.home / name)

    def outcome(self, *arguments: str, **environ: str) -> BaseException | None:
        return CliRunner().invoke(who, arguments, env={"HOME": str(self.home), **environ}).exception

    def account(self, *arguments: str, **environ: str) -> Credentials | None:
        found = self.outcome(*arguments, **environ)
        assert isinstance(found, Found), found
        return found.args[0]

    def test_what_is_named_counts_more_than_what_lies_about(self) -> None:
        self.assertIsNone(self.account())
        self.file(".hatwisted/credentials", "accessKey: users-own\nsecretKey: 12345678\n")
        named = self.file("named.yml", "accessKey: named\nsecretKey: 12345678\n")
        variables = {"HATWISTED_ACCESS_KEY": "variable", "HATWISTED_SECRET_KEY": "12345678"}
        for account, expected in (
            (self.account(), "users-own"),
            (self.account(**variables), "variable"),
            (self.account("--credentials", named, **variables), "named"),
        ):
            self.assertEqual(account and account.access_key, expected)

    def test_a_file_that_others_may_read_is_told_of_once(self) -> None:
        users_own = self.file(".hatwisted/credentials", "accessKey: users-own\nsecretKey: hush-hush\n")
        named = self.file("named.yml", "accessKey: named\nsecretKey: hush-hush\n")
        for path, arguments in ((users_own, ()), (named, ("--credentials", named))):
            for mode, lines in ((0o644, 1), (0o602, 1), (0o600, 0), (0o640, 0)):
                os.chmod(path, mode)
                result = CliRunner().invoke(who, arguments, env={"HOME": str(self.home)})
                self.assertIsInstance(result.exception, Found)
                self.assertEqual(result.stderr.count(f"chmod o= {path}\n"), lines, (path, oct(mode)))
                self.assertNotIn("hush-hush", result.output)
        os.chmod(users_own, 0o644)
        variables = {"HATWISTED_ACCESS_KEY": "variable", "HATWISTED_SECRET_KEY": "12345678"}
        result = CliRunner().invoke(who, (), env={"HOME": str(self.home), **variables})
        self.assertEqual(result.stderr, "", "the file isn't read")

    def test_a_file_that_cannot_be_used_is_named_and_its_secret_is_not(self) -> None:
        broken = self.file("broken.yml", "secretKey: hush-hush\n")
        for path, reason in ((broken, "must have lines accessKey"), ("/nowhere", "can't be read")):
            error = self.outcome("--credentials", path)
            self.assertIsInstance(error, BadSetting)
            self.assertIn(f"{path}: {reason}", str(error))
            self.assertNotIn("hush-hush", str(error))
