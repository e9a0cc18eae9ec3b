"""A line for a narrow terminal: what doesn't fit goes on below the beginning of its words, not below its mark."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text


def hanging(first: str | tuple[str, str], rest: Text) -> Table:
    """One line, folded between words; what is longer than a line (a path) is folded where it has to be.

    - first: what stands before the words, with its style if it has one
    """
    line = Table.grid()
    line.add_column(no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(Text.assemble(first), rest)
    return line
