"""Processes below another: which, and the CPU time they have taken.

A Spark of PySpark's is a Python, its JVM, and the Python workers of that.
"""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def descendants(root: int) -> list[int]:
    """Processes that `root` started and those that they started, as far as they live."""
    found, waiting = [], [root]
    while waiting:
        try:
            children = [
                int(child)
                for task in Path(f"/proc/{waiting.pop()}/task").iterdir()
                for child in (task / "children").read_text().split()
            ]
        except OSError:
            continue
        found += children
        waiting += children
    return found


def cpu_seconds(root: int) -> float:
    """User and system time so far of `root` and all below, with those that have ended and were waited for."""
    total = 0
    for process in (root, *descendants(root)):
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            continue  # ended meanwhile: it stands in its parent's time
        total += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return total / TICKS
