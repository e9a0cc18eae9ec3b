"""A client that we didn't write, at the other end of a pipe: commands go in, events come out.

The program reads a command a line, words separated by tabs, says "> ready" when it begins, "> done" or
"> failed" after each command, and other lines that begin with "> " whenever something happens; what else its
libraries print is kept in its output file and quoted when something fails. Programs run at a low priority (at the
lowest one, whatever else is busy on the machine would starve them) and are gone when their test is.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.processes import dies_with_us

COMMAND_SECONDS = 150.0  # above every timeout of the programs themselves
END_SECONDS = 60.0  # a client shuts its consumers down and unregisters
OUTPUT_TAIL = 3000  # characters of output quoted in an error

Event = tuple[str, ...]


class ClientFailed(AssertionError):
    """A command failed, or the program ended or said nothing in time; with the end of its output."""


class ClientProgram:
    """One program in a process of its own, as a context manager. Its events are kept in the order they came."""

    def __init__(self, name: str, folder: Path, command: Sequence[str]) -> None:
        self.name = name
        self.output = folder / f"{name}.out"
        self._all: list[Event] = []
        self._answers: queue.Queue[Event] = queue.Queue()
        self._changed = threading.Condition()
        with open(self.output, "ab") as errors:
            self.process = subprocess.Popen(
                [*dies_with_us(), "nice", "-n", "5", *command],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        threading.Thread(target=self._read, name=f"{name} output", daemon=True).start()

    def __enter__(self) -> Self:
        self._answer("ready", COMMAND_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # the programs end with their input
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(END_SECONDS)

    def tell(self, *words: object, seconds: float = COMMAND_SECONDS) -> None:
        """A command, until it's done. Raises ClientFailed with what the program says otherwise."""
        assert self.process.stdin is not None
        self.process.stdin.write("\t".join(map(str, words)).encode() + b"\n")
        self.process.stdin.flush()
        self._answer("done", seconds)

    def events(self, kind: str) -> list[Event]:
        """What came so far of a kind, without the kind itself."""
        with self._changed:
            return [event[1:] for event in self._all if event[0] == kind]

    def wait_for(self, kind: str, enough: Callable[[list[Event]], object], seconds: float) -> list[Event]:
        """Until `enough(events of the kind)`; these events."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not enough(found := [event[1:] for event in self._all if event[0] == kind]):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ClientFailed(
                        self._story(f"has {len(found)} {kind!r} after {seconds:g} s: {found[-5:]}")
                    )
                self._changed.wait(left)
        return found

    def forget(self) -> None:
        """Drop the events so far."""
        with self._changed:
            self._all.clear()

    def _answer(self, expected: str, seconds: float) -> None:
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise ClientFailed(self._story(f"said no {expected!r} within {seconds:g} s")) from None
        if answer[0] != expected:
            raise ClientFailed(self._story(f"said {answer} instead of {expected!r}"))

    def _read(self) -> None:
        assert self.process.stdout is not None
        with open(self.output, "ab") as output:
            for line in self.process.stdout:
                output.write(line)
                output.flush()
                if line.startswith(b"> "):
                    self._take(tuple(line[2:].rstrip(b"\n").decode(errors="replace").split("\t")))
        self._answers.put(("ended", str(self.process.wait())))

    def _take(self, event: Event) -> None:
        if event[0] in ("ready", "done", "failed"):
            self._answers.put(event)
            return
        with self._changed:
            self._all.append(event)
            self._changed.notify_all()

    def _story(self, what: str) -> str:
        return f"{self.name} {what}; its output ends:\n{self._tail()}"

    def _tail(self) -> str:
        return self.output.read_text(errors="replace")[-OUTPUT_TAIL:]
