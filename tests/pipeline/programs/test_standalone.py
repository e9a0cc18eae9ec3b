"""The commands on a standalone cluster of Spark: a master and two workers, each a process of its own.

Executors and their Python workers are killed, and two drivers land the same log at once: into a Delta table, and
into an Iceberg table, by tasks and by a stream. What the tables have is compared with the log as another decoder
sees it. The drivers alone know where the Iceberg catalog is.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from testbed.processes import wait_until
from tests.pipeline.jobs.landing import STREAM, TASKS
from tests.support.goldenlog import MASTER, SLAVE
from tests.support.growing import GrowingStore
from tests.support.icebergcatalog import iceberg_catalog
from tests.support.landedtables import DELTA, ICEBERG, KINDS
from tests.support.processgroup import process_group
from tests.support.soak import only_in_soak, times
from tests.support.sparkworkers import PATIENCE, kill_one
from tests.support.standalonespark import Cluster, standalone_cluster

pytestmark = [
    pytest.mark.timeout(1_800),
    only_in_soak("starts ten JVMs"),
]
KILLS = times(2)
"""Of executors and Python workers; Spark gives up after ten executors that die one after the other, none of which
has run in between."""
BUSY = 1.0
"""Seconds within which a landing, idle or busy, comes to what is new."""
BROKER = "broker-a"


@pytest.fixture
def cluster(java: None, tmp_path: Path) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path) as running:
        yield running


# Stores land into a Delta table by tasks with a checkpoint, too; into an Iceberg table those are a stream's.
@pytest.mark.parametrize("form, way", [(DELTA, TASKS), (ICEBERG, TASKS), (ICEBERG, STREAM)])
def test_two_workers_and_two_drivers_that_land_the_same_log(
    cluster: Cluster, tmp_path: Path, form: str, way: str
) -> None:
    store, table = GrowingStore(tmp_path / BROKER), KINDS[form](tmp_path, [BROKER])
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    store.append(500)

    def land(by: str) -> tuple[object, ...]:
        checkpoint = () if (form, way) == (ICEBERG, TASKS) else ("--checkpoint", tmp_path / by)
        return ("land", store.root, table.name, "--engine", "spark", *checkpoint)

    def followed() -> bool:
        return table.version() >= 0 and table.offsets() == store.offsets

    with iceberg_catalog(tmp_path) as catalog:
        cluster.environment |= catalog  # which its workers have without
        first = cluster.command(*land("first"), "--follow", "--every", "0.5")
        with process_group(*first, env=cluster.environment, stderr=subprocess.PIPE) as earlier:
            wait_until(followed, PATIENCE, "the first driver has landed the log")
            for _ in range(KILLS):
                store.append(100)
                time.sleep(chance.uniform(0, BUSY))
                kill_one(cluster.workers.values(), chance)
                wait_until(followed, PATIENCE, "it follows")
                assert table.trouble(whole=False) is None
            # The other worker's core is the second driver's, whose Spark starts only if there's something new.
            os.killpg(earlier.pid, signal.SIGSTOP)
            store.append(500)
            done = cluster.run(*land("second"), "--json")
            assert json.loads(done.stdout)["rows"] == 500, done.stderr
            os.killpg(earlier.pid, signal.SIGCONT)
            store.append(500)
            _, said = earlier.communicate(timeout=PATIENCE)
            assert earlier.returncode == 2
            *stages, error = said.splitlines()
            assert "took over" in error and all(line.startswith("land: ") for line in stages), said
        done = cluster.run(*land("second"), "--json")
        assert json.loads(done.stdout)["rows"] == 500, done.stderr
        assert table.trouble(whole=True) is None
    assert all(list(worker.glob("app-*/*")) for worker in cluster.workers)
    print(f"{form} by {way}: {KILLS} executors and Python workers killed, and the table is the log")


def test_an_audit(cluster: Cluster) -> None:
    done = cluster.run("audit", MASTER, SLAVE, "--json")
    assert json.loads(done.stdout)["identical"], done.stderr
