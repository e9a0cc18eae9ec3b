"""What is fetched from a registry once, by a program of its own, into a folder of the user's cache."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from testbed import javarocketmq


def cached_folder(name: str, version: str) -> Path:
    """Beside RocketMQ's."""
    return javarocketmq.cache_folder().parent / f"{name}-{version}"


def is_complete(folder: Path) -> bool:
    """Has it been fetched whole?"""
    return (folder / "complete").exists()


def fetched(folder: Path, fetch: Callable[[], str | None]) -> str | None:
    """None if it is there, else the reason why not. `fetch` is called if it isn't, by one process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "fetch.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_complete(folder):
            return None
        reason = fetch()
        if reason is None:
            (folder / "complete").touch()
        return reason


def run_fetcher(program: str, command: Sequence[str], what: str, seconds: float) -> str | None:
    """None once the command has fetched it, else the reason why it hasn't.

    - program: its name, for that reason
    - command: all of its words
    - what: is fetched
    - seconds: that it may take
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"{program} took longer than {seconds:g} s for {what}"
    if done.returncode:
        return f"{program} can't fetch {what}: {done.stderr.strip()[-300:]}"
    return None
