"""How a command ends: exit codes, and the one kind of error that is shown without a traceback."""

from __future__ import annotations

from typing import Final

import click

from hatwisted.wire.printable import printable

EXIT_OK: Final = 0
EXIT_PROBLEMS: Final = 1
"""The command did its work and found something that needs attention."""
EXIT_CANNOT: Final = 2
"""Wrong usage, no such store, store in use: nothing was done. Click's own usage errors end with this, too."""
EXIT_INTERRUPTED: Final = 130
"""128 + SIGINT, as shells have it."""


class CannotRun(click.ClickException):
    """Something the user can fix; shown as one line."""

    exit_code = EXIT_CANNOT

    def format_message(self) -> str:
        """See click.ClickException. What peers and files say is quoted in it."""
        return printable(super().format_message(), keep="\n")


def of_system(error: OSError) -> CannotRun:
    """What the system has refused, in one line: a full disk, or a folder that can't be read."""
    told = " ".join(click.unstyle(error.strerror or str(error)).split())
    return CannotRun(f"{error.filename or 'input/output'}: {told}")
