"""How far a job without an end is, as lines: a service has no terminal for a bar."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import click

from hatwisted.wire.quantities import size_text

EVERY: Final = 60.0
"""Seconds between two lines of what is read; what is waited for has its line at once."""
TO_STDERR: Final = partial(click.echo, err=True)


class JobLines:
    """The progress of a job that follows logs, on standard error. What is read needn't be committed yet.

    - title: the job's name
    - write: takes a line
    - seconds: the clock
    """

    def __init__(
        self,
        title: str,
        write: Callable[[str], object] = TO_STDERR,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._write = write
        self._seconds = seconds
        self._next = seconds()
        self._read = self._of_round = 0
        self._waits_for = ""

    def __call__(self, done: int, total: int) -> None:
        # A round begins at nothing again, and says how much there was when it began.
        self._read += done - self._of_round if done >= self._of_round else done
        self._of_round = done
        if self._seconds() < self._next:
            return
        self._next = self._seconds() + EVERY
        left = total - done
        rest = f"{size_text(left)} to go" if left > 0 else "all that there was"
        self._tell(f"{size_text(self._read)} of log read, {rest}")

    def waits_for(self, what: str) -> None:
        """Tell what is waited for until something is done, once."""
        if what != self._waits_for:
            self._waits_for = what
            self._tell(what)

    def _tell(self, what: str) -> None:
        self._write(f"{self._title}: {what}")
