"""A pytest plugin: the tests of many mutants, each in a fork of one process that has collected them.

    python -m pytest -p mutanttests TESTS      with HATWISTED_MUTANTS=plan.json

A fork costs milliseconds, where pytest needs a second to start and collect. In each of them its mutant's tests
run, the fastest first, until one fails. First of all comes a fork without a mutant, which runs all of these tests:
they have to pass, in this order and by themselves.

plan.json: {"jobs": forks at once, "mutants": {name: [[test, seconds], ...]}, "results": path}. There a line
comes for each mutant: [name, caught], and [null, true] alone if the tests fail without one.

Rejected: mutmut's own fork server, which starts pytest again in each fork.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test

LEAST_SECONDS: Final = 60.0
FACTOR: Final = 5
"""A mutant may take so many times as long as its tests did, and so many seconds more: after that it hangs, and is
caught. pytest-timeout alone wouldn't do: a reactor logs what is raised in its loop, and goes on."""

Timed = tuple[str, float]
"""A test and its seconds."""


class _Failure:
    """Has a test failed?"""

    def __init__(self) -> None:
        self.seen = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seen = self.seen or report.failed


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Instead of pytest's own."""
    plan = json.loads(Path(os.environ["HATWISTED_MUTANTS"]).read_text())
    found = {item.nodeid: item for item in session.items}
    mutants = {
        name: [found[test] for test, _ in sorted(tests, key=_seconds)]
        for name, tests in plan["mutants"].items()
    }
    limits = {name: _limit(tests) for name, tests in plan["mutants"].items()}
    every = {test: seconds for tests in plan["mutants"].values() for test, seconds in tests}
    with open(plan["results"], "w", buffering=1) as results:
        whole = [found[test] for test, _ in sorted(every.items(), key=_seconds)]
        if _caught(_forked(session, "", whole, _limit([*every.items()]))):
            _tell(results, None, True)
            return True
        waiting, running = list(mutants), dict[int, str]()
        while waiting or running:
            while waiting and len(running) < plan["jobs"]:
                name = waiting.pop(0)
                running[_forked(session, name, mutants[name], limits[name])] = name
            pid, status = os.wait()
            _tell(results, running.pop(pid), status != 0)
    return True


def _seconds(timed: Timed) -> float:
    return timed[1]


def _limit(tests: Sequence[Timed]) -> float:
    return LEAST_SECONDS + FACTOR * sum(seconds for _, seconds in tests)


def _tell(results: TextIO, name: str | None, caught: bool) -> None:
    print(json.dumps([name, caught]), file=results)


def _caught(pid: int) -> bool:
    return os.waitpid(pid, 0)[1] != 0


def _forked(session: pytest.Session, mutant: str, items: Sequence[pytest.Item], limit: float) -> int:
    """Its process id; it ends with 0 if no test failed."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        hanging = threading.Timer(limit, os._exit, [1])
        hanging.daemon = True
        hanging.start()
        set_mutant_under_test(mutant)
        code = _run(session, items)
    finally:
        os._exit(code)


def _run(session: pytest.Session, items: Sequence[pytest.Item]) -> int:
    failure = _Failure()
    session.config.pluginmanager.register(failure)
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failure.seen:
            return 1
    return 0
