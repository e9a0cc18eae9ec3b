"""The commands on a standalone cluster of Spark: a master and two workers, each a process of its own.

Executors and their Python workers are killed, and two drivers land the same log at once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from deltalake import DeltaTable

from testbed.processes import wait_until
from tests.support.goldenlog import MASTER, SLAVE
from tests.support.growing import GrowingStore
from tests.support.processgroup import process_group
from tests.support.soak import only_in_soak
from tests.support.standalonespark import PATIENCE, Cluster, standalone_cluster

pytestmark = [
    pytest.mark.timeout(1_800),
    only_in_soak("starts ten JVMs"),
]
KILLS = 4
"""Of executors and Python workers; Spark gives up after ten executors that die one after the other."""


@pytest.fixture
def cluster(java: None, tmp_path: Path) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path) as running:
        yield running


def started_by(process: int) -> list[int]:
    """What it has started, and what those have."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            number, _, rest = stat.read_text().partition(" ")
            parents[int(number)] = int(rest.rpartition(")")[2].split()[1])
    found, older = [], {process}
    while older:
        older = {number for number, parent in parents.items() if parent in older}
        found += sorted(older)
    return found


def kill_one(cluster: Cluster, chance: random.Random) -> None:
    """An executor, or one of its Python workers: any of them that is there."""

    def there() -> list[int]:
        return [each for worker in cluster.workers.values() for each in started_by(worker)]

    wait_until(there, PATIENCE, "there is an executor")
    with suppress(ProcessLookupError, IndexError):
        os.kill(chance.choice(there()), signal.SIGKILL)


def offsets(table: Path) -> list[int]:
    if not DeltaTable.is_deltatable(str(table)):
        return []
    found: list[int] = DeltaTable(str(table)).to_pyarrow_table(columns=["physical_offset"])[0].to_pylist()
    return sorted(found)


def test_two_workers_and_two_drivers_that_land_the_same_log(cluster: Cluster, tmp_path: Path) -> None:
    store, table = GrowingStore(tmp_path / "broker-a"), tmp_path / "table"
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    store.append(500)
    land = ("land", store.root, table, "--engine", "spark", "--checkpoint")
    first = cluster.command(*land, tmp_path / "first", "--follow", "--every", "0.5")
    with process_group(*first, env=cluster.environment, stderr=subprocess.PIPE) as earlier:
        wait_until(lambda: offsets(table) == store.offsets, PATIENCE, "the first driver has landed the log")
        for _ in range(KILLS):
            store.append(100)
            kill_one(cluster, chance)
            wait_until(lambda: offsets(table) == store.offsets, PATIENCE, "it follows")
        # The other worker's core is the second driver's.
        done = cluster.run(*land, tmp_path / "second", "--json")
        assert done.returncode == 0, done.stderr
        store.append(500)
        _, said = earlier.communicate(timeout=PATIENCE)
        assert earlier.returncode == 2
        assert "took over" in said and said.count("\n") == 1, said
    done = cluster.run(*land, tmp_path / "second", "--json")
    assert json.loads(done.stdout)["rows"] == 500, done.stderr
    assert offsets(table) == store.offsets
    assert all(list(worker.glob("app-*/*")) for worker in cluster.workers)
    done = cluster.run("audit", MASTER, SLAVE, "--json")
    assert json.loads(done.stdout)["identical"], done.stderr
