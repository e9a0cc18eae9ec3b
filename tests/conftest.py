"""What pytest needs beside the tests: their order, and plain functions that fail on a logged error.

Most tests are trial's TestCases, which start and stop the reactor themselves. pytest-twisted starts it once,
in a greenlet, at the first plain test function, and from then on trial can't: so the TestCases come first.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Iterator

import pytest
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """TestCases before plain functions; otherwise the order stays."""
    items.sort(key=lambda item: not _is_test_case(item))


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
