"""The suite's own rules, tried on suites of a few tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import SECONDS

TESTS = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(TESTS.parent)}
MIXED = """
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

log = Logger()

def fail():
    log.failure("broken", Failure(ValueError("logged")))

class First(TestCase):
    def test_reactor_before_functions(self):
        return deferLater(reactor, 0.01)

def test_plain_and_logging():
    fail()

def test_plain_and_flushing(logged_errors):
    fail()
    assert len(logged_errors.flush(ValueError)) == 1

@pytest_twisted.ensureDeferred
async def test_async_function():
    await deferLater(reactor, 0.01)

class Then(TestCase):
    def test_reactor_after_functions(self):
        return deferLater(reactor, 0.01)

    def test_logging(self):
        fail()

    def test_that_leaves_a_timer(self):
        reactor.callLater(100, print)

    def test_that_never_ends(self):
        return deferLater(reactor, 1e6)
    test_that_never_ends.timeout = 0.1

    def test_with_a_cleanup_that_never_ends(self):
        self.addCleanup(Deferred)
    test_with_a_cleanup_that_never_ends.timeout = 0.1

    def test_of_threads(self):
        return gatherResults([deferToThread(len, "four") for _ in range(20)])

    def test_that_comes_last(self):
        return deferLater(reactor, 0.01)
"""
PORTS = """
from testbed import processes

processes.PORT_RANGE = (20000, 20010)
processes._bindable = lambda port: True  # others' servers may be there
try:
    while True:
        print(processes.free_port(), end=" ")
except OSError:
    print(flush=True)
input()
"""
"""Takes all ports of a small range, and keeps them until it is ended."""
PASSING = "def test_it():\n    assert True\n"
WAITING = """
import os, time

def test_waiting():
    until = time.monotonic() + 60
    while not os.path.exists({ended!r}):
        assert time.monotonic() < until, "nobody ran what is behind this one"
        time.sleep(0.01)

def test_after_that():
    pass
"""
ENDING = "def test_it():\n    open({ended!r}, 'w').close()\n"
"""What the one before waits for."""


def pytest(folder: Path, *options: str) -> str:
    """What it says of the tests in `folder`, run by this suite's rules."""
    shutil.copy(TESTS / "conftest.py", folder)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [*command, str(folder)], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def outcomes(shown: str) -> dict[str, str]:
    """By the name of the test."""
    lines = [line.split(" - ")[0].split(" ", 1) for line in shown.splitlines() if "::" in line]
    return {name.rpartition("::")[2]: outcome for outcome, name in lines}


def test_testcases_and_functions_share_a_reactor_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_mixed.py").write_text(MIXED)
    shown = pytest(tmp_path)
    assert outcomes(shown) == {
        "test_reactor_before_functions": "PASSED",
        "test_plain_and_logging": "ERROR",
        "test_plain_and_flushing": "PASSED",
        "test_async_function": "PASSED",
        "test_reactor_after_functions": "PASSED",
        "test_logging": "FAILED",
        "test_that_leaves_a_timer": "FAILED",
        "test_that_never_ends": "FAILED",
        "test_with_a_cleanup_that_never_ends": "FAILED",
        "test_of_threads": "PASSED",
        "test_that_comes_last": "PASSED",
    }, shown


def test_a_tests_folder_is_its_marker(tmp_path: Path) -> None:
    for layer in ("unit", "system", "interop", "pipeline"):
        (tmp_path / layer / "room").mkdir(parents=True)
        (tmp_path / layer / "room" / f"test_{layer}.py").write_text(PASSING.replace("it", layer))
    assert outcomes(pytest(tmp_path, "-m", "unit or pipeline")) == {
        "test_unit": "PASSED",
        "test_pipeline": "PASSED",
    }


def test_a_test_of_no_layer_or_of_two_is_refused(tmp_path: Path) -> None:
    stray = tmp_path / "test_stray.py"
    stray.write_text(PASSING)
    assert "test_stray.py::test_it: the folder says which layer" in pytest(tmp_path)
    stray.unlink()
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_both.py").write_text(f"import pytest\n@pytest.mark.system\n{PASSING}")
    assert "test_both.py::test_it: the folder says which layer" in pytest(tmp_path)


def workers(shown: str) -> dict[str, str]:
    """Of each file, as xdist says by `-vv`."""
    return {name: worker for worker, name in re.findall(r"^\[(gw\d)\].* (\S+)\.py::", shown, re.MULTILINE)}


def test_who_shares_a_session_of_sparks_shares_a_worker(tmp_path: Path) -> None:
    names = (
        "jobs/test_one",
        "jobs/test_land",
        "jobs/test_land_more",
        "spark/test_two",
        "programs/test_three",
    )
    for name in names:
        path = tmp_path / "pipeline" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PASSING)
    shown = pytest(tmp_path, "-vv", "--numprocesses=3", "--dist=loadfile")
    worker = workers(shown)
    one, land, more, two, three = (worker[f"pipeline/{name}"] for name in names)
    assert one == two, shown
    assert land == more, shown
    assert len({one, land, three}) == 3, shown


def test_no_file_waits_behind_another_one_s_long_test(tmp_path: Path) -> None:
    """There are two tests in its own: what xdist does by itself is to give its worker another file."""
    (tmp_path / "unit").mkdir()
    waiting = WAITING.format(ended=str(tmp_path / "ended"))
    for name, text in (("a", waiting), ("b", PASSING), ("c", PASSING), ("d", PASSING), ("e", ENDING)):
        text = text.format(ended=str(tmp_path / "ended")) if name == "e" else text
        (tmp_path / "unit" / f"test_{name}.py").write_text(text)
    shown = pytest(tmp_path, "-vv", "--numprocesses=2", "--dist=loadfile")
    worker = workers(shown)
    assert len(worker) == 5, shown
    assert "6 passed" in shown, shown
    assert {name for name in worker if worker[name] == worker["unit/test_a"]} == {"unit/test_a"}, shown


def test_long_files_come_first_in_their_layer(tmp_path: Path) -> None:
    names = (
        "system/attacks/test_sessions",
        "system/attacks/test_strangers",
        "system/test_one",
        "unit/acl/test_two",
        "unit/timing/test_garbage",
        "unit/wire/test_three",
    )
    for name in names:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PASSING)
    shown = pytest(tmp_path)
    run = re.findall(r"^PASSED (\S+)\.py::test_it", shown, re.MULTILINE)
    assert run == [names[each] for each in (1, 0, 2, 4, 3, 5)], shown


def test_the_files_that_take_long_are_there() -> None:
    """One that was renamed would come behind others again."""
    assert [name for name in SECONDS if not (TESTS / name).is_file()] == []


def test_trial_runs_the_testcases_and_names_what_needs_pytest(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "twisted.trial", "--temp-directory", str(tmp_path / "trial")]
    done = subprocess.run(
        [*command, "tests.unit.support", "tests.unit.test_trial", "tests.interop"],
        cwd=TESTS.parent,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"PASSED \(skips=\d+, successes=\d+\)", done.stdout), done.stdout
    assert re.search(r"\d+ tests of tests.interop.test_mqadmin run by pytest alone", done.stdout), done.stdout


def test_a_port_is_one_process_s_alone_until_that_ends(tmp_path: Path) -> None:
    def taken() -> tuple[subprocess.Popen[str], set[str]]:
        process = subprocess.Popen(
            [sys.executable, "-c", PORTS],
            env=ENVIRONMENT | {"TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        return process, set(process.stdout.readline().split())

    first, ports = taken()
    second, others = taken()
    for process in (first, second):
        process.communicate("\n")
    third, again = taken()
    third.communicate("\n")
    assert (first.returncode, second.returncode, third.returncode) == (0, 0, 0)
    assert 5 <= len(ports) <= 10  # chance may leave some out in its 200 tries, though hardly
    assert not ports & others
    assert ports & again
