"""What others have named, on a terminal: it's shown and not obeyed."""

from __future__ import annotations

import io
import sys

import pytest

from hatwisted.cli.cluster.consume import shown_body
from hatwisted.cli.errors import CannotRun
from hatwisted.cli.output import show

NAME = "T\x1b]0;owned\x07\n[red]\x9b2J"
SHOWN = "T\\x1b]0;owned\\x07\\n[red]\\x9b2J"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_names_in_tables(capsys: pytest.CaptureFixture[str]) -> None:
    show(False, None, ["topic"], [[NAME]])
    assert capsys.readouterr().out.split("\n")[1].rstrip() == SHOWN


def test_names_in_errors() -> None:
    assert CannotRun(f"{NAME}\nsee --help").format_message() == f"{SHOWN}\nsee --help".replace("\\n[", "\n[")


def test_bodies_on_terminals_and_in_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "ok\n\tö".encode() + b"\x1b[31m\xff"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert shown_body(body) == body
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert shown_body(body) == "ok\n\tö\\x1b[31m\\xff".encode()
