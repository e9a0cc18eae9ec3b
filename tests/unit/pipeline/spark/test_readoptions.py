"""Options: texts in any case to values, and errors that say what is allowed."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from datetime import UTC, datetime

from hatwisted.pipeline.spark.readoptions import BadOption, OffsetBound, Options

KNOWN = ("maxBytesPerTrigger", "paths", "mode", "startingOffsets")


def options(**given: str) -> Options:
    return Options("commitlog", given, KNOWN)


class OptionsTests(unittest.TestCase):
    def refused(self, text: str, read: Callable[[], object]) -> None:
        with self.assertRaisesRegex(BadOption, text):
            read()

    def test_an_unknown_name_is_reported_with_the_nearest_one(self) -> None:
        self.refused(
            "maxbytespertriger.*did you mean maxBytesPerTrigger", lambda: options(maxbytespertriger="1")
        )
        self.refused("known are maxBytesPerTrigger, mode", lambda: options(xyz="1"))

    def test_names_in_any_case(self) -> None:
        self.assertEqual(options(MODE="a").text("mode"), "a")

    def test_sizes(self) -> None:
        for text, size in {"7": 7, "64k": 65536, "2 MiB": 2 << 20, "1gb": 1 << 30}.items():
            self.assertEqual(options(maxBytesPerTrigger=text).size("maxBytesPerTrigger"), size)
        for text in ("0", "-1", "1.5m", "m"):
            self.refused(
                "must be bytes as", lambda text=text: options(maxBytesPerTrigger=text).size(KNOWN[0])
            )

    def test_lists_with_and_without_commas_in_them(self) -> None:
        self.assertEqual(options(paths=" /a , /b,").items("paths"), ("/a", "/b"))
        self.assertEqual(options(paths='["/a,b", "/c"]').items("paths"), ("/a,b", "/c"))
        self.assertEqual(options().items("paths"), ())
        self.refused("isn't JSON", lambda: options(paths='["/a').items("paths"))
        self.refused("array of strings", lambda: options(paths="[1]").items("paths"))

    def test_choices(self) -> None:
        self.assertEqual(
            options(mode="FailFast").choice("mode", ("failfast", "permissive"), "failfast"), "failfast"
        )
        self.refused("must be a or b", lambda: options(mode="c").choice("mode", ("a", "b"), "a"))

    def test_times(self) -> None:
        expected = datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)
        for text in (
            "2026-01-31T12:00:00.25Z",
            "2026-01-31T13:00:00.250+01:00",
            "2026-01-31 12:00:00.250",
            "1769860800250",
        ):
            self.assertEqual(options(mode=text).instant("mode"), expected, text)
        self.refused("must be a time", lambda: options(mode="yesterday").instant("mode"))

    def test_starts(self) -> None:
        def start(text: str) -> object:
            return options(startingOffsets=text).start("startingOffsets", OffsetBound.EARLIEST)

        self.assertIs(start(""), OffsetBound.EARLIEST)
        self.assertIs(start("Latest"), OffsetBound.LATEST)
        self.assertEqual(start('{"broker-a": 5}'), {"broker-a": 5})
        self.assertEqual(start("2026-01-31"), datetime(2026, 1, 31, tzinfo=UTC))
        self.refused("must be earliest, latest", lambda: start("1700000000000"))
        self.refused("isn't JSON", lambda: start("{broker-a: 5}"))

    def test_an_offset_given_twice(self) -> None:
        for text in ('{"a": 1, "a": 2}', '{"T": {"b": {"0": 1, "1": 1, "0": 5}}}'):
            read = options(startingOffsets=text)
            self.refused(
                "'(a|0)' is in one object twice",
                lambda read=read: read.start("startingOffsets", OffsetBound.EARLIEST),
            )

    def test_a_second_name(self) -> None:
        other = {"maxOffsetsPerTrigger": "mode"}
        self.assertEqual(Options("s", {"MAXoffsetspertrigger": "5"}, KNOWN, other).integer("mode"), 5)
        self.assertEqual(
            Options("s", {"maxOffsetsPerTrigger": "5", "mode": "5"}, KNOWN, other).text("mode"), "5"
        )
        self.refused(
            "maxOffsetsPerTrigger and mode are the same option",
            lambda: Options("s", {"maxOffsetsPerTrigger": "5", "mode": "6"}, KNOWN, other),
        )
