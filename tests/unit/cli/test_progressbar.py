"""The progress bar: silent for what is quick, on a terminal only."""

from __future__ import annotations

import io

from rich.console import Console
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.progressbar import PATIENCE, ScanProgress


class ProgressTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.output = io.StringIO()

    def progress(self, terminal: bool) -> ScanProgress:
        console = Console(file=self.output, force_terminal=terminal, width=100)
        return ScanProgress("check", 1 << 20, 11 << 20, self.clock.seconds, console)

    def test_quick_runs_are_silent(self) -> None:
        with self.progress(True) as progress:
            self.clock.advance(PATIENCE - 0.01)
            progress(6 << 20)
        self.assertEqual(self.output.getvalue(), "")

    def test_long_runs_show_a_bar(self) -> None:
        with self.progress(True) as progress:
            self.clock.advance(PATIENCE)
            progress(6 << 20)
            progress(11 << 20)
        self.assertIn("check", self.output.getvalue())
        self.assertIn("10.0/10.0 MiB", self.output.getvalue())

    def test_nothing_but_a_terminal_gets_it(self) -> None:
        with self.progress(False) as progress:
            self.clock.advance(10 * PATIENCE)
            progress(6 << 20)
        self.assertEqual(self.output.getvalue(), "")
