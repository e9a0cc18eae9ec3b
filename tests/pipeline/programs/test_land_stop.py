"""Ctrl-C and SIGTERM of a landing as a user gives them: the trigger under way ends, nothing is left undone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from hatwisted.pipeline.jobs.land.landoptions import CLAIMING, FIRST_BATCH, LOOKING, READING, SPARK, TASKS
from tests.support.growing import GrowingStore
from tests.support.processgroup import Program, process_group
from tests.support.soak import in_soak

RECORDS = 4000
PATIENCE = 150.0
"""Seconds for a landing to start Spark and make its first commits."""
WAITED = "|".join((READING, CLAIMING, LOOKING, FIRST_BATCH, TASKS, SPARK))
TOLD = re.compile(rf"land: (({WAITED})|[\d.]+ [KM]?i?B of log read, .+)")
"""The lines of one that follows, whose standard error is no terminal."""


def landing(store: GrowingStore, table: Path, *options: str) -> AbstractContextManager[Program]:
    """The command."""
    command = [sys.executable, "-m", "hatwisted", "pipeline", "land", str(store.root), str(table)]
    pipe = subprocess.PIPE
    return process_group(*command, "--master", "local[2]", *options, stdout=pipe, stderr=pipe)


def landed(table: Path) -> list[int]:
    """Physical offsets of the table's rows."""
    if not DeltaTable.is_deltatable(str(table)):
        return []
    found: list[int] = DeltaTable(str(table)).to_pyarrow_table(columns=["physical_offset"])[0].to_pylist()
    return sorted(found)


def wait_for(process: Program, table: Path, rows: int) -> None:
    until = time.monotonic() + PATIENCE
    while len(landed(table)) < rows:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.2)


def test_small_logs_land_without_spark(tmp_path: Path) -> None:
    store, table = GrowingStore(tmp_path / "broker-a"), tmp_path / "table"
    store.append(50)
    program = (
        "import sys; from hatwisted.cli.main import main\n"
        "try: main(['pipeline', 'land', *sys.argv[1:], '--json'])\n"
        "finally: print(sorted({'pyspark', 'py4j'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(store.root), str(table)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    answer, modules = found.stdout.splitlines()
    assert (found.returncode, json.loads(answer)["rows"], modules) == (0, 50, "[]"), found.stderr
    assert landed(table) == store.offsets


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("engine", [in_soak("spark", why="a Spark of its own"), "local"])
def test_ctrl_c_and_sigterm(tmp_path: Path, engine: str) -> None:
    store, table = GrowingStore(tmp_path / "broker-a"), tmp_path / "table"
    store.append(RECORDS)
    # In hundreds of triggers, so that it's still at work when the signal comes, however late that is.
    with landing(store, table, "--engine", engine, "--max-bytes", "8k") as process:
        wait_for(process, table, 1)
        # A terminal sends it to all of the foreground's processes: Spark's JVM and workers get it, too.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "stopped; the next run continues" in out, err) == (130, True, "")
    first = landed(table)
    assert first == store.offsets[: len(first)] and len(first) < RECORDS

    with landing(store, table, "--engine", engine, "--follow", "--every", "0.2") as process:
        wait_for(process, table, RECORDS)
        store.append(100)
        wait_for(process, table, RECORDS + 100)
        os.kill(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "stopped; the next run continues" in out) == (0, True), err
    assert [line for line in err.splitlines() if not TOLD.fullmatch(line)] == []
    assert f"{RECORDS + 100 - len(first):,} rows landed" in out
    assert landed(table) == store.offsets
