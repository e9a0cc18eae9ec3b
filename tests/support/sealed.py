"""Fixtures of the layers that neither open a socket nor start a process; their files are in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nosockets import guarded

MEMORY = Path("/dev/shm")
"""A file system in memory, where a sync costs nothing: these tests make thousands of small files and sync them."""
LEAST_FREE = 1 << 30
"""Bytes that it must have free; where it hasn't, or isn't there, tests write to the disk. A module's files are
removed when it ends."""


@pytest.fixture(autouse=True)
def nothing_outside() -> Iterator[None]:
    """Whatever a test tries outside of its layer fails."""
    with guarded():
        yield


@pytest.fixture(autouse=True, scope="module")
def folder_of_the_module(_working_folder: None) -> Iterator[None]:
    """Where TestCase.mktemp and tempfile make folders meanwhile."""
    before = os.getcwd(), tempfile.tempdir
    folder = tempfile.mkdtemp(prefix="hatwisted-unit-", dir=_place())
    os.chdir(folder)
    tempfile.tempdir = folder
    yield
    os.chdir(before[0])
    tempfile.tempdir = before[1]
    shutil.rmtree(folder)


def _place() -> Path | None:
    """None: the usual place for temporary files."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < LEAST_FREE:
        return None
    return MEMORY
