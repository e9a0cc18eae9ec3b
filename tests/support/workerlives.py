"""Workers of a landing, as Spark's Python workers are: a daemon that forks one for each task. One of them may be
killed at a step of its task, and the task is then run again by another one, while the landing goes on.

A life's steps that a worker has taken are called `worker ...`, so that whoever draws one of all steps kills the
landing itself or a worker.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO, Any, NoReturn

from hatwisted.pipeline.jobs.workertasks import InlineTasks, Progress, Result, Work
from tests.support.lifesteps import End, Steps

WORKER = "worker "
"""What the names of their steps begin with."""


class Workers(InlineTasks):
    """One after the other, each in a process of its own. To be made before this one has threads, as forks don't
    have them.

    - end: the step at which one of them is killed, if it's one of theirs
    """

    def __init__(self, end: End | None) -> None:
        self.steps = Counter[str]()
        self.killed = 0
        orders, answers = os.pipe(), os.pipe()
        if not os.fork():
            os.close(orders[1])
            _serve(os.fdopen(orders[0], "rb"), os.fdopen(answers[1], "wb"), end)
        os.close(orders[0])
        os.close(answers[1])
        self._orders, self._answers = os.fdopen(orders[1], "wb"), os.fdopen(answers[0], "rb")

    def run(
        self,
        work: Sequence[Work],
        function: Callable[[Work], Result],
        progress: Progress | None = None,
        total: int = 0,
    ) -> list[Result]:
        """See Tasks."""
        return super().run(work, partial(self._ordered, function), progress, total)

    def _ordered(self, function: Callable[[Work], Result], piece: Work) -> Result:
        """What a worker makes of a piece."""
        pickle.dump((function, piece), self._orders)
        self._orders.flush()
        failed, found, self.steps, self.killed = pickle.load(self._answers)
        if failed:
            raise found
        result: Result = found
        return result


def _serve(orders: IO[bytes], answers: IO[bytes], end: End | None) -> NoReturn:
    """The daemon, until the landing is gone."""
    steps, killed = Counter[str](), 0
    try:
        while True:
            function, piece = pickle.load(orders)
            while (answer := _worked(function, piece, Steps(end, WORKER, steps))) is None:
                end, killed = None, killed + 1
            failed, found, steps = answer
            pickle.dump((failed, found, steps, killed), answers)
            answers.flush()
    finally:  # the landing's end is an EOFError or a BrokenPipeError
        os._exit(0)


def _worked(
    function: Callable[[Any], Any], piece: Any, steps: Steps
) -> tuple[bool, Any, Counter[str]] | None:
    """What a worker of its own makes of a piece: (whether it failed, its result or error, steps so far); None: it
    was killed."""
    ours, its = os.pipe()
    worker = os.fork()
    if not worker:
        failed = False
        sys.setprofile(steps.take)
        try:
            found = function(piece)
        except Exception as error:
            failed, found = True, error
        sys.setprofile(None)
        with os.fdopen(its, "wb") as told:
            pickle.dump((failed, found, steps.counts), told)
        os._exit(0)
    os.close(its)
    with os.fdopen(ours, "rb") as told:
        said = told.read()
    _, status = os.waitpid(worker, 0)
    if os.WIFSIGNALED(status):
        return None
    answer: tuple[bool, Any, Counter[str]] = pickle.loads(said)
    return answer
