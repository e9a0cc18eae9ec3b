"""Lives of landings, which end at any step: a program that lands again and again, each time in another process.

Ended at a step (lifesteps.py) that was drawn by lot, a life breaks off between any two of them, on a slow machine
as on a fast one; and so does a worker of it (workerlives.py). `python -m tests.support.landinglives` reads orders,
a line of JSON each, forks, and answers with what became of the life; the libraries are loaded once, so a life
costs what its landing does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.jobs.latest.latesttable import LatestResult, latest
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
from tests.support import landingfaults
from tests.support.lifesteps import End, Steps
from tests.support.processgroup import process_group
from tests.support.workerlives import Workers

LOCAL, TASKS, WORKERS = "local", "tasks", "workers"
"""What lands: the engine of that name, or tasks, as Spark's are, of a process that has no Spark, in it or in
workers of their own."""
BATCH_BYTES = 60_000
PIECES = 2
"""Tasks of a batch."""
ERRORS = "lives.err"
"""What the program of lives prints, in their folder."""
REFUSED = 3
"""Exit code of a landing that was told why it can't go on."""


class Life(NamedTuple):
    """What became of one: ended, refused, failed (all with what it said), killed, stopped, or ended by another
    signal; its steps, if it came to tell them, and how many of its workers were killed; what it and its libraries
    have printed."""

    became: str
    process: int
    said: str
    steps: dict[str, int]
    workers: int
    printed: str

    def __str__(self) -> str:
        """For whoever has to find out why a test failed."""
        return "\n".join(filter(None, (f"a life {self.became}", self.said, self.printed)))


class Lives:
    """Orders, one at a time.

    - program: which takes them
    - stores: what is landed
    - table: where
    - folder: of files that belong to nothing else
    - schemas: of topics, as on the command line
    """

    def __init__(
        self,
        program: subprocess.Popen[str],
        stores: list[str],
        table: str,
        folder: Path,
        schemas: Sequence[str] = (),
    ) -> None:
        self._program = program
        self._what = {"stores": stores, "table": table, "schemas": list(schemas)}
        self._folder = folder

    def live(self, fault: str | None = None, **more: Any) -> Life:
        """One landing. more: `by`, LOCAL, TASKS or WORKERS; `end`, the step; `after`, seconds to a kill;
        `checkpoint`, a folder of its own; `stores`, some of them; `into`, a table that the last messages of each
        `key` are merged into, instead of landing."""
        told = str(self._folder / "life.json")
        Path(told).unlink(missing_ok=True)
        return self._order(**(self._what | more), told=told, fault=fault)

    def go_on(self, life: Life) -> Life:
        """A stopped one, to its end."""
        return self._order(go_on=life.process, told=str(self._folder / "life.json"))

    def _order(self, **order: Any) -> Life:
        assert self._program.stdin is not None and self._program.stdout is not None
        print(json.dumps(order), file=self._program.stdin, flush=True)
        answer = self._program.stdout.readline()
        errors = self._folder / ERRORS
        assert answer, f"the program of lives ended: {self._program.wait()}: {errors.read_text()}"
        return Life(*json.loads(answer))


@contextmanager
def lives(
    stores: list[str],
    table: str,
    folder: Path,
    environment: dict[str, str] | None = None,
    schemas: Sequence[str] = (),
) -> Iterator[Lives]:
    """The program, as long as it's needed.

    - stores: what is landed
    - table: where
    - folder: of files that belong to nothing else
    - environment: more of it
    - schemas: of topics, as on the command line
    """
    pipe, told = subprocess.PIPE, {**os.environ, **(environment or {})}
    command = (sys.executable, "-m", "tests.support.landinglives")
    with (
        (folder / ERRORS).open("w") as errors,
        process_group(*command, stdin=pipe, stdout=pipe, stderr=errors, env=told) as program,
    ):
        yield Lives(program, stores, table, folder, schemas)


# ---- the program


def main() -> None:
    running: dict[int, int] = {}
    for line in sys.stdin:
        order = json.loads(line)
        process = order.get("go_on")
        if process is None:
            ours, its = os.pipe()
            process = os.fork()
            if not process:
                _life(order)
            os.close(its)
            running[process] = ours
        else:
            os.kill(process, signal.SIGCONT)
        if order.get("after") is not None:
            time.sleep(order["after"])
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            with os.fdopen(running.pop(process), "rb") as ours_of_it:
                ours_of_it.read()  # until none of its workers is left, which have the other end, too
        print(json.dumps([_became(status), process, *_told(Path(order["told"]), process)]), flush=True)


def _became(status: int) -> str:
    if os.WIFSTOPPED(status):
        return "stopped"
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == signal.SIGKILL else f"signal {os.WTERMSIG(status)}"
    return {0: "ended", REFUSED: "refused"}.get(os.WEXITSTATUS(status), "failed")


def _told(path: Path, process: int) -> list[Any]:
    """What a life has written at its end, and what it has printed."""
    found = json.loads(path.read_text()) if path.exists() else ["", {}, 0]
    path.unlink(missing_ok=True)
    printed = _printed(path, process)
    return [*found, printed.read_text(errors="replace") if printed.exists() else ""]


def _printed(path: Path, process: int) -> Path:
    return path.with_name(f"life-{process}.out")


def _life(order: dict[str, Any]) -> None:
    """In a process of its own, which it ends."""
    code, said = 0, ""
    with _printed(Path(order["told"]), os.getpid()).open("w") as printed:
        for stream in (1, 2):  # answers go another way
            os.dup2(printed.fileno(), stream)
    end = End(*order["end"]) if order.get("end") else None
    landingfaults.plant(order["fault"], order["table"])
    workers = Workers(end) if order.get("by") == WORKERS else None
    tasks = InlineTasks() if order.get("by") == TASKS else workers
    how = LandOptions(
        engine="spark" if tasks else "local",
        partitions=PIECES if tasks else None,
        max_bytes_per_trigger=BATCH_BYTES,
        compact_below=1 << 20,
        checkpoint=order.get("checkpoint"),
        schemas=parse_schemas(order["schemas"]),
    )
    steps = Steps(end)
    try:
        sys.setprofile(steps.take)
        if order.get("into"):
            found: LandResult | LatestResult = latest(order["table"], order["into"], key=order["key"])
        else:
            found = land(order["stores"], order["table"], how, spark=tasks)
        sys.setprofile(None)
        said = f"{found.rows} rows"
    except PipelineError as error:
        sys.setprofile(None)
        code, said = REFUSED, str(error)
    except BaseException:
        sys.setprofile(None)
        code, said = 1, traceback.format_exc()
    draft = Path(order["told"]).with_suffix(".draft")
    more = (workers.steps, workers.killed) if workers else ({}, 0)
    draft.write_text(json.dumps([said, {**steps.counts, **more[0]}, more[1]]))
    draft.rename(order["told"])
    os._exit(code)


if __name__ == "__main__":
    main()
