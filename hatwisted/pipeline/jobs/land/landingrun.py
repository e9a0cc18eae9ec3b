"""What a run of a landing goes by, whatever it lands into."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.landoptions import Progress
from hatwisted.pipeline.jobs.workertasks import SparkTasks, Tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_BYTES: Final = 1 << 30
"""Of log: what `auto` lands without Spark."""


@dataclass(frozen=True)
class LandingRun:
    """One of them.

    - spark: the session, what makes it, or other tasks, if any is given
    - report: its progress
    - stop: its end
    - seconds: its clock
    """

    spark: SparkSession | Tasks | Callable[[], SparkSession] | None
    report: Progress
    stop: threading.Event
    seconds: Callable[[], float]

    @cached_property
    def session(self) -> SparkSession:
        """The session; made if none is given. Raises PipelineError if there are only tasks."""
        if self.spark is None:
            from hatwisted.pipeline.spark.sparksession import spark_session

            return spark_session()
        if isinstance(self.spark, Tasks):
            raise PipelineError("this landing needs a stream of Spark's, not just tasks: give a session")
        return self.spark() if callable(self.spark) else self.spark

    @cached_property
    def tasks(self) -> Tasks:
        """The session's, or what was given in its place."""
        return self.spark if isinstance(self.spark, Tasks) else SparkTasks(self.session)
