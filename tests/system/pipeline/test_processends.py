"""Programs that read a table and end at once, again and again: with success, whatever Arrow's threads still hold.

By delta-rs' own file system in Python one in some ten is aborted by the interpreter (exit status 134)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.jobs.land.landoptions import LandOptions
from tests.support.deletionvectors import delete_rows, paths
from tests.support.growing import GrowingStore
from tests.support.soak import times

pytestmark = pytest.mark.timeout(600)
PROCESSES = times(8)
AT_ONCE = 2
FILES = 20
"""Of the table, at least: one that is read at once leaves nothing open."""
PROGRAM = """
import sys
from hatwisted.pipeline import union_arrow

print(union_arrow(*sys.argv[1:]).read_all().num_rows)
"""


@pytest.mark.parametrize("vectors", [False, True], ids=["plain", "deletion-vectors"])
def test_a_reader_s_exit_status_is_0(tmp_path: Path, vectors: bool) -> None:
    store, table = GrowingStore(tmp_path / "broker-a"), str(tmp_path / "table")
    store.append(2_000)
    land(
        [str(store.root)],
        table,
        LandOptions(engine="local", max_bytes_per_trigger=60_000, compact_below=None),
    )
    assert len(paths(table)) >= FILES
    if vectors:
        delete_rows(table, paths(table)[0], [0])
    store.append(100)
    command = [sys.executable, "-c", PROGRAM, table, str(store.root)]
    for _ in range(PROCESSES // 2 // AT_ONCE):
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(AT_ONCE)]
        for each in running:
            said, _ = each.communicate(timeout=60)
            assert (each.returncode, said) == (0, f"{2_100 - vectors}\n")
