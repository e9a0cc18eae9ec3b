"""Options of `land` alone: how long it goes on, and what it does about files that pile up."""

from __future__ import annotations

import click

from hatwisted.cli.optiongroup import option_group
from hatwisted.cli.optionvalues import Span

following_options = option_group(
    click.option("--follow", is_flag=True, help="Keep landing what is appended, until Ctrl-C."),
    click.option(
        "--every",
        type=click.FloatRange(0, min_open=True),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="With --follow: seconds between two commits.",
    ),
)
"""--follow, --every."""

upkeep_options = option_group(
    click.option("--no-compact", is_flag=True, help="Don't merge small files."),
    click.option(
        "--vacuum",
        type=Span(),
        metavar="SPAN",
        help="Remove files that were replaced longer ago than this (7d, 36h); by default they stay.",
    ),
)
"""--no-compact, --vacuum."""
