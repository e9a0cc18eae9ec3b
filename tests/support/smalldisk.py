"""A small file system of a test's own, which can be filled."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.fulldiskseries import missing


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A `tmpfs` of so many bytes, mounted in a folder; the test is skipped where none can be had."""
    with tempfile.TemporaryDirectory() as tried:
        if reason := missing(Path(tried)):
            pytest.skip(reason)
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def leave_room(disk: Path, room: int) -> Path:
    """Take all but so many bytes of a disk; the file that does."""
    ballast = disk / "ballast"
    found = os.statvfs(disk)
    with open(ballast, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(found.f_bavail * found.f_frsize - room, 1))
    return ballast
