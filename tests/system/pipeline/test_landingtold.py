"""What a landing tells while it works: on a terminal what is waited for, step by step, from the first second on;
in the log of a service lines, as it follows."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.processes import wait_until
from tests.support.growing import GrowingStore
from tests.support.processgroup import process_group

pytestmark = pytest.mark.timeout(300)
LAND = (sys.executable, "-m", "hatwisted", "pipeline", "land", "--engine", "local")
STEPS = ("starting", "reading the table", "claiming its brokers", "looking for new records")
STYLED = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WAIT = 120.0
"""Seconds; the command's own imports take one."""


@pytest.fixture
def store(tmp_path: Path) -> GrowingStore:
    made = GrowingStore(tmp_path / "broker-a")
    made.append(500)
    return made


def shown(command: tuple[str, ...]) -> tuple[int, str]:
    """(exit status, what a terminal of 80 columns was sent)."""
    ours, theirs = pty.openpty()
    environ = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    read = list[bytes]()
    with process_group(*command, stdout=subprocess.DEVNULL, stderr=theirs, env=environ) as running:
        os.close(theirs)
        with suppress(OSError):  # a terminal without a program
            while True:
                read.append(os.read(ours, 65_536))
        status = running.wait(WAIT)
    os.close(ours)
    return status, STYLED.sub("", b"".join(read).decode())


def test_a_terminal_shows_each_step(store: GrowingStore, tmp_path: Path) -> None:
    status, text = shown((*LAND, str(store.root), str(tmp_path / "table")))
    assert status == 0, text
    places = [text.find(f"land: {step}") for step in STEPS]
    assert -1 not in places, text
    assert places == sorted(places), text


def test_a_service_s_log_has_lines_and_the_end_is_in_order(store: GrowingStore, tmp_path: Path) -> None:
    said = tmp_path / "stderr"
    follow = (*LAND, "--follow", "--every", "0.1", str(store.root), str(tmp_path / "table"))
    with (
        said.open("wb") as log,
        process_group(*follow, stdout=subprocess.PIPE, stderr=log) as running,
    ):
        wait_until(
            lambda: running.poll() is not None or "of log read" in said.read_text(), WAIT, "some is read"
        )
        running.send_signal(signal.SIGTERM)
        out, _ = running.communicate(timeout=WAIT)
    lines = said.read_text().splitlines()
    assert running.returncode == 0, lines
    assert out.startswith("500 rows landed in "), out
    assert lines[:2] == ["land: reading the table", "land: claiming its brokers"], lines
    assert re.fullmatch(r"land: [\d.]+ KiB of log read, all that there was", lines[-1]), lines
    assert "\x1b" not in said.read_text()
