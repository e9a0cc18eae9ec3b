"""Some layers open no network socket and start no process: whatever tries fails with a word on where it belongs.

An audit hook sees all ways to do so, C's included. It can't be taken out again, so it looks at a flag: pytest's
fixture sets it for each test, and for trial, which has none, the layer's test_trial.py does once and for all.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Any

NETWORK = {"socket.bind", "socket.connect"}
PROCESSES = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}

_guarding = False
_test_by_test = False


class OutsideTheLayer(AssertionError):
    """A test did what only the layers above may do."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Sockets and processes are refused meanwhile."""
    global _guarding
    before, _guarding = _guarding, True
    try:
        yield
    finally:
        _guarding = before


def test_by_test() -> None:
    """Each test says it for itself, as pytest's do by a fixture, whatever modules say that are imported."""
    global _test_by_test
    _test_by_test = True


def from_now_on() -> None:
    """Sockets and processes are refused, unless each test says it for itself."""
    global _guarding
    _guarding = not _test_by_test


def no_more() -> None:
    """They are allowed."""
    global _guarding
    _guarding = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _guarding or not (event in NETWORK or event in PROCESSES):
        return
    if event in NETWORK:
        opened, address = arguments[:2]
        if opened.type != socket.SOCK_STREAM or not isinstance(address, tuple):
            return  # asks the kernel which address a packet would leave by, or is this machine's own (AF_UNIX)
    raise OutsideTheLayer(
        f"{event} {arguments[1]}: a test of this layer opens no socket and starts no process"
    )


sys.addaudithook(_audit)
