"""Spark's Python workers with their modules there before they begin; it's on the path of what starts them.

A daemon of PySpark's forks a worker when a task, or a plan of a source, needs one. Each imports PySpark's worker,
Arrow and this package by itself, for half a second of a core and more. Here the daemon has imported them before it
forks. By itself it imports nothing, lest some library has threads, which a fork leaves behind; none of these has
any that it needs afterwards. What any other program starts with stays as it is.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress

OF_ALL = (
    "pyarrow.parquet",
    "hatwisted.pipeline.spark.commitlogsource",
    "hatwisted.pipeline.spark.rocketmqsource",
)
OF_TASKS = ("hatwisted.pipeline.jobs.land.landing", "pyiceberg.io.pyarrow", "pyiceberg.catalog.sql")
TASKS = "pyspark.worker"


def warm(worker: str) -> None:
    """Import what this kind of worker does."""
    for name in (worker, *OF_ALL, *(OF_TASKS if worker == TASKS else ())):
        with suppress(ImportError):
            importlib.import_module(name)


if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    warm(sys.orig_argv[3])
