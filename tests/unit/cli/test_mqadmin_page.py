"""docs/mqadmin.md promises commands: each is there, with the options that stand beside it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.messageformat import TOKENS
from hatwisted.cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "mqadmin.md"


def promised(text: str) -> list[str]:
    """What stands in code in the second column of the first two tables, and is a command's beginning."""
    rows = [line.split(" | ") for line in re.findall(r"^\| (`.* \|)$", text, re.MULTILINE)]
    found = [span for row in rows if len(row) > 1 for span in re.findall(r"`([^`]+)`", row[1])]
    return [span for span in found if main.get_command(click.Context(main), span.split()[0]) is not None]


def command_of(words: list[str]) -> click.Command:
    """The command that these words name; fails where a word isn't one."""
    command: click.Command = main
    while isinstance(command, click.Group):
        below = command.get_command(click.Context(command), words.pop(0))
        assert below is not None
        command = below
    return command


class MqadminPageTests(SynchronousTestCase):
    def test_what_it_promises_is_there(self) -> None:
        spans = promised(PAGE.read_text())
        self.assertGreater(len(spans), 35)
        for span in spans:
            words = shlex.split(span.replace("[KEY...]", "KEY").replace("K=V...", "K=V"))
            command = command_of(words)
            options = {name for each in command.params for name in each.opts}
            given = {word for word in words if re.match("--?[a-zA-Z]", word)}
            self.assertEqual(given - options, set(), span)
            fewest = sum(isinstance(each, click.Argument) and each.required for each in command.params)
            self.assertGreaterEqual(len(words), fewest, f"{span}: an argument is missing")

    def test_every_token_of_a_format_is_explained(self) -> None:
        text = PAGE.read_text().partition("| in `-f` | is |")[2]
        explained = set(re.findall(r"%(.)", "".join(re.findall(r"`(%[^`]+)`", text))))
        self.assertEqual(explained, set(TOKENS))
