"""Running a Spark action with progress: it runs in a thread of its own, and its tasks are counted meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar
from uuid import uuid4

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.spark.failures import reason_of

Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""(done, total)."""

ASK_SECONDS: Final = 0.2
"""How often Spark is asked for progress."""


def run_action(
    spark: SparkSession, action: Callable[[], Result], progress: Progress | None = None, total: int = 0
) -> Result:
    """Run a Spark action with progress. Raises PipelineError if one of our sources did in a task, Spark's own
    exception for anything else. Cancels what is running if the caller is interrupted.

    - spark: the session
    - action: starts it and waits for it
    - progress: called with (done, total) as its tasks end
    - total: shared evenly among the tasks
    """
    context, group = spark.sparkContext, f"hatwisted-{uuid4().hex}"
    outcome = _started(context, group, action)
    try:
        while True:
            try:
                result = outcome.result(ASK_SECONDS)
                break
            except TimeoutError:
                if progress is not None:
                    progress(round(total * _share_done(context, group)), total)
    except BaseException as error:
        context.cancelJobGroup(group)
        line = reason_of(error)
        if line is None:
            raise
        raise PipelineError(line) from error
    if progress is not None:
        progress(total, total)
    return result


def _started(context: SparkContext, group: str, action: Callable[[], Result]) -> Future[Result]:
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            context.setJobGroup(group, "hatwisted", interruptOnCancel=True)
            outcome.set_result(action())
        except BaseException as error:
            outcome.set_exception(error)

    InheritableThread(target=run, daemon=True).start()
    return outcome


def _share_done(context: SparkContext, group: str) -> float:
    """The share of tasks done in the action's first stage, which reads the input and does nearly all the work."""
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    stages = sorted(stage for job in jobs if job is not None for stage in job.stageIds)
    first = tracker.getStageInfo(stages[0]) if stages else None
    return first.numCompletedTasks / first.numTasks if first is not None and first.numTasks else 0.0
