"""The arena's load generators as processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.arena import TURN_SECONDS, Arena, RowFailed
from testbed.brokergroup import OURS


def generator(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_one_that_never_ends_is_ended(tmp_path: Path) -> None:
    with generator("input()") as process, pytest.raises(RowFailed, match=r"wasn't done after 0\.01 s"):
        Arena(tmp_path, [OURS]).finish_load(process, limit=0.01)
    assert process.returncode == -9


def test_one_that_fails_says_why(tmp_path: Path) -> None:
    with generator("raise SystemExit('no broker')") as process, pytest.raises(RowFailed, match="no broker"):
        Arena(tmp_path, [OURS]).finish_load(process)


def test_one_that_is_done_in_time(tmp_path: Path) -> None:
    with generator('print(\'{"result": {"rate": 1}}\')') as process:
        assert Arena(tmp_path, [OURS]).finish_load(process) == {"rate": 1}
    assert TURN_SECONDS >= 450
