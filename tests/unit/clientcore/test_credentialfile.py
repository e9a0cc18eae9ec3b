"""An account in a file or the environment: which one counts, and what is said of one that can't be used."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.credentialfile import MAX_SIZE, find_credentials, parse_credentials
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import BadSetting

TOOLS = b"accessKey: rocketmq2\nsecretKey: 12345678\n"
UNUSABLE = (
    b"",
    b"accessKey: rocketmq2",
    b"[",
    b"- 1",
    b"accessKey: [1]\nsecretKey: hush-hush",
    b"x" * (MAX_SIZE + 1),
)


class CredentialFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        (self.home / ".hatwisted").mkdir(parents=True)
        (self.home / "rocketmq" / "conf").mkdir(parents=True)

    def found(self, **environ: str) -> Credentials | None:
        return find_credentials(environ, self.home)

    def test_rocketmqs_file(self) -> None:
        self.assertEqual(parse_credentials(TOOLS, "f"), Credentials("rocketmq2", "12345678"))
        token = parse_credentials(TOOLS + b"securityToken: t\n", "f")
        self.assertEqual(token, Credentials("rocketmq2", "12345678", "t"))

    def test_a_file_that_cannot_be_used(self) -> None:
        for data in UNUSABLE:
            error = self.assertRaises(BadSetting, parse_credentials, data, "tools.yml")
            self.assertTrue(str(error).startswith("tools.yml: "))
            self.assertNotIn("hush", str(error))

    def test_which_one_counts(self) -> None:
        self.assertIsNone(self.found())
        tools = self.home / "rocketmq" / "conf" / "tools.yml"
        tools.write_bytes(TOOLS)
        home = str(self.home / "rocketmq")
        self.assertEqual(self.found(ROCKETMQ_HOME=home), Credentials("rocketmq2", "12345678"))
        (self.home / ".hatwisted" / "credentials").write_bytes(TOOLS.replace(b"rocketmq2", b"of-the-user"))
        self.assertEqual(self.found(ROCKETMQ_HOME=home), Credentials("of-the-user", "12345678"))
        named = {"HATWISTED_CREDENTIALS": str(tools)}
        self.assertEqual(self.found(**named), Credentials("rocketmq2", "12345678"))
        keys = {"HATWISTED_ACCESS_KEY": "of-the-shell", "HATWISTED_SECRET_KEY": "s"}
        self.assertEqual(self.found(**named, **keys), Credentials("of-the-shell", "s"))

    def test_half_an_account_is_a_mistake(self) -> None:
        error = self.assertRaises(BadSetting, self.found, HATWISTED_SECRET_KEY="hush-hush")
        self.assertEqual(str(error), "HATWISTED_ACCESS_KEY and HATWISTED_SECRET_KEY must be set together")
        error = self.assertRaises(BadSetting, self.found, HATWISTED_CREDENTIALS="/nowhere")
        self.assertEqual(str(error), "/nowhere: can't be read: No such file or directory")

    def test_the_secret_is_in_no_repr(self) -> None:
        self.assertNotIn("hush", repr(Credentials("somebody", "hush-hush", "hush")))
