"""Our formats for a session that doesn't find them by itself.

Spark looks for modules named `pyspark_*` with the Python that plans queries, which is the one that PYSPARK_PYTHON
names (sparkstart.py says what it is where none is named): where that is another one, the formats aren't found. Nor
does Spark look for sinks by other names.
"""

from __future__ import annotations

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from hatwisted.pipeline.spark.commitlogsource import CommitLogSource
from hatwisted.pipeline.spark.deltasink import DeltaSink
from hatwisted.pipeline.spark.ownpython import use_own_python
from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource

FORMATS: Final = (CommitLogSource, RocketMQSource, DeltaSink)


def register(spark: SparkSession) -> SparkSession:
    """Make `commitlog`, `rocketmq` and `hatwisted-delta` known to a session, of Spark Connect's as well, which is
    given back."""
    use_own_python(spark)
    for source in FORMATS:
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
    return spark
