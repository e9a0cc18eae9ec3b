"""A landing as a program of its own, to be killed: `python -m tests.pipeline.jobs.landing WAY STORE TABLE`.

It starts Spark, says `ready`, lands when it reads a line, and says `landed` after each batch, or each task of one.
It takes in so little a trigger that a kill can come at any of a batch's stages. A task whose Python worker is
killed is run again, as it is on a cluster.
"""

from __future__ import annotations

import sys

from hatwisted.pipeline.jobs.land.landing import land
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.landoptions import LandOptions, Mode
from hatwisted.pipeline.spark.sparksession import spark_session

BYTES_PER_TRIGGER = 200 << 10
TASKS, STREAM = "tasks", "stream"
WAYS = (TASKS, STREAM)
MASTER = "local[2,4]"
"""Two cores, and four times for a task: by itself a local Spark gives up after one."""


def source(way: str, *stores: str) -> Stores:
    """Stores that land in one of the WAYS. An option of the source takes a stream, even if it's the default."""
    return Stores(stores, {"mode": "failfast"} if way == STREAM else {})


def options(mode: Mode) -> LandOptions:
    """`continuous` as above; `once` takes all there is."""
    return LandOptions(
        mode=mode,
        every=0.1,
        max_bytes_per_trigger=1 << 30 if mode == "once" else BYTES_PER_TRIGGER,
        partitions=2,
        compact_below=1 << 20,
    )


def main(way: str, store: str, table: str) -> None:
    spark = spark_session(MASTER)
    print("ready", flush=True)
    sys.stdin.readline()
    land(
        source(way, store),
        table,
        options("continuous"),
        spark=spark,
        progress=lambda done, total: print("landed", done, flush=True),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
