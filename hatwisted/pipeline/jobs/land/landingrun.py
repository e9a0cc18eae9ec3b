"""What a run of a landing goes by, whatever it lands into."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hatwisted.pipeline.jobs.land.landoptions import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_BYTES: Final = 1 << 30
"""Of log: what `auto` lands without Spark."""


@dataclass(frozen=True)
class LandingRun:
    """One of them.

    - spark: the session, or what makes it, if it's given
    - report: its progress
    - stop: its end
    - seconds: its clock
    """

    spark: SparkSession | Callable[[], SparkSession] | None
    report: Progress
    stop: threading.Event
    seconds: Callable[[], float]

    def session(self) -> SparkSession:
        """The session; made if none is given."""
        if self.spark is None:
            from hatwisted.pipeline.spark.sparksession import spark_session

            return spark_session()
        return self.spark() if callable(self.spark) else self.spark
