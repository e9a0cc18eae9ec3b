"""What `hatwisted produce` says while its count is on the screen."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import produce


class SayingTests(SynchronousTestCase):
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
