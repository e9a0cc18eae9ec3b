"""RocketMQ's own Java client at the other end of a pipe: the programs of tests/interop/java, one process each.

    with JavaClient("4.9.7", "Producer", folder, "127.0.0.1:9876") as client:
        client.tell("sync", "Topic", "body", 10)
        client.events("sent")

They are compiled by javac against the jars of the version that is asked for, once for each state of their
sources, into the cache folder of these jars. A command is a line of words, so is an answer; whatever else the
client library prints goes into the file of its output, which is quoted when something fails.
"""

from __future__ import annotations

import fcntl
import hashlib
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import javarocketmq
from tests.support.processes import REPOSITORY, dies_with_us

SOURCES = REPOSITORY / "tests" / "interop" / "java"
VERSIONS = ("4.9.7", "5.3.3")
HEAP = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
BINARY = "-Drocketmq.serialize.type=ROCKETMQ"  # headers in RocketMQ's binary form, both ways
COMPILE_SECONDS = 120.0
COMMAND_SECONDS = 40.0  # above every timeout of the programs themselves
END_SECONDS = 15.0  # a client shuts its consumers down and unregisters
OUTPUT_TAIL = 3000  # characters of output quoted in an error

Event = tuple[str, ...]


class ClientFailed(AssertionError):
    """A command failed, or the program ended or said nothing in time; with the end of its output."""


def unavailable(version: str) -> str | None:
    """None if the client of that version can be compiled and run here, else the reason why not."""
    if shutil.which("javac") is None:
        return "no javac on the PATH"
    return javarocketmq.available(version)


def compiled(version: str) -> Path:
    """The folder of classes for the sources as they are now. Safe to call from several processes."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    folder = javarocketmq.cache_folder(version) / f"clients-{digest}"
    with open(javarocketmq.cache_folder(version) / "compile.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            command = ["javac", "-nowarn", "-encoding", "UTF-8", "-d", str(folder)]
            command += ["-cp", f"{javarocketmq.install(version)}/*", *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)
            assert done.returncode == 0, done.stderr
            (folder / "complete").touch()
    return folder


class JavaClient:
    """One program in a process of its own. Its events are kept in the order they came."""

    def __init__(self, version: str, main: str, folder: Path, *arguments: str, options: tuple[str, ...] = ()):
        home = folder / f"{main}-{version}-home"
        command = javarocketmq.java_command(main, home, (*HEAP, *options), version)
        at = command.index("-cp")
        command[at + 1] = f"{compiled(version)}:{command[at + 1]}"
        # Later definitions win: the client logs into its home, and nothing of it to our pipe.
        (home / "logback.xml").write_text(javarocketmq.LOGBACK.format(path=home / "client.log"))
        command[at:at] = [f"-Dlogback.configurationFile={home / 'logback.xml'}"]
        self.output = folder / f"{main}-{version}.out"
        self._all: list[Event] = []
        self._answers: queue.Queue[Event] = queue.Queue()
        self._changed = threading.Condition()
        with open(self.output, "ab") as errors:
            self.process = subprocess.Popen(
                [*dies_with_us(), "nice", "-n", "19", *command, *arguments],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        threading.Thread(target=self._read, name=f"{main} output", daemon=True).start()

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
        return f"{self.process.args!r} {what}; its output ends:\n{self._tail()}"

    def _tail(self) -> str:
        return self.output.read_text(errors="replace")[-OUTPUT_TAIL:]
