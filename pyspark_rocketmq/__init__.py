"""Spark looks for sources in installed modules named `pyspark_*`: this one is `spark.read.format("rocketmq")`.

The source itself is `hatwisted.pipeline.spark.rocketmqsource`.
"""

from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
