"""Which Python a session on this machine runs our functions with, if nobody has named one: the program's own.

PySpark takes `python3` of the PATH, for executors may have theirs elsewhere. On this machine that's another Python
than the program's, where this one was started by the path of its environment: without hatwisted, and maybe of
another version, which Spark refuses.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from pyspark.sql import SparkSession

NAMED_BY: Final = "PYSPARK_PYTHON"


def use_own_python(spark: SparkSession) -> None:
    """From now on. Sessions of Spark Connect, and of other machines, stay as they are."""
    if NAMED_BY in os.environ or not sys.executable or not isinstance(spark, SparkSession):
        return
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        context.pythonExec = sys.executable
