"""What pytest needs beside the tests: their layers, one reactor, and plain functions that fail on a logged error.

A test's folder says which layer it is of, and so which marker it has and how long it may take:

- unit: no socket, no process, no Java, no Spark (tests/support/sealed.py sees to it); trial runs it, too
- replay: the same, for as long as a minute: what the fuzz has found is fed again to all decoders
- tables: the same, but Delta and Iceberg tables are written, landed into, compacted: seconds, not milliseconds
- system: our processes and real sockets
- interop: with Apache RocketMQ itself
- pipeline: Spark; two workers have them all, as the landings share a session and the others do, but for those of
  pipeline/programs, which start it themselves
"""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import itertools
import os
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial import _synctest
from twisted.trial.unittest import TestCase
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.support import nosockets
from tests.support.soak import times

LAYERS = {"unit": 300, "replay": 300, "tables": 300, "system": 600, "interop": 600, "pipeline": 600}
"""Seconds that a test may take which doesn't say so itself: limits for a hang. A busy machine, or the tracing of
coverage, makes one take many times as long; Spark's first one starts the JVM, and some a cluster."""

COLLECTED = (5_000, 20, 20)
"""New objects until Python looks for garbage, and how often it then looks at older ones, too; by itself it does
after 700, which is a seventh of the unit layer's time."""

FOLDER = Path(__file__).parent
SESSION, PROGRAMS = "pipeline", "programs"
"""The layer whose tests share sessions, and its folder of those that don't."""
LANDINGS = "test_land"
"""How the files of that layer begin that have the second session: they take as long as all others together."""
SECONDS = {
    "system/attacks/test_strangers.py": 130,
    "system/cli/test_attach.py": 100,
    "system/cli/test_up.py": 100,
    "system/remote/test_our_cluster.py": 100,
    "system/attacks/test_registrations.py": 40,
    "system/attacks/test_sessions.py": 35,
    "tables/iceberg/test_landing.py": 90,
    "tables/jobs/test_latest_iceberg.py": 80,
    "tables/iceberg/test_landschemas.py": 65,
    "replay/test_servers.py": 20,
    "replay/test_codecs.py": 20,
    "replay/test_logs.py": 20,
    "unit/timing/test_garbage.py": 6,
    "unit/kernel/test_dispatch.py": 4,
    "unit/sim/test_deliberatebugs.py": 4,
}
"""What the files take, on a busy machine of two cores, that take the longest of their layer; others are taken for
0. The longest come first: at the end one worker would be busy with them and the others idle. Layers come as
setup.cfg's testpaths say, which have Spark's sessions first."""

collect_ignore_glob = ["*/test_trial.py"]  # what trial has to say


class SessionScheduling(LoadFileScheduling):
    """--dist=loadfile, where the files that share a session of Spark's are one. A third session would be another
    JVM and more of the CPU; with a single one its worker would be busy for longer than all others. (By
    --dist=loadgroup each test without a group would be on its own.) It says which tests stay together; their order
    is everywhere that of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        path = (self.config.rootpath / scope).relative_to(FOLDER)
        layer, *rooms = path.parts
        if layer != SESSION or PROGRAMS in rooms:
            return scope
        return f"{SESSION}/{LANDINGS}" if path.name.startswith(LANDINGS) else SESSION

    def _reschedule(self, node: WorkerController) -> None:
        """A file is given to a worker that has its last test to do, which it won't begin before it knows the next
        one. xdist gives it one earlier, and another one if that has a single test: they would wait behind whatever
        takes long there, at the end beside workers that have nothing to do."""
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SessionScheduling | None:
    return SessionScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """One reactor for all tests of a process: pytest-twisted's, which runs from its first test to the end.

    A TestCase would start and crash it for each Deferred, which a running reactor refuses; so it waits as the
    functions do, and both may come in any order.

    Two things that take 3 ms of every test, a third of most, are left out: pytest reads the metadata of Twisted
    anew for each test and its report, and trial resets the registry of warnings of all 2000 modules, which Python
    does by itself where warnings' filters change (as they do at once).
    """
    nosockets.test_by_test()
    gc.disable()  # modules' objects stay: until they are there it would look at them in vain
    TestCase._wait = _wait  # type: ignore[method-assign]
    importlib.metadata.version = functools.cache(importlib.metadata.version)
    _synctest._setWarningRegistryToNone = lambda modules: None


def _wait(case: TestCase, done: Deferred[None]) -> None:
    from twisted.internet import reactor

    fired: list[object] = []
    ended: Deferred[None] = Deferred()

    def end(result: object = None) -> None:
        if not fired:
            # A turn of its own: trial's clean-up iterates the reactor, which mustn't be in the middle of a call.
            reactor.callLater(0, ended.callback, None)  # type: ignore[attr-defined]
        fired.append(result)

    done.addBoth(end)
    reactor.crash = end  # type: ignore[attr-defined]  # what trial does when time is over and `done` hangs
    try:
        pytest_twisted.blockon(ended)
    finally:
        del reactor.crash  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The marker and the time limit of each test's layer; what takes long comes first in its layer."""
    for item in items:
        layer = item.path.relative_to(FOLDER).parts[0]
        if layer not in LAYERS or any(item.get_closest_marker(each) for each in LAYERS):
            raise pytest.UsageError(
                f"{item.nodeid}: the folder says which layer a test is of: {', '.join(LAYERS)}; not a marker"
            )
        item.add_marker(layer)
        if times(1) > 1:
            item.add_marker(pytest.mark.timeout(0), append=False)
        elif item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LAYERS[layer]))
    items[:] = [
        item
        for _, together in itertools.groupby(items, lambda item: item.path.relative_to(FOLDER).parts[0])
        for item in sorted(
            together, key=lambda item: -SECONDS.get(item.path.relative_to(FOLDER).as_posix(), 0)
        )
    ]


def pytest_collection_finish() -> None:
    """The garbage collector needn't go through the tests themselves again and again, nor look as often as it does
    by itself: what a test leaves in cycles is still collected a few tests later."""
    gc.freeze()
    gc.set_threshold(*COLLECTED)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _working_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """TestCase.mktemp makes folders where the process is: not in the checkout, then."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("trial"))
    yield
    os.chdir(before)


class LoggedErrors:
    """Errors that Twisted's log received during one plain test."""

    def __init__(self) -> None:
        self._events: list[LogEvent] = []

    def observe(self, event: LogEvent) -> None:
        """A log observer."""
        if event.get("isError") or event.get("log_failure") is not None:
            self._events.append(event)

    def flush(self, *types: type[BaseException]) -> list[Failure]:
        """Forget the failures of these types (all, if none is named) and return them."""
        flushed, kept = [], []
        for event in self._events:
            failure = event.get("log_failure") or event.get("failure")
            matches = not types or (isinstance(failure, Failure) and failure.check(*types))
            (flushed if matches else kept).append(event)
        self._events = kept
        return [event.get("log_failure") or event.get("failure") for event in flushed]

    def report(self) -> str:
        """What is left, readable; empty if nothing is."""
        return "\n".join(_described(event) for event in self._events)


@pytest.fixture(autouse=True)
def logged_errors(request: pytest.FixtureRequest) -> Iterator[LoggedErrors]:
    """Fails a plain test that logged an error and didn't `logged_errors.flush()` it, as trial does for its
    own."""
    errors = LoggedErrors()
    if _is_test_case(request.node):
        yield errors
        return
    globalLogPublisher.addObserver(errors.observe)
    try:
        yield errors
    finally:
        globalLogPublisher.removeObserver(errors.observe)
    if report := errors.report():
        pytest.fail(f"errors were logged and not flushed:\n{report}", pytrace=False)


def _described(event: LogEvent) -> str:
    failure = event.get("log_failure")
    return (formatEvent(event) or "") + (f"\n{failure.getTraceback()}" if failure else "")


def _is_test_case(item: object) -> bool:
    cls = getattr(item, "cls", None)
    return isinstance(cls, type) and issubclass(cls, unittest.TestCase)
