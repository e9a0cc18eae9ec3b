"""The arena's load generators as processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip(
    "matplotlib", reason="the plots' library isn't installed: pip install \"hatwisted[bench]\""
)

from bench.__main__ import ROWS, _run
from bench.arena import TURN_SECONDS, Arena, RowFailed, last_core
from bench.figures import Outcome
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


@pytest.mark.parametrize("core", [None, last_core()])
def test_a_generator_keeps_to_its_core(tmp_path: Path, core: int | None) -> None:
    arena = Arena(tmp_path, [OURS], core=core)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        with arena.start_load(listener.getsockname()[1], {"connections": 1}, seconds=60) as process:
            try:
                listener.accept()[0].close()  # by now it has read its options
                found = os.sched_getaffinity(process.pid)
            finally:
                process.kill()
    assert found == (os.sched_getaffinity(0) if core is None else {core})
    assert arena.pinned == (core is not None)


def test_a_row_says_that_its_generator_was_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def row(arena: Arena) -> Outcome:
        """A row."""
        arena.pinned = arena.core is not None
        return Outcome()

    monkeypatch.setitem(ROWS, "latency", row)
    notes = [_run(Arena(tmp_path, [OURS], core=core), "latency")["notes"] for core in (None, 1)]
    assert [["kept to core 1" in note for note in each].count(True) for each in notes] == [0, 1]
