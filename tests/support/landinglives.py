"""Lives of landings, which end at any step: a program that lands again and again, each time in another process.

A step is a call or a return within the packages that write tables, or a call that one of their functions makes
into a library. Ended at a step that was drawn by lot, a life breaks off between any two of them, on a slow
machine as on a fast one. `python -m tests.support.landinglives` reads orders, a line of JSON each, forks, and
answers with what became of the life; the libraries are loaded once, so a life costs what its landing does.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import hatwisted
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.jobs.latest.latesttable import LatestResult, latest
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
from tests.support import landingfaults, letterfaults
from tests.support.processgroup import process_group

LOCAL, TASKS = "local", "tasks"
"""What lands: the engine of that name, or tasks, as Spark's are, of a process that has no Spark."""
BATCH_BYTES = 60_000
PIECES = 3
"""Tasks of a batch."""
PIPELINE = os.path.join(os.path.dirname(hatwisted.__file__), "pipeline", "")
ROOMS = (
    *(os.path.join(PIPELINE, *path, "") for path in (("delta",), ("iceberg",), ("jobs", "land"))),
    os.path.join(PIPELINE, "jobs", "latest", ""),
    landingfaults.__file__,
    letterfaults.__file__,
)
"""Where steps are counted."""
ERRORS = "lives.err"
"""What the program of lives prints, in their folder."""
REFUSED = 3
"""Exit code of a landing that was told why it can't go on."""


class End(NamedTuple):
    """Where a life ends: at this step, when it's taken for the nth time."""

    step: str
    number: int
    sign: int = signal.SIGKILL


class Life(NamedTuple):
    """What became of one: ended, refused, failed (all with what it said), killed, stopped, or ended by another
    signal; its steps, if it came to tell them; what it and its libraries have printed."""

    became: str
    process: int
    said: str
    steps: dict[str, int]
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
        """One landing. more: `by`, LOCAL or TASKS; `end`, the step; `after`, seconds to a kill; `checkpoint`, a
        folder of its own; `into`, a table that the last messages of each `key` are merged into, instead of
        landing."""
        told = str(self._folder / "life.json")
        Path(told).unlink(missing_ok=True)
        return self._order(**self._what, told=told, fault=fault, **more)

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


def drawn(
    steps: dict[str, int], chance: random.Random, sign: int = signal.SIGKILL, near: str | None = None
) -> End:
    """A step of a life like one that has ended; rare ones are as likely as those that are taken often.

    - steps: how often each was taken
    - chance: what draws
    - sign: signal that ends it
    - near: half of the time a step of this fault's own code, if it has some
    """
    own = [step for step in steps if near is not None and f" {near.replace('-', '_')}" in step]
    step = chance.choice(sorted(own if own and chance.random() < 0.5 else steps))
    return End(step, chance.randint(1, steps[step]), sign)


# ---- the program


class Steps:
    """Counts them, and ends the process at one of them."""

    def __init__(self, end: End | None) -> None:
        self.counts = Counter[str]()
        self._end = end
        self._ours: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in self._ours:
            self._ours[code] = code.co_filename.startswith(ROOMS)
        if self._ours[code]:
            library = f" {argument.__name__}" if event.startswith("c_") else ""
            step = f"{event} {code.co_qualname}{library}"
            self.counts[step] += 1
            if self._end is not None and self._end[:2] == (step, self.counts[step]):
                os.kill(os.getpid(), self._end.sign)


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        process = order.get("go_on")
        if process is None:
            process = os.fork()
            if not process:
                _life(order)
        else:
            os.kill(process, signal.SIGCONT)
        if order.get("after") is not None:
            time.sleep(order["after"])
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, os.WUNTRACED)
        print(json.dumps([_became(status), process, *_told(Path(order["told"]), process)]), flush=True)


def _became(status: int) -> str:
    if os.WIFSTOPPED(status):
        return "stopped"
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == signal.SIGKILL else f"signal {os.WTERMSIG(status)}"
    return {0: "ended", REFUSED: "refused"}.get(os.WEXITSTATUS(status), "failed")


def _told(path: Path, process: int) -> list[Any]:
    """What a life has written at its end, its steps, and what it has printed."""
    found = json.loads(path.read_text()) if path.exists() else ["", {}]
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
    tasks = InlineTasks() if order.get("by") == TASKS else None
    how = LandOptions(
        engine="spark" if tasks else "local",
        partitions=PIECES if tasks else None,
        max_bytes_per_trigger=BATCH_BYTES,
        compact_below=1 << 20,
        checkpoint=order.get("checkpoint"),
        schemas=parse_schemas(order["schemas"]),
    )
    steps = Steps(End(*order["end"]) if order.get("end") else None)
    try:
        landingfaults.plant(order["fault"], order["table"])
        sys.setprofile(steps)
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
    draft.write_text(json.dumps([said, steps.counts]))
    draft.rename(order["told"])
    os._exit(code)


if __name__ == "__main__":
    main()
