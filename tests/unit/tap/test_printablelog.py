"""Names that would write lines of their own into the log, or be obeyed by a terminal."""

from __future__ import annotations

from typing import Any

from twisted.logger import LogEvent, Logger, LogPublisher, eventAsText, formatEvent
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.tap.printablelog import make_printable

NAME = "g\n2026-01-01T00:00:00+0000 [-] sync failed\r\x1b[31m\x1b]0;owned\x07\x9b2J\u202e\u2028"
ESCAPED = "g\\n2026-01-01T00:00:00+0000 [-] sync failed\\r\\x1b[31m\\x1b]0;owned\\x07\\x9b2J\\u202e\\u2028"


class LogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.events: list[LogEvent] = []
        self.log = Logger(namespace="test", observer=LogPublisher(make_printable, self.events.append))

    def text(self, **fields: Any) -> str:
        self.log.info("group {group} made", **fields)
        return formatEvent(self.events[-1])

    def test_a_name_writes_no_line_and_moves_no_cursor(self) -> None:
        self.assertEqual(self.text(group=NAME), f"group {ESCAPED} made")

    def test_an_error_that_quotes_a_name(self) -> None:
        self.assertEqual(self.text(group=ValueError(NAME)), f"group {ESCAPED} made")

    def test_other_values_and_letters_of_all_languages_stay(self) -> None:
        error = OSError(2, "No such file")
        for value in (5, 1.5, None, True, b"\x1b", ("a", "b"), "Zürich 東京", error):
            self.assertEqual(self.text(group=value), f"group {value} made")
            self.assertIs(self.events[-1]["group"], value)

    def test_a_traceback_keeps_its_lines_and_its_failure(self) -> None:
        failure = Failure(ValueError(f"first\nsecond {NAME}"))
        self.log.failure("failed", failure=failure)
        text = eventAsText(self.events[-1])
        self.assertIn("first\nsecond g\n2026", text)
        self.assertNotIn("\x1b", text)
        self.assertIn("\x1b", str(failure.value))
