"""docs/events.md lists the names of events, and those alone."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from testbed.processes import REPOSITORY


class EventTests(SynchronousTestCase):
    def test_every_event_is_listed_and_every_listed_one_exists(self) -> None:
        page = (REPOSITORY / "docs" / "events.md").read_text()
        listed = re.findall(r"^\| `([a-z.]+)` \|", page, re.MULTILINE)
        named = {
            name
            for path in (REPOSITORY / "hatwisted").rglob("*.py")
            for name in re.findall(r'\bevent="([^"]+)"', path.read_text())
        }
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual(set(listed), named)
