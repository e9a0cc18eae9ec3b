"""The source `commitlog` as a stream in Spark: places in a checkpoint, limits, progress, and kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.spark.failures import reason_of
from tests.pipeline.spark import brokerstore, streaming
from tests.support.growing import GrowingStore
from tests.support.moments import wait_for_another
from tests.support.processgroup import Program, process_group
from tests.support.soak import only_in_soak, times

KILLS = times(2)
"""Each costs a Spark: one in a batch that is planned and not yet in the sink, one when it is there and the
checkpoint doesn't say so. `make soak` draws many."""
RECORDS = 6_000
PER_SECOND = 400
LONGEST_LIFE = 3.0
"""Seconds from a query's first batch to its end."""
LONGEST_BATCH = 0.3
"""Seconds of a batch in which a kill may come, after it is planned."""


class Landing:
    """A stream of stores into a folder of Parquet files, run again and again from one checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def run(self, stores: Path, **options: str) -> StreamingQuery:
        rows = self.spark.readStream.format("commitlog").options(**options)
        rows = rows.schema("broker string, physical_offset bigint").load(str(stores))
        written = rows.writeStream.format("parquet").trigger(availableNow=True)
        written = written.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = written.start(str(self.folder / "rows"))
        query.awaitTermination()
        return query

    def rows(self) -> list[tuple[str, int]]:
        return sorted(map(tuple, self.spark.read.parquet(str(self.folder / "rows")).collect()))


@pytest.fixture
def landing(spark: SparkSession, tmp_path: Path) -> Landing:
    return Landing(spark, tmp_path / "landing")


def of(broker: str, store: GrowingStore) -> list[tuple[str, int]]:
    return [(broker, offset) for offset in store.offsets]


def test_growing_brokers_are_landed_once(landing: Landing, tmp_path: Path) -> None:
    one, two = GrowingStore(tmp_path / "broker-a"), GrowingStore(tmp_path / "broker-b", seed=1)
    for _ in range(3):
        one.append(200)
        two.append(50)
        landing.run(tmp_path / "broker-*")
    late = GrowingStore(tmp_path / "broker-c")
    late.append(30)
    landing.run(tmp_path / "broker-*")
    assert landing.rows() == of("broker-a", one) + of("broker-b", two) + of("broker-c", late)


def test_limits_make_more_triggers_and_progress_tells_the_lag(landing: Landing, tmp_path: Path) -> None:
    store = GrowingStore(tmp_path / "broker-a")
    store.append(1000)
    query = landing.run(store.root, maxRecordsPerTrigger="300")
    told = [json.loads(progress.json) for progress in query.recentProgress]
    batches = [progress for progress in told if progress["numInputRows"]]
    assert [progress["numInputRows"] for progress in batches] == [300, 300, 300, 100]
    assert [lag(progress) for progress in batches] == [
        store.end - store.offsets[300],
        store.end - store.offsets[600],
        store.end - store.offsets[900],
        0,
    ]
    assert landing.rows() == of("broker-a", store)


def lag(progress: dict[str, Any]) -> int:
    """Bytes of log that the source has and the stream hasn't."""
    (source,) = progress["sources"]
    behind: int = source["latestOffset"]["broker-a"] - source["endOffset"]["broker-a"]
    return behind


def test_files_deleted_under_a_stream(landing: Landing, tmp_path: Path) -> None:
    store = GrowingStore(tmp_path / "broker-a")
    store.append(100)
    landing.run(store.root)
    store.append(9000)
    assert store.end > 2 << 20
    (store.root / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(StreamingQueryException) as failed:
        landing.run(store.root)
    told = reason_of(failed.value)
    assert told is not None and "were deleted before they were read: set failOnDataLoss=false" in told
    landing.run(store.root, failOnDataLoss="false")
    left = [offset for offset in store.offsets if offset >= 1 << 20]
    assert landing.rows() == [("broker-a", offset) for offset in store.offsets[:100] + left]


def program(module: str, *arguments: str) -> AbstractContextManager[Program]:
    """A module as a program."""
    return process_group(sys.executable, "-m", module, *arguments, stdout=subprocess.PIPE)


@only_in_soak("most of a minute, and landings by Spark are killed")
def test_kills_lose_and_repeat_nothing(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "broker-a"
    places = [str(tmp_path / name) for name in ("rows", "checkpoint")]
    seed = random.randrange(1 << 32)
    print("seed", seed)
    lives = random.Random(seed)
    with program(brokerstore.__name__, str(store), str(RECORDS), str(PER_SECOND)) as broker:
        while not list(store.glob("commitlog/*")):
            time.sleep(0.05)
        for number in range(KILLS):
            with program(streaming.__name__, str(store), *places) as query:
                assert query.stdout is not None
                assert query.stdout.readline().startswith("batch"), "the query ended by itself"
                if number % 2 == 0:
                    wait_for_another(lambda: tmp_path.glob("checkpoint/offsets/[0-9]*"), LONGEST_LIFE)
                    time.sleep(lives.uniform(0, LONGEST_BATCH))
                else:
                    wait_for_another(lambda: tmp_path.glob("rows/_spark_metadata/[0-9]*"), LONGEST_LIFE)
                os.killpg(query.pid, signal.SIGKILL)
        assert broker.wait(120) == 0
    last = streaming.landing(spark, str(store), *places, limit="1g").trigger(availableNow=True)
    last.start().awaitTermination()

    there = read_arrow(str(store), ["physical_offset", "body"]).read_all()
    assert there.num_rows == RECORDS
    landed = spark.read.parquet(places[0]).select("physical_offset", "body").orderBy("physical_offset")
    assert landed.toArrow().to_pylist() == there.to_pylist()
    # Each life told of a batch, so each has committed one; the last run took in the rest.
    assert len(list(Path(places[1], "commits").glob("[0-9]*"))) > KILLS
