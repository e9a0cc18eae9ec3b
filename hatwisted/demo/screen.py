"""What the user sees: steps as lines, and a live table below them while something moves.

On a terminal the table is redrawn in place; elsewhere (a CI log) only its last state is printed.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from hatwisted.demo.monitor import UNKNOWN, Figures
from hatwisted.health.hanging import hanging


class Screen:
    """Lines, a progress bar and the table of figures."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._live: Live | None = None
        self._status: Status | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[sent]}"),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._bar = self._progress.add_task("input", total=None, start=False, visible=False, sent="")

    def step(self, text: str) -> None:
        """A step that is done."""
        self._print("✓ ", "green", text)

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self._print("  ", "", text)

    def failure(self, text: str) -> None:
        """Something isn't as it should be."""
        self._print("✗ ", "red", text)

    def doing(self, text: str | None) -> None:
        """What is going on, shown below the lines for as long as it does; None: nothing. Only on a terminal."""
        if text is None:
            if self._status is not None:
                self._status.stop()
                self._status = None
        elif self._status is not None:
            self._status.update(text)
        elif self.console.is_terminal:
            self._status = self.console.status(text)
            self._status.start()

    def begin(self) -> None:
        """Show the live part; the progress bar's clock runs from here."""
        self._progress.start_task(self._bar)
        self._live = Live(console=self.console, auto_refresh=False)
        self._live.start()

    def update(
        self, figures: Figures, statuses: Mapping[str, int], read: int, total: int, count: int
    ) -> None:
        """Redraw.

        - figures: of both brokers
        - statuses: answers to sends, counted by status
        - read, total: input bytes sent, and all
        - count: messages sent
        """
        self._progress.update(self._bar, completed=read, total=total, sent=messages(count), visible=True)
        if self._live is not None:
            self._live.update(Group(self._progress, figures_table(figures, statuses)), refresh=True)

    def end(self) -> None:
        """Stop redrawing and leave the last state on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            if not self.console.is_terminal:
                self.console.print()

    def _print(self, mark: str, colour: str, text: str) -> None:
        if not self.console.is_terminal:
            self.console.print(Text.assemble((mark, colour), text), soft_wrap=True)
            return
        self.console.print(hanging((mark, colour), Text(text)))


def messages(count: int) -> str:
    """1,000 -> "1,000 messages"."""
    return f"{count:,} message{'' if count == 1 else 's'}"


def figures_table(figures: Figures, statuses: Mapping[str, int]) -> RenderableType:
    """Offsets and lag in bytes, answers by status."""
    table = Table()
    columns = {
        "master offset": figures.master_offset,
        "slave ack offset": figures.slave_ack_offset,
        "lag": figures.lag,
    }
    shown = {"PUT_OK": 0} | dict(statuses)
    for name in (*columns, *shown):
        table.add_column(name, justify="right")
    values = (*columns.values(), *shown.values())
    table.add_row(*("-" if value == UNKNOWN else f"{value:,}" for value in values))
    return table
