"""RocketMQ's own Java client at the other end of a pipe: the programs of tests/interop/java, one process each.

    with JavaClient("4.9.7", "Producer", folder, "127.0.0.1:9876") as client:
        client.tell("sync", "Topic", "body", 10)
        client.events("sent")

They are compiled by javac against the jars of the version that is asked for, once for each state of their
sources, into the cache folder of these jars. There the first program of each class that ends well leaves its
classes parsed and verified: later ones start in half the time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from testbed import javarocketmq
from testbed.processes import REPOSITORY
from tests.support.clientprogram import ClientProgram

SOURCES = REPOSITORY / "tests" / "interop" / "java"
VERSIONS = ("4.9.7", "5.3.3")
HEAP = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
BINARY = "-Drocketmq.serialize.type=ROCKETMQ"  # headers in RocketMQ's binary form, both ways
COMPILE_SECONDS = 120.0
JAR = "clients.jar"


def unavailable(version: str) -> str | None:
    """None if the client of that version can be compiled and run here, else the reason why not."""
    if shutil.which("javac") is None:
        return "no javac on the PATH"
    return javarocketmq.available(version)


def compiled(version: str) -> Path:
    """The jar of classes for the sources as they are now. Safe to call from several processes."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    folder = javarocketmq.cache_folder(version) / f"clients-jar-{digest}"
    with open(javarocketmq.cache_folder(version) / "compile.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            with tempfile.TemporaryDirectory() as classes:
                command = ["javac", "-nowarn", "-encoding", "UTF-8", "-d", classes]
                _run([*command, "-cp", f"{javarocketmq.install(version)}/*", *map(str, sources)])
                folder.mkdir(exist_ok=True)
                # The JVM archives no classes of a folder.
                _run(["jar", "--create", "--file", str(folder / JAR), "-C", classes, "."])
            (folder / "complete").touch()
    return folder / JAR


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)
    assert done.returncode == 0, done.stderr


class JavaClient(ClientProgram):
    """One of the programs, by its class. options: more of the JVM's, as BINARY."""

    def __init__(
        self, version: str, main: str, folder: Path, *arguments: str, options: tuple[str, ...] = ()
    ) -> None:
        home = folder / f"{main}-{version}-home"
        jar = compiled(version)
        self._archive = javarocketmq.class_archive(jar.parent, main)
        self._made = self._archive.with_name(f"{main}-{os.getpid()}-{id(self):x}.made")
        shared = (
            ["-Xlog:disable", f"-XX:SharedArchiveFile={self._archive}"]
            if self._archive.exists()
            else [f"-XX:ArchiveClassesAtExit={self._made}"]
        )
        command = javarocketmq.java_command(main, home, (*HEAP, *shared, *options), version)
        at = command.index("-cp")
        command[at + 1] = f"{jar}:{command[at + 1]}"
        # The client logs into its home, and nothing of it into our pipe.
        (home / "logback.xml").write_text(javarocketmq.LOGBACK.format(path=home / "client.log"))
        command[at:at] = [f"-Dlogback.configurationFile={home / 'logback.xml'}"]
        super().__init__(f"{main}-{version}", folder, [*command, *arguments])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._made.exists() and self.process.returncode == 0:
            self._made.replace(self._archive)
        self._made.unlink(missing_ok=True)
