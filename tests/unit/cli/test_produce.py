"""What `hatwisted produce` says while its count is on the screen."""

from __future__ import annotations

import sys
from io import StringIO
from typing import cast

import click
from rich.console import Console
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import produce
from hatwisted.cli.cluster.clusterrun import InputLines, Interrupt
from hatwisted.client.producer import Producer
from hatwisted.clientcore.sending import SendResult, SendStatus
from hatwisted.wire.messagequeue import MessageQueue


class Stream(StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: terminal  # type: ignore[method-assign]


class SayingTests(SynchronousTestCase):
    def shown(self, **terminals: bool) -> tuple[bool, str]:
        """Whether the count is, and what is said before it: by the streams that are terminals."""
        for name in ("stdin", "stdout", "stderr"):
            self.patch(sys, name, Stream(terminal=terminals.get(name, False)))
        sending = produce._Sending({"as_json": terminals.get("as_json", False)})
        sending._show()
        count = sending._progress.live.is_started
        if count:
            sending._progress.stop()
        return count, "" if count else sys.stderr.getvalue()  # type: ignore[attr-defined]

    def test_the_count_is_shown_where_it_is_in_nobodys_way(self) -> None:
        self.assertTrue(self.shown(stderr=True)[0])
        self.assertTrue(self.shown(stderr=True, stdout=True)[0])
        self.assertTrue(self.shown(stderr=True, as_json=True)[0])
        self.assertEqual(self.shown(stderr=True, stdout=True, as_json=True), (False, ""))
        self.assertEqual(self.shown(stdin=True, stdout=True), (False, ""))

    def test_who_types_is_told_how_to_end(self) -> None:
        count, said = self.shown(stdin=True, stderr=True)
        self.assertFalse(count)
        self.assertIn("Ctrl-D ends", said)

    def test_an_error_has_a_line_of_its_own(self) -> None:
        output = StringIO()
        self.patch(
            produce,
            "Console",
            lambda **_: Console(file=output, force_terminal=True, color_system=None, width=80),
        )
        sending = produce._Sending({"as_json": False})
        sending._progress.start()
        sending._progress.refresh()
        sending._fail("line 1: no\n  JSON [b]")
        sending._progress.stop()
        (line,) = (each for each in output.getvalue().splitlines() if "JSON" in each)
        # Before it there is only what takes the count off the screen.
        self.assertTrue(line.endswith("line 1: no JSON [b]"), line)
        self.assertNotIn("stored", line)

    def test_who_reads_no_results_any_more_ends_it(self) -> None:
        written: list[bytes] = []

        def echo(text: bytes) -> None:
            written.append(text)
            raise BrokenPipeError

        self.patch(click, "echo", echo)
        sending = produce._Sending({"as_json": True})
        queue = MessageQueue(topic="T", broker_name="b", queue_id=0)
        result = SendResult(
            status=SendStatus.OK, message_id="1", offset_id="2", queue=queue, queue_offset=0, address="h:1"
        )
        for _ in range(3):
            sending._stored(result)
        self.assertEqual((len(written), sending.sent), (1, 3))
        self.assertRaises(BrokenPipeError, sending._end, Interrupt())

    def test_what_was_sent_until_then_is_waited_for(self) -> None:
        class Sender:
            """Sends nothing more once nobody reads the results."""

            waited = 0

            async def ready(self) -> None:
                sending._unheard = BrokenPipeError()

            async def settled(self) -> None:
                self.waited += 1

        class Lines:
            async def chunk(self) -> list[bytes]:
                return [b"one", b"two"]

        sending, sender = produce._Sending({"as_json": True}), Sender()
        reading = sending._read(cast(InputLines, Lines()), cast(Producer, sender), Interrupt())
        self.successResultOf(Deferred.fromCoroutine(reading))
        self.assertEqual((sender.waited, sending.failed), (1, 0))


class LineTests(SynchronousTestCase):
    def test_whatever_a_line_has_its_mistake_is_the_lines(self) -> None:
        for line in (
            b'{"body64": 5, "compression": "zlib"}',
            b'{"body64": "aGk=", "compression": "zlib", "sysFlag": null}',
            b'{"body64": "aGk=", "compression": "zlib", "sysFlag": [1]}',
            b'{"body64": "aGk", "compression": "zlib"}',
            b'{"a":' * 100_000,
        ):
            self.assertRaises(ValueError, produce.parse_line, line)
