"""A bar on standard error for what takes long, and none for what doesn't."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

PATIENCE: Final = 2.0
"""Seconds before the bar appears: quick runs stay silent."""


class ScanProgress:
    """Call it with the log offset reached. Shows a bar only on a terminal, and only after PATIENCE.

    - title: of the command
    - begin, end: offsets of what is read
    - seconds: a monotonic clock
    - console: where; None: standard error
    """

    def __init__(
        self,
        title: str,
        begin: int,
        end: int,
        seconds: Callable[[], float] = time.monotonic,
        console: Console | None = None,
    ) -> None:
        self._title = title
        self._begin = begin
        self._total = max(1, end - begin)
        self._seconds = seconds
        self._started = seconds()
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None

    def __call__(self, offset: int) -> None:
        if self._bar is None:
            if self._seconds() - self._started < PATIENCE or not self._console.is_terminal:
                return
            self._bar = self._new_bar()
            self._bar.start()
            self._bar.add_task(self._title, total=self._total)
        self._bar.update(self._bar.task_ids[0], completed=offset - self._begin)

    @property
    def visible(self) -> bool:
        """Has it appeared?"""
        return self._bar is not None

    def _new_bar(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
        return Progress(
            *columns, TransferSpeedColumn(), TimeRemainingColumn(), console=self._console, transient=True
        )

    def __enter__(self) -> ScanProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
