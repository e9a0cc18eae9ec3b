"""Helps are of one kind: what a command does comes first, its exit codes are a paragraph, and how it reaches
brokers comes last, under a heading of its own, as every command has that."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.main import main

WIDTH = 80


def helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, str]]:
    """Each command's path, itself, and its help on a terminal of 80 columns."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            inner = click.Context(below, info_name=name, parent=context, terminal_width=WIDTH)
            yield from helps(below, inner)
    yield context.command_path, command, command.get_help(context)


class HelpTests(SynchronousTestCase):
    def found(self) -> list[tuple[str, click.Command, str]]:
        found = list(helps(main, click.Context(main, info_name="hatwisted", terminal_width=WIDTH)))
        self.assertIn("hatwisted broker config get", [path for path, _, _ in found])
        return found

    def test_what_a_command_does_comes_before_how_it_reaches_brokers(self) -> None:
        for path, command, text in self.found():
            links = [each for each in command.params if "tls_verify" in (each.name or "")]
            own, heading, connection = text.partition("\n\nConnection:\n")
            self.assertEqual(bool(links), bool(heading), path)
            for option in ("--credentials", "--tls-verify", "--tls-properties"):
                self.assertTrue(not links or (option in connection and option not in own), (path, option))
            self.assertIn("--help", own, path)

    def test_exit_codes_are_a_paragraph(self) -> None:
        """Where they end a sentence's line, nobody finds them."""
        for path, command, _ in self.found():
            for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
                self.assertNotIn("Exit code", paragraph[1:], path)

    def test_nothing_is_cut_at_80_columns(self) -> None:
        for path, _, text in self.found():
            self.assertEqual([line for line in text.splitlines() if len(line) > WIDTH], [], path)
