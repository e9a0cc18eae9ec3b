"""A landing as a program of its own, to be killed: `python -m tests.pipeline.jobs.landing STORE TABLE MODE`.

It starts Spark, says `ready`, lands when it reads a line, and says `landed` after each batch. As `continuous` it
takes in so little a trigger that a kill can come at any of a batch's stages; as `once` it takes all there is.
"""

from __future__ import annotations

import json
import sys

from hatwisted.pipeline.jobs.land.landing import LandOptions, land
from hatwisted.pipeline.spark.sparksession import spark_session

BYTES_PER_TRIGGER = 200 << 10


def main(store: str, table: str, mode: str) -> None:
    spark = spark_session()
    print("ready", flush=True)
    sys.stdin.readline()
    once = mode == "once"
    found = land(
        [store],
        table,
        LandOptions(
            mode="once" if once else "continuous",
            every=0.1,
            max_bytes_per_trigger=1 << 30 if once else BYTES_PER_TRIGGER,
            partitions=2,
            compact_below=1 << 20,
        ),
        spark=spark,
        progress=lambda done, total: print("landed", done, flush=True),
    )
    print(json.dumps(found.as_json()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
