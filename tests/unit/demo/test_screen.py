"""The demo's lines, on a narrow terminal and in a file."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.demo.screen import Screen

LONG = (
    "the name server routes to master 127.0.0.1:12254 and slave 127.0.0.1:12967; the slave follows its master"
)


class LinesTests(SynchronousTestCase):
    def shown(self, *, terminal: bool) -> list[str]:
        console = Console(
            file=StringIO(), width=80, force_terminal=terminal, color_system=None, highlight=False
        )
        with console.capture() as captured:
            Screen(console).step(LONG)
        return [line.rstrip() for line in captured.get().splitlines()]

    def test_a_terminal_folds_between_words_below_the_beginning(self) -> None:
        first, second = self.shown(terminal=True)
        self.assertTrue(second.startswith("  ") and second[2] != " ", second)
        self.assertEqual(" ".join((first.removeprefix("✓ "), second.strip())), LONG)

    def test_a_file_has_one_line(self) -> None:
        self.assertEqual(self.shown(terminal=False), [f"✓ {LONG}"])
