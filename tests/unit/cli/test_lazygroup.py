"""A mistyped command names the nearest one; one that is like none of them doesn't."""

from __future__ import annotations

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.main import main


class MistypedTests(SynchronousTestCase):
    def said(self, *words: str) -> str:
        done = CliRunner().invoke(main, words)
        self.assertEqual(done.exit_code, 2)
        return done.output

    def test_the_nearest_command_is_named(self) -> None:
        self.assertIn("No such command 'statsu'; did you mean status?", self.said("statsu"))

    def test_a_word_like_none_of_them(self) -> None:
        said = self.said("qqqqqq")
        self.assertIn("No such command 'qqqqqq'", said)
        self.assertNotIn("did you mean", said)
