"""Results as a table for people or as one JSON document for programs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hatwisted.wire.printable import printable, printable_json

yes_option: Final = click.option("--yes", is_flag=True, help="Don't ask.")
"""--yes."""


def json_option(command: Any) -> Any:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="The result as one JSON document.")(command)


def echo_json(value: object) -> None:
    """Print a JSON document. On a terminal nothing of it is obeyed."""
    click.echo(printable_json(msgspec.json.encode(value)))


def show(as_json: bool, value: Any, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a result.

    - as_json: as one JSON value
    - value: the result
    - columns, rows: else: as a table
    """
    if as_json:
        echo_json(value)
        return
    click.echo(table_text(columns, rows))


def said(as_json: bool, line: str, **value: object) -> None:
    """Print what was done.

    - as_json: as one JSON object
    - line: else: in words
    - value: the object's members
    """
    if as_json:
        echo_json(value)
        return
    click.echo(printable(line))


def counted(number: int, what: str, many: str | None = None) -> str:
    """1 message, 2,000 messages.

    - number, what: how many, and of what
    - many: its plural, unless that's made by an s
    """
    return f"{number:,} {what if number == 1 else many or what + 's'}"


WIDEST: Final = 110
"""Columns of a line of text on a wide terminal: longer ones are hard to read."""


def folded(text: str, indent: int, first: str = "") -> str:
    """On a terminal folded between words, so that it fits; one line for a program.

    - text: what is said
    - indent: spaces before the lines after the first
    - first: before the first line
    """
    if not sys.stdout.isatty():
        return first + text
    columns = min(shutil.get_terminal_size().columns - 1, max(WIDEST, 2 * indent))
    wrapper = textwrap.TextWrapper(
        columns,
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
        drop_whitespace=True,
    )
    return wrapper.fill(text) or first


def table_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for people, as wide as the terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*[Text(printable(str(each))) for each in row])
    width = None if sys.stdout.isatty() else 500
    console = Console(width=width, highlight=False, color_system=None if width else "auto")
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
