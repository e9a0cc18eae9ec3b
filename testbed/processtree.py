"""Processes below another: which, and the CPU time they have taken.

A Spark of PySpark's is a Python, its JVM, and the Python workers of that.
"""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def descendants(root: int) -> list[int]:
    """Processes that `root` started and those that they started, as far as they live.

    By each process's own word on its parent: the kernel's list of a task's children lacks some while others end.
    """
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(_fields(path)[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found, waiting = [], [root]
    while waiting:
        started = children.get(waiting.pop(), [])
        found += started
        waiting += started
    return found


def cpu_seconds(root: int) -> float:
    """User and system time so far of `root` and all below, with those that have ended and were waited for."""
    total = 0
    for process in (root, *descendants(root)):
        try:
            fields = _fields(Path(f"/proc/{process}/stat"))
        except OSError:
            continue  # ended meanwhile: it stands in its parent's time
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def _fields(path: Path) -> list[str]:
    """Those of /proc/*/stat behind the name, which may have any letters."""
    return path.read_text().rpartition(")")[2].split()
