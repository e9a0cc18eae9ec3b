"""A worker whose disk stands still while a test wants it to."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from hatwisted.store.disk.worker import InlineWorker


class SlowDisk(InlineWorker):
    """Runs calls at once, or, while `waiting` is a list, when `work` is called."""

    waiting: list[tuple[Deferred[Any], Any, tuple[object, ...]]] | None = None

    def run(self, function: Any, *args: object) -> Deferred[Any]:
        if self.waiting is None:
            return super().run(function, *args)
        done: Deferred[Any] = Deferred()
        self.waiting.append((done, function, args))
        return done

    def work(self) -> None:
        waiting, self.waiting = self.waiting or [], None
        for done, function, args in waiting:
            super().run(function, *args).chainDeferred(done)
