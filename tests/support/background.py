"""Work that goes on beside a test."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Background(threading.Thread):
    """`work` in a thread of its own while this is a context; it looks at `ended`. What it raises, the context
    raises at its end."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self.join()
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        try:
            self.work()
        except Exception as failure:  # for the test's own thread
            self._failure = failure

    def work(self) -> None:
        raise NotImplementedError
