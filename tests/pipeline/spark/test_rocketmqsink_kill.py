"""A writing stream that is killed with -9 again and again: who leaves repetitions out sees every row once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from pyspark.sql import SparkSession

from hatwisted.pipeline.spark.repeats import without_repeats
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from testbed.brokergroup import OURS, BrokerGroup
from testbed.processes import REPOSITORY, wait_until
from tests.pipeline.spark import sinkprogram
from tests.support.clustermessages import fill, wait_for_route
from tests.support.soak import times

pytestmark = [
    pytest.mark.timeout(1600),
    pytest.mark.skipif(
        "HATWISTED_SOAK" not in os.environ,
        reason="`make soak` kills; stages one by one: test_rocketmqsink.py",
    ),
]

KILLS = times(1)
QUEUES, COUNT, SIZE = 3, 20_000, 300


def test_kills_lose_nothing_and_repeat_nothing_for_readers(spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        group.start()
        sent = fill(group, "In", COUNT, queues=QUEUES, size=SIZE)
        places = (f"127.0.0.1:{group.namesrv_port}", "In", "Out", str(tmp_path / "checkpoint"))
        for _ in range(KILLS):
            run_for_a_while(group, tmp_path, places, dice)
        last = sinkprogram.copying(spark, *places).trigger(availableNow=True).start()
        assert last.awaitTermination(600)
        spark.dataSource.register(RocketMQSource)
        options = {
            "namesrvAddr": places[0],
            "topics": "Out",
            "columns": "unique_key,broker,physical_offset,body",
        }
        found = spark.read.format("rocketmq").options(**options).load()
        print(found.count(), "messages of", QUEUES * COUNT, "rows")
        rows = Counter(bytes(row.body) for row in without_repeats(found).collect())
        assert rows == Counter(body for each in sent for body in each.bodies)


def run_for_a_while(group: BrokerGroup, folder: Path, places: tuple[str, ...], dice: random.Random) -> None:
    """The program, its JVM and its workers are killed at any moment after it has begun to write."""
    command = [sys.executable, "-m", sinkprogram.__name__, *places]
    with open(folder / "program.out", "ab") as output:
        program = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )
    before = written(group)
    try:
        wait_until(lambda: program.poll() is not None or written(group) > before, 150, "rows are written")
        assert program.poll() is None, (folder / "program.out").read_text()[-3000:]
        time.sleep(dice.uniform(0.0, 2.0))
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    wait_for_route(group, "Out")


def written(group: BrokerGroup) -> int:
    with group.master_client() as client:
        return sum(client.max_queue_offset("Out", queue) for queue in range(4))
