"""What others have named, on a terminal: it's shown and not obeyed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import attach, remarks
from hatwisted.cli.cluster.attach import _End, _finish
from hatwisted.cli.cluster.consume import as_json as message_json
from hatwisted.cli.cluster.consume import shown_body
from hatwisted.cli.cluster.produce import _Sending
from hatwisted.cli.errors import CannotRun
from hatwisted.cli.log import logcommand
from hatwisted.cli.log.recordformat import as_json as record_json
from hatwisted.cli.output import echo_json, said, show
from hatwisted.cli.pipeline import sparkrun
from hatwisted.client.driver import NAMESPACE
from hatwisted.clientcore.message import decode_records, received
from hatwisted.wire.record import encode_record, make_record

NAME = "T\x1b]0;owned\x07\r[red]\x9b2J"
SHOWN = "T\\x1b]0;owned\\x07\\r[red]\\x9b2J"


HIDDEN = "T\x7f\x9b2J\u202eevil\u2066\u200b\u2028"
HIDDEN_SHOWN = "T\\x7f\\x9b2J\\u202eevil\\u2066\\u200b\\u2028"


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

    def documents(self, work: Callable[[], object]) -> str:
        """What is printed."""
        echoed: list[Any] = []
        self.patch(click, "echo", lambda text, **_: echoed.append(text))
        work()
        return "".join(each.decode() if isinstance(each, bytes) else each for each in echoed)

    def test_documents_mean_the_same_and_hide_nothing(self) -> None:
        value = {"name": HIDDEN}
        for work in (
            lambda: echo_json(value),
            lambda: show(True, value, (), ()),
            lambda: said(True, "", **value),
            lambda: logcommand.print_result(value, True, lambda found: ()),
            lambda: sparkrun.print_result(Found(value), True, lambda found: iter(())),
            lambda: sparkrun.print_result(
                Found(json.dumps(value, ensure_ascii=False)), True, lambda found: iter(())
            ),
        ):
            text = self.documents(work)
            self.assertTrue(text.isprintable(), ascii(text))
            self.assertEqual(json.loads(text), value)

    def test_messages_as_documents(self) -> None:
        record = make_record("T", HIDDEN.encode(), raw_properties=f"KEYS\x01{HIDDEN}\x02".encode())
        (stored,) = decode_records(encode_record(record))
        for line in (record_json(record, "text"), message_json(received(stored, "b"))):
            self.assertTrue(line.decode().isprintable(), line)
            self.assertEqual(json.loads(line)["body"], HIDDEN)
            self.assertEqual(json.loads(line)["properties"]["KEYS"], HIDDEN)

    def test_what_brokers_and_name_servers_add(self) -> None:
        self.assertEqual(self.documents(lambda: said(False, HIDDEN)), HIDDEN_SHOWN)
        event = {"log_namespace": NAMESPACE, "remark": HIDDEN, "log_format": "{remark}"}
        self.assertEqual(self.documents(lambda: remarks._told(event)), HIDDEN_SHOWN)
        plan = {
            "master": HIDDEN,
            "haAddress": HIDDEN,
            "logBytes": 1,
            "brokerId": 1,
            "listenPort": 1,
            "folder": "f",
        }
        self.assertIn(HIDDEN_SHOWN, self.documents(lambda: attach._say(False, plan)))
        self.assertTrue(self.documents(lambda: attach._say(True, plan)).isprintable())


class Found:
    """A job's result."""

    def __init__(self, document: object) -> None:
        self._document = document

    def as_json(self) -> object:
        return self._document
