"""Calling one function for many pieces of work: as Spark tasks, or right here.

The pieces are ranges of files and their results are small; each call reads and writes files itself, so there is
nothing for a table to do. One Spark task per piece keeps the pieces' order in the results, lets Spark balance them
over the executors, and makes the number of completed tasks the progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Work = TypeVar("Work")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""(done, total)."""


@runtime_checkable
class Tasks(Protocol):
    """Where the calls are made."""

    @property
    def parallelism(self) -> int:
        """How many run at once."""

    def run(
        self,
        work: Sequence[Work],
        function: Callable[[Work], Result],
        progress: Progress | None = None,
        total: int = 0,
    ) -> list[Result]:
        """The function's results, in order of the pieces. Raises PipelineError if a call did.

        - work: the pieces
        - function: called with each
        - progress: called with (done, total) as they end
        - total: shared evenly among the pieces; 0: their number
        """


class SparkTasks:
    """As tasks of a Spark session; function and pieces are pickled."""

    def __init__(self, spark: SparkSession) -> None:
        from hatwisted.pipeline.spark.ownpython import use_own_python

        use_own_python(spark)
        self._spark = spark
        self.parallelism = spark.sparkContext.defaultParallelism

    def run(
        self,
        work: Sequence[Work],
        function: Callable[[Work], Result],
        progress: Progress | None = None,
        total: int = 0,
    ) -> list[Result]:
        """See Tasks."""
        from hatwisted.pipeline.jobs.sparkactions import run_action

        if not work:
            return []
        context = self._spark.sparkContext
        return run_action(
            self._spark,
            lambda: context.parallelize(list(work), len(work)).map(function).collect(),
            progress,
            total or len(work),
        )


class InlineTasks:
    """One after the other, in this process: no Spark, no JVM. For small logs and for tests."""

    parallelism = 1

    def run(
        self,
        work: Sequence[Work],
        function: Callable[[Work], Result],
        progress: Progress | None = None,
        total: int = 0,
    ) -> list[Result]:
        """See Tasks."""
        results = []
        for piece in work:
            results.append(function(piece))
            if progress is not None:
                progress((total or len(work)) * len(results) // len(work), total or len(work))
        return results


def as_tasks(spark: SparkSession | Tasks) -> Tasks:
    """What a job was given, as tasks."""
    return spark if isinstance(spark, Tasks) else SparkTasks(spark)
