"""Lines for people: folded where there is a terminal, whole where a program reads."""

from __future__ import annotations

import io
import os
import shutil
import sys

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.output import WIDEST, folded, table_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class FoldedTests(SynchronousTestCase):
    def on_terminal(self, columns: int) -> None:
        self.patch(sys, "stdout", Terminal())
        self.patch(shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))

    def test_a_program_gets_one_line(self) -> None:
        self.patch(sys, "stdout", io.StringIO())
        self.assertEqual(folded("word " * 60, 4, "- "), "- " + "word " * 60)

    def test_a_line_is_folded_between_words_and_indented(self) -> None:
        self.on_terminal(40)
        path = "/a/path/that/is/longer/than/the/terminal/is/wide"
        lines = folded("disk-full words " * 8 + path, 5, "!    ").split("\n")
        self.assertTrue(all(len(line) < 40 for line in lines[:-1]), lines)
        self.assertEqual({line[:5] for line in lines}, {"!    ", "     "})
        self.assertTrue(lines[-1].endswith(path), "a path stays whole")
        self.assertNotIn("disk-\n", "\n".join(lines))

    def test_a_wide_terminal_has_lines_that_can_be_read(self) -> None:
        self.on_terminal(300)
        self.assertLessEqual(max(map(len, folded("word " * 100, 2).split("\n"))), WIDEST)


class TableTests(SynchronousTestCase):
    def test_a_program_gets_no_spaces_at_the_ends_of_lines(self) -> None:
        self.patch(sys, "stdout", io.StringIO())
        text = table_text(["key", "value"], [("a", "x" * 100), ("b", "")])
        self.assertEqual([line for line in text.split("\n") if line != line.rstrip()], [])
