"""The server's log: files that begin anew and are limited in number, and JSON lines."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path

from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure
from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.tap.serverlog import KEPT_FILES, LogPlan, RotatedLog, json_line
from hatwisted.tap.startup import BrokerOptions


class LogFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.path = self.folder / "a.log"
        self.day = date(2026, 11, 23)

    def opened(self, size: int | None, kept: int, *, daily: bool = False) -> RotatedLog:
        log = RotatedLog(self.path, size, kept, (lambda: self.day) if daily else None)
        self.addCleanup(log.close)
        return log

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))

    def test_at_a_size_and_no_more_files_than_are_kept(self) -> None:
        log = self.opened(10, 2)
        for number in range(9):
            log.write(f"line {number}....\n")
        self.assertEqual(self.names(), ["a.log", "a.log.1", "a.log.2"])
        self.assertEqual(Path(f"{self.path}.1").read_text(), "line 7....\n")

    def modes(self) -> list[int]:
        return [(self.folder / name).stat().st_mode & 0o777 for name in self.names()]

    def test_files_are_their_owners_alone(self) -> None:
        self.addCleanup(os.umask, os.umask(0))
        log = self.opened(10, 2)
        for number in range(3):
            log.write(f"line {number}....\n")
        self.assertEqual(self.modes(), [0o600] * 3)

    def test_a_file_that_is_there_keeps_its_mode_and_gives_it_to_the_next(self) -> None:
        self.path.write_text("before\n")
        self.path.chmod(0o640)
        log = self.opened(10, 2)
        for number in range(3):
            log.write(f"line {number}....\n")
        self.assertEqual(self.modes(), [0o640] * 3)

    def test_a_file_that_somebody_else_has_made_keeps_its_mode_when_it_is_opened_again(self) -> None:
        log = self.opened(None, 2)
        self.path.rename(f"{self.path}.moved")
        self.path.write_text("")
        self.path.chmod(0o640)
        log.reopen()
        self.assertEqual(self.modes(), [0o640, 0o600])

    def test_an_operators_mask_counts_instead(self) -> None:
        plan = LogPlan("never", "3", "text", 0o027)
        plan.observer(str(self.path), daemon=True)
        assert plan._file is not None
        self.addCleanup(plan._file.close)
        self.assertEqual(self.modes(), [0o640])

    def test_how_many_are_kept_unless_somebody_says(self) -> None:
        self.assertEqual(BrokerOptions()["log-keep"], str(KEPT_FILES))
        log = self.opened(10, KEPT_FILES)
        for number in range(KEPT_FILES + 5):
            log.write(f"line {number}....\n")
        self.assertEqual(len(self.names()), 1 + KEPT_FILES)

    def test_with_each_day(self) -> None:
        log = self.opened(None, 10, daily=True)
        log.write("a\n")
        log.write("b\n")
        self.day = date(2026, 11, 24)
        log.write("c\n")
        log.write("d\n")
        self.assertEqual(self.names(), ["a.log", "a.log.1"])
        self.assertEqual((self.path.read_text(), Path(f"{self.path}.1").read_text()), ("c\nd\n", "a\nb\n"))

    def test_a_restart_goes_on_in_todays_file_and_not_in_an_older_one(self) -> None:
        self.path.write_text("before\n")
        self.day = date.fromtimestamp(self.path.stat().st_mtime)
        self.opened(None, 10, daily=True).write("same day\n")
        self.assertEqual(self.names(), ["a.log"])
        os.utime(self.path, (1, 1))
        self.opened(None, 10, daily=True).write("another day\n")
        self.assertEqual(self.path.read_text(), "another day\n")

    def test_opened_again_after_it_was_moved_away(self) -> None:
        plan = LogPlan("never", "3", "text")
        observer = plan.observer(str(self.path), daemon=True)
        logger = Logger(namespace="n", observer=observer)
        logger.info("first")
        self.path.rename(self.folder / "moved")
        plan.reopen()
        logger.info("second")
        self.assertIn("first", (self.folder / "moved").read_text())
        self.assertIn("second", self.path.read_text())
        self.assertNotIn("first", self.path.read_text())

    def test_what_cant_be_opened_again_is_written_on(self) -> None:
        plan = LogPlan("never", "3", "text")
        logger = Logger(namespace="n", observer=plan.observer(str(self.path), daemon=True))
        logger.info("first")
        moved = self.folder.rename(f"{self.folder}-moved")
        self.assertRaises(FileNotFoundError, plan.reopen)
        logger.info("second")
        self.assertIn("second", (moved / "a.log").read_text())


class PlanTests(SynchronousTestCase):
    def test_wrong_words_are_named(self) -> None:
        for arguments, said in (
            (("hourly", "1", "text"), "--log-rotate hourly: must be daily, never, or a size such as 64m"),
            (("0k", "1", "text"), "--log-rotate 0k"),
            (("daily", "0", "text"), "--log-keep 0: must be a number, 1 or more"),
            (("daily", "x", "text"), "--log-keep x"),
            (("64m", "1", "xml"), "--log-format xml: must be text or json"),
        ):
            self.assertIn(said, str(self.assertRaises(UsageError, LogPlan, *arguments)))

    def test_twistd_gets_our_log_unless_it_has_another(self) -> None:
        for given, ours in (({}, True), ({"logger": print}, False), ({"syslog": True}, False)):
            options = BrokerOptions()
            options.parent = twistd = {"logfile": None, "nodaemon": True, **given}  # type: ignore[assignment]
            options.parseOptions([])
            self.assertEqual(twistd.get("logger") is not given.get("logger"), ours)


class JsonTests(SynchronousTestCase):
    def test_a_line_has_time_level_event_text_and_fields(self) -> None:
        events: list[dict[str, object]] = []
        logger = Logger(namespace="hatwisted.x", observer=events.append)
        logger.warn("{who} is {n} behind", event="slave.x", who="a\n", n=3, other=object())
        line = json_line(events[0])
        self.assertEqual(line.count("\n"), 1)
        told = json.loads(line)
        self.assertRegex(told.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$")
        self.assertEqual(
            told,
            {
                "level": "warn",
                "event": "slave.x",
                "source": "hatwisted.x",
                "text": "a\n is 3 behind",
                "fields": {"who": "a\n", "n": 3},
            },
        )

    def test_a_traceback_is_one_field(self) -> None:
        events: list[dict[str, object]] = []
        logger = Logger(namespace="x", observer=events.append)
        logger.failure("broken", Failure(ValueError("why")), LogLevel.error)
        told = json.loads(json_line(events[0]))
        self.assertIn("ValueError: why", told["traceback"])
        self.assertEqual(told["level"], "error")
