"""Every Deferred fires, and once: what the programs under simulation make of them is looked at.

What a process waits for that is killed never comes; so those made before the last such end are left out of what
must have fired when all have stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred

from hatwisted.sim.history import Violation

MOST_TOLD = 3


class DeferredWatch:
    """Collects what is wrong in `violations`."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._waiting: dict[Deferred[Any], CodeType] = {}
        """Those that haven't fired, with who has made them."""
        self._forgotten: list[Deferred[Any]] = []
        """Those that hadn't when a process died."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at all that are made while this context lasts."""
        waiting, begin, fire = self._waiting, Deferred.__init__, Deferred._startRunCallbacks

        def made(deferred: Deferred[Any], canceller: Any = None) -> None:
            begin(deferred, canceller)
            waiting[deferred] = sys._getframe(1).f_code

        def fired(deferred: Deferred[Any], result: object) -> None:
            if deferred.called and not deferred._suppressAlreadyCalled:
                told = f"{_named(sys._getframe(2).f_code)} fires a Deferred that has fired before"
                self.violations.append(Violation("twice", told))
            waiting.pop(deferred, None)
            fire(deferred, result)

        with (
            mock.patch.object(Deferred, "__init__", made),
            mock.patch.object(Deferred, "_startRunCallbacks", fired),
        ):
            yield

    def forget(self) -> None:
        """A process has died: nobody knows which of them were its own."""
        self._forgotten += self._waiting
        self._waiting.clear()

    def let_go(self) -> None:
        """None of them will fire. What waits for them is dropped: puts hold some, and the collector doesn't look
        into puts, so that a whole broker would stay."""
        for deferred in (*self._forgotten, *self._waiting):
            _callbacks(deferred).clear()
        self._forgotten.clear()
        self._waiting.clear()

    def check_fired(self) -> None:
        """All processes have stopped in order: somebody still waits for what is left."""
        left = [code for deferred, code in self._waiting.items() if _callbacks(deferred)]
        for code in left[:MOST_TOLD]:
            told = f"a Deferred made by {_named(code)} never fires, and is waited for"
            self.violations.append(Violation("never", told))


def _callbacks(deferred: Deferred[Any]) -> list[Any]:
    held = vars(deferred)  # by its older name up to Twisted 25.4
    callbacks: list[Any] = held["_callbacks"] if "_callbacks" in held else held["callbacks"]
    return callbacks


def _named(code: CodeType) -> str:
    return f"{code.co_qualname} ({Path(code.co_filename).name}:{code.co_firstlineno})"
