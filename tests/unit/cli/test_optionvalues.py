"""Times on the command line: in UTC unless they name a zone, whatever zone the machine is in."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta

import click
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster.consume import _consume_from
from hatwisted.cli.cluster.groupmoves import _timestamp
from hatwisted.cli.cluster.namesrvoption import NameServers
from hatwisted.cli.log.loggroup import Position
from hatwisted.cli.optionvalues import Instant, Span, iso_time, milliseconds, parse_time
from hatwisted.wire.quantities import size_text

NOON = 1_795_262_400_000
"""2026-11-21T12:00 UTC, in ms."""


def _set_zone(name: str | None) -> None:
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    time.tzset()


class TimeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.addCleanup(_set_zone, os.environ.get("TZ"))
        _set_zone("Asia/Tokyo")
        self.assertEqual(time.localtime(NOON / 1000).tm_hour, 21, "the test's zone isn't in effect")

    def test_a_time_without_a_zone_is_in_utc(self) -> None:
        text = "2026-11-21T12:00"
        self.assertEqual(parse_time(text), datetime(2026, 11, 21, 12, tzinfo=UTC))
        self.assertEqual(Instant().convert(text, None, None), datetime(2026, 11, 21, 12, tzinfo=UTC))
        self.assertEqual(Position().convert(text, None, None), ("time", NOON))
        self.assertEqual(_consume_from(text)[1], NOON)
        self.assertEqual(_timestamp(text), NOON)

    def test_a_zone_that_is_named_counts(self) -> None:
        for text in ("2026-11-21T12:00Z", "2026-11-21T21:00+09:00", "2026-11-21 07:00-05:00"):
            self.assertEqual(milliseconds(text), NOON, text)

    def test_what_is_printed_can_be_given(self) -> None:
        self.assertEqual(iso_time(NOON + 7), "2026-11-21 12:00:00.007Z")
        self.assertEqual(milliseconds(iso_time(NOON + 7)), NOON + 7)

    def test_what_is_no_time_is_named(self) -> None:
        for text in ("noon", "-2", "2 fortnights", ""):
            with self.assertRaisesRegex(ValueError, rf"'{text}' isn't a time like .* \(UTC\), 2h \(ago\)"):
                parse_time(text)
        self.assertRaises(ValueError, parse_time, "99999999999w")

    def test_how_long_something_lasts(self) -> None:
        for text, span in (
            ("7d", timedelta(days=7)),
            ("36h", timedelta(hours=36)),
            ("90 s", timedelta(0, 90)),
        ):
            self.assertEqual(Span().convert(text, None, None), span)
        for text in ("0d", "-1h", "7d ago", "7", "a week", "", "99999999999w"):
            self.assertRaises(click.BadParameter, Span().convert, text, None, None)

    def test_words_and_spans_before_now(self) -> None:
        def now() -> datetime:
            return datetime(2026, 11, 21, 12, 30, 5, tzinfo=UTC)

        for text, meant in (
            ("now", "2026-11-21T12:30:05"),
            ("today", "2026-11-21T00:00"),
            ("yesterday", "2026-11-20T00:00"),
            ("-2h", "2026-11-21T10:30:05"),
            ("2h", "2026-11-21T10:30:05"),
            ("90s ago", "2026-11-21T12:28:35"),
            ("3d", "2026-11-18T12:30:05"),
        ):
            self.assertEqual(parse_time(text, now), parse_time(meant), text)


class NameServersTests(SynchronousTestCase):
    def test_a_port_left_out_is_a_name_servers(self) -> None:
        for given, meant in (
            ("host", "host:9876"),
            ("10.0.0.1", "10.0.0.1:9876"),
            ("host:1", "host:1"),
            ("a; b:2,c", "a:9876;b:2;c:9876"),
            ("[::1]", "[::1]:9876"),
            ("[fd00::1]:3", "[fd00::1]:3"),
        ):
            self.assertEqual(NameServers().convert(given, None, None), meant)


class SizeTests(SynchronousTestCase):
    def test_binary_units_for_people(self) -> None:
        shown = [size_text(count) for count in (0, 1023, 1536, 5 << 20, 1 << 30, 3 << 50)]
        self.assertEqual(shown, ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "1.0 GiB", "3,072.0 TiB"])
