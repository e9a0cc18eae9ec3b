"""Exactly once through kills: a landing of a growing store is killed again and again, at moments that matter.

There are two: a batch's files are written and no version of the table has them, and a version has them that
Spark's checkpoint, where there's a stream, doesn't know of. The first must leave no rows behind, the second must
not land twice. One kill of each and one at any moment need a Spark each; `make soak` draws many. Before each, of
landings by tasks, a Python worker is killed, or the daemon that forks them, and the landing goes on. What the
table has is read by readers of their own, and compared with the log, column by column, as another decoder sees it.
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
from pyspark.sql import SparkSession

from hatwisted.pipeline.jobs.land.landing import land
from testbed.processes import wait_until
from tests.pipeline.jobs import landing
from tests.pipeline.jobs.landing import STREAM, TASKS
from tests.support import growing
from tests.support.background import Background
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.icebergrest import JARS, rest_catalog
from tests.support.landedtables import DELTA, ICEBERG, KINDS, LandedTable
from tests.support.moments import wait_for_another
from tests.support.processgroup import Program, has_members, process_group
from tests.support.soak import in_soak, times
from tests.support.sparkworkers import PYTHON, kill_one

pytestmark = pytest.mark.timeout(900)
KILLS = times(3)
BROKER = "broker-a"
RECORDS = 8_000
PER_SECOND = 400
LONGEST_LIFE = 2.5
"""Seconds from a landing's first batch to its end."""
BY_REST = "iceberg-by-rest"
"""An Iceberg table behind Iceberg's own REST catalog."""
MINUTE = "it takes a minute, and each kind of table and each way is tried"
PATIENCE = 120.0
"""Seconds for what takes a few on an idle machine."""


def program(module: str, *arguments: str) -> AbstractContextManager[Program]:
    """A module as a program."""
    pipe = subprocess.PIPE
    return process_group(sys.executable, "-m", module, *arguments, stdin=pipe, stdout=pipe)


class Landings:
    """Landings one after the other, each with its Spark started while the previous one still lands."""

    def __init__(self, programs: ExitStack, way: str, store: Path, table: str) -> None:
        self._programs = programs
        self._places = (way, str(store), table)
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


def moments(table: LandedTable, lives: random.Random) -> list[Callable[[], None]]:
    """Waits for when to kill a landing that has made a version: they are taken in turn."""
    return [
        lambda: wait_for_another(lambda: table.place.rglob("*.parquet"), LONGEST_LIFE),
        lambda: wait_for_another(table.commits, LONGEST_LIFE),
        lambda: time.sleep(lives.uniform(0, LONGEST_LIFE)),
    ]


class Reader(Background):
    """Reads the table meanwhile, by its versions and by its bare folder, and keeps what it sees."""

    def __init__(self, table: LandedTable) -> None:
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
                version = self._table.version()
                if version >= 0:
                    self.versions[version] = self._table.offsets()  # of this one or a later one
            except Exception as error:
                self.unreadable.append(f"table: {error}")
            self._read_folder()

    def _read_folder(self) -> None:
        """Where only whole files have their names: in a Delta table's."""
        for path in self._table.place.glob("topic=*/*/[!.]*.parquet"):
            try:
                pq.read_metadata(path)
            except FileNotFoundError:
                pass  # removed since it was listed
            except Exception as error:
                self.unreadable.append(f"{path}: {error}")


@pytest.mark.parametrize(
    "form, way",
    [
        in_soak(DELTA, STREAM, why=MINUTE),
        (ICEBERG, TASKS),
        in_soak(DELTA, TASKS, why=MINUTE),
        in_soak(ICEBERG, STREAM, why=MINUTE),
        in_soak(BY_REST, TASKS, why=MINUTE),
    ],
)
def test_exactly_once_through_kills(spark: SparkSession, tmp_path: Path, form: str, way: str) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    if form == BY_REST and (reason := JARS.missing()) is not None:
        pytest.skip(reason)
    catalog, kind = (rest_catalog, ICEBERG) if form == BY_REST else (iceberg_catalog, form)
    store, table = tmp_path / BROKER, KINDS[kind](tmp_path, [BROKER])
    lives = random.Random(seed)
    waits = moments(table, lives)
    with ExitStack() as programs:
        programs.enter_context(catalog(tmp_path))
        landings = Landings(programs, way, store, table.name)
        grower = programs.enter_context(program(growing.__name__, str(store), str(RECORDS), str(PER_SECOND)))
        while not list(store.glob("commitlog/*")):
            time.sleep(0.05)
        reader = programs.enter_context(Reader(table))
        for number in range(KILLS):
            last = number == KILLS - 1
            process = landings.start(last=last)
            assert said(process) == "landed"
            if way == TASKS:  # of a stream, such workers are the driver's, too, and it ends with them
                lives.choice(waits)()
                version = table.version()
                kill_one([process.pid], lives, PYTHON)
                reader.wait_for(version + 2)  # one batch may have been written already
            waits[number % len(waits)]()
            kill(process, with_jvm=last or number % 2 == 0)
            reader.wait_for(table.version())
        # What the last one has left writing would come after the last landing's look for files to remove.
        wait_until(lambda: not has_members(process), PATIENCE, "nothing of it runs")
        told, _ = grower.communicate(timeout=PATIENCE)
        assert grower.returncode == 0
        land(landing.source(way, str(store)), table.name, landing.options("once"), spark=spark)
        reader.wait_for(table.version())
        assert table.trouble(whole=True) is None

    there = table.logs()["physical_offset"].to_pylist()
    assert len(there) == int(told) > RECORDS
    # Every version anybody read was a whole number of batches: the log's beginning, without holes.
    assert len(reader.versions) > KILLS
    for version, seen in reader.versions.items():
        assert seen == there[: len(seen)], version
    assert reader.unreadable == []
