"""Ctrl-C of a running query: finish the trigger under way, then stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` for the first SIGINT or SIGTERM; a second one does what it did before.

    Spark's own handler cancels the running jobs, which throws the work of the trigger away. Only the main thread
    may set handlers; elsewhere nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        restore()
        stop()

    for number in SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
