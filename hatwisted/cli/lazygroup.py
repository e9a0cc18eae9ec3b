"""A group of commands that imports only the one that is run.

Inspecting a store needn't import a client, nor sending a message numpy: either costs half a second. Nor does the
list of commands need any of them: what it says of each stands beside its place, and a test compares the two.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import click


class LazyGroup(click.Group):
    """By command name.

    - places: where each command is defined, as "module:name"
    - helps: the line that the list of commands has of each; of one that isn't there its own first line
    """

    def __init__(
        self,
        *arguments: Any,
        places: Mapping[str, str],
        helps: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._places = places
        self._helps = helps or {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        rows = [(name, self._helps.get(name) or self._imported_help(ctx, name)) for name in self._places]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))

    def _imported_help(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        assert command is not None
        return command.get_short_help_str(100)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All, by name."""
        return sorted(self._places)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, and of a mistyped name the nearest one is named."""
        name = args[0]
        if name not in self._places and not ctx.resilient_parsing:
            from difflib import get_close_matches

            if near := get_close_matches(name, self._places, 1):
                ctx.fail(f"No such command {name!r}; did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now; None if there is none."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(_imported(module), name)
        assert isinstance(command, click.Command)
        return command


def _imported(name: str) -> ModuleType:
    """This module. Nobody looks for garbage while it's imported, nor at what there is when the process ends: both
    together are a quarter of what a short command takes."""
    if name in sys.modules:
        return sys.modules[name]
    looked = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if looked:
            gc.enable()
        gc.freeze()
        atexit.register(gc.freeze)
