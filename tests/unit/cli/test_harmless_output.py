"""What others have named, on a terminal: it's shown and not obeyed."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.attach import _End, _finish
from hatwisted.cli.cluster.consume import shown_body
from hatwisted.cli.cluster.produce import _Sending
from hatwisted.cli.errors import CannotRun
from hatwisted.cli.output import show

NAME = "T\x1b]0;owned\x07\r[red]\x9b2J"
SHOWN = "T\\x1b]0;owned\\x07\\r[red]\\x9b2J"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class OutputTests(SynchronousTestCase):
    def test_names_in_tables(self) -> None:
        out = io.StringIO()
        self.patch(sys, "stdout", out)
        show(False, None, ["topic"], [[NAME]])
        self.assertEqual(out.getvalue().split("\n")[1].rstrip(), SHOWN)

    def test_names_in_errors(self) -> None:
        self.assertEqual(CannotRun(f"{NAME}\nsee --help").format_message(), f"{SHOWN}\nsee --help")

    def test_bodies_on_terminals_and_in_pipes(self) -> None:
        body = "ok\n\tö".encode() + b"\x1b[31m\xff"
        self.patch(sys, "stdout", io.StringIO())
        self.assertEqual(shown_body(body), body)
        self.patch(sys, "stdout", Terminal())
        self.assertEqual(shown_body(body), "ok\n\tö\\x1b[31m\\xff".encode())

    def test_errors_of_lines_and_problems_of_slaves(self) -> None:
        said: list[str] = []
        self.patch(click, "echo", lambda text, **_: said.append(text))
        _Sending({"as_json": False})._say(NAME)
        _finish(False, _End(problems=[NAME], seconds=1.0), {"namesrvAddr": "n:9876"}, Path("there"))
        self.assertEqual([each for each in said if "owned" in each], [SHOWN, f"! {SHOWN}"])
