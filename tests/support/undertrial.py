"""What trial says of tests that only pytest runs: a skipped test for each module, instead of silence."""

from __future__ import annotations

import importlib
import pkgutil
import unittest
from types import ModuleType

from twisted.trial.unittest import SkipTest, SynchronousTestCase


def functions_in(module: ModuleType) -> list[str]:
    """Names of the tests in a module that are no TestCase's."""
    own = {
        name: each
        for name, each in vars(module).items()
        if getattr(each, "__module__", "") == module.__name__
    }
    found = [name for name, each in own.items() if name.startswith("test") and callable(each)]
    for name, each in own.items():
        if name.startswith("Test") and isinstance(each, type) and not issubclass(each, unittest.TestCase):
            found += [f"{name}.{method}" for method in vars(each) if method.startswith("test")]
    return found


def needs_pytest(package: str) -> type[SynchronousTestCase]:
    """A TestCase that skips, and so names, each module of a layer that has such tests."""
    paths = importlib.import_module(package).__path__
    methods = {}
    for found in pkgutil.walk_packages(paths, package + "."):
        if not found.name.rpartition(".")[2].startswith("test_") or found.name.endswith("test_trial"):
            continue
        try:
            count = len(functions_in(importlib.import_module(found.name)))
        except Exception as error:  # pytest's own "skip this module", among others
            methods[_method(found.name)] = _skipping(f"{found.name} can't be imported: {error}")
            continue
        if count:
            methods[_method(found.name)] = _skipping(f"{count} tests of {found.name} run by pytest alone")
    return type("NeedsPytest", (SynchronousTestCase,), methods)


def _method(module: str) -> str:
    return "test_" + module.replace(".", "_")


def _skipping(reason: str) -> object:
    def skip(self: SynchronousTestCase) -> None:
        raise SkipTest(reason)

    return skip
