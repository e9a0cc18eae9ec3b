"""The suite's own rules, tried on a suite of three tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SUITE = """
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.trial.unittest import TestCase

log = Logger()

def fail():
    log.failure("broken", Failure(ValueError("logged")))

from twisted.python.failure import Failure

def test_plain_and_logging():
    fail()

def test_plain_and_flushing(logged_errors):
    fail()
    assert len(logged_errors.flush(ValueError)) == 1

class Trial(TestCase):
    def test_reactor_after_plain_functions_in_the_file(self):
        return deferLater(reactor, 0.01)

    def test_logging(self):
        fail()
"""


def test_a_logged_error_fails_plain_tests_too_and_testcases_keep_their_reactor(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "--tb=line",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    outcomes = dict(
        reversed(line.split(" - ")[0].split(" ", 1)) for line in shown.splitlines() if "::" in line
    )
    assert {name.rpartition("::")[2]: outcome for name, outcome in outcomes.items()} == {
        "test_plain_and_logging": "ERROR",
        "test_plain_and_flushing": "PASSED",
        "test_reactor_after_plain_functions_in_the_file": "PASSED",
        "test_logging": "FAILED",
    }, shown
