"""Spark looks for sources in installed modules named `pyspark_*`: this one is `spark.read.format("commitlog")`.

The source itself is `hatwisted.pipeline.spark.commitlogsource`.
"""

from hatwisted.pipeline.spark.commitlogsource import CommitLogSource as DefaultSource

__all__ = ["DefaultSource"]
