"""Options that several commands have in common, as one decorator, and where `--help` has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option_group(*options: Decorator) -> Decorator:
    """These options, in this order in the help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class ConnectionOption(click.Option):
    """Says whom a command asks, and how: the same of every command, so that who wants to know what one does looks
    for its other options."""


class Command(click.Command):
    """In its help its own options come first, those of the connection below them under a heading of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's, in two sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Connection": []}
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and (record := each.get_help_record(ctx)) is not None:
                sections["Connection" if isinstance(each, ConnectionOption) else "Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Group(click.Group):
    """Its commands are such."""

    command_class = Command
