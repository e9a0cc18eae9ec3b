"""Exactly once through kills: a landing of a growing store is killed again and again, at moments that matter.

There are two: a batch's files are written and no version of the table has them, and a version has them that
Spark's checkpoint, where there's a stream, doesn't know of. The first must leave no rows behind, the second must
not land twice. One kill of each and one at any moment need a Spark each; `make soak` draws many.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.jobs.land.landing import land
from testbed.processes import wait_until
from tests.pipeline.jobs import landing
from tests.support import growing
from tests.support.background import Background
from tests.support.moments import wait_for_another
from tests.support.processgroup import Program, process_group
from tests.support.soak import times

pytestmark = pytest.mark.timeout(900)
KILLS = times(3)
RECORDS = 8_000
PER_SECOND = 400
LONGEST_LIFE = 2.5
"""Seconds from a landing's first batch to its end."""
PATIENCE = 120.0
"""Seconds for what takes a few on an idle machine."""


def program(module: str, *arguments: str) -> AbstractContextManager[Program]:
    """A module as a program."""
    pipe = subprocess.PIPE
    return process_group(sys.executable, "-m", module, *arguments, stdin=pipe, stdout=pipe)


class Landings:
    """Landings one after the other, each with its Spark started while the previous one still lands."""

    def __init__(self, programs: ExitStack, way: str, store: Path, table: Path) -> None:
        self._programs = programs
        self._places = (way, str(store), str(table))
        self._next = self._prepared()

    def _prepared(self) -> Program:
        return self._programs.enter_context(program(landing.__name__, *self._places))

    def start(self, *, last: bool) -> Program:
        """Let the prepared one land, and prepare the one after it."""
        process = self._next
        if not last:
            self._next = self._prepared()
        assert said(process) == "ready"
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
        return process


def said(process: Program) -> str:
    """The first word of the next line that a program prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the program ended by itself: {process.wait()}"
    return line.split()[0]


def kill(process: Program, *, with_jvm: bool) -> None:
    """What is left of a landing whose JVM outlives it goes on for a while."""
    (os.killpg if with_jvm else os.kill)(process.pid, signal.SIGKILL)
    process.wait()


def moments(table: Path, lives: random.Random) -> list[Callable[[], None]]:
    """Waits for when to kill a landing that has made a version: they are taken in turn."""
    return [
        lambda: wait_for_another(lambda: table.rglob("*.parquet"), LONGEST_LIFE),
        lambda: wait_for_another(lambda: table.glob("_delta_log/*.json"), LONGEST_LIFE),
        lambda: time.sleep(lives.uniform(0, LONGEST_LIFE)),
    ]


def offsets(table: DeltaTable) -> list[int]:
    found: list[int] = table.to_pyarrow_table(columns=["physical_offset"])[0].to_pylist()
    return sorted(found)


class Reader(Background):
    """Reads the table meanwhile, by its log and by its bare folder, and keeps what it sees."""

    def __init__(self, table: Path) -> None:
        super().__init__()
        self._table = table
        self.versions: dict[int, list[int]] = {}
        self.unreadable: list[str] = []

    def wait_for(self, version: int) -> None:
        """Until it has read this version or a later one, or failed to."""
        wait_until(
            lambda: self.unreadable or max(list(self.versions), default=-1) >= version,
            PATIENCE,
            f"version {version} is read",
        )

    def work(self) -> None:
        while not self.ended.wait(0.3):
            try:
                if DeltaTable.is_deltatable(str(self._table)):
                    table = DeltaTable(str(self._table))
                    self.versions[table.version()] = offsets(table)
            except Exception as error:
                self.unreadable.append(f"table: {error}")
            self._read_folder()

    def _read_folder(self) -> None:
        for path in self._table.glob("topic=*/*/[!.]*.parquet"):
            try:
                pq.read_metadata(path)
            except FileNotFoundError:
                pass  # removed since it was listed
            except Exception as error:
                self.unreadable.append(f"{path}: {error}")


@pytest.mark.parametrize("way", landing.WAYS)
def test_exactly_once_through_kills(spark: SparkSession, tmp_path: Path, way: str) -> None:
    store, table = tmp_path / "broker-a", tmp_path / "table"
    seed = random.randrange(1 << 32)
    print("seed", seed)
    waits = moments(table, random.Random(seed))
    with ExitStack() as programs:
        landings = Landings(programs, way, store, table)
        grower = programs.enter_context(program(growing.__name__, str(store), str(RECORDS), str(PER_SECOND)))
        while not list(store.glob("commitlog/*")):
            time.sleep(0.05)
        reader = programs.enter_context(Reader(table))
        for number in range(KILLS):
            process = landings.start(last=number == KILLS - 1)
            assert said(process) == "landed"
            waits[number % len(waits)]()
            kill(process, with_jvm=number % 2 == 0)
            reader.wait_for(DeltaTable(str(table)).version())
        told, _ = grower.communicate(timeout=PATIENCE)
        assert grower.returncode == 0
        land(landing.source(way, str(store)), str(table), landing.options("once"), spark=spark)
        reader.wait_for(DeltaTable(str(table)).version())

    there = read_arrow([str(store)], ["physical_offset"]).read_all()[0].to_pylist()
    assert len(there) == int(told) > RECORDS
    assert offsets(DeltaTable(str(table))) == there
    # Every version anybody read was a whole number of batches: the log's beginning, without holes.
    assert len(reader.versions) > KILLS
    for version, seen in reader.versions.items():
        assert seen == there[: len(seen)], version
    assert reader.unreadable == []
    assert left_over(table) == []


def left_over(table: Path) -> list[Path]:
    """Files of no version: what the kills left and the last landing had to remove."""
    mentioned = "".join(entry.read_text() for entry in table.glob("_delta_log/*.json"))
    files = [path for path in table.rglob("*.parquet") if "_delta_log" not in path.parts]
    return [path for path in files if path.name not in mentioned]
