"""RocketMQ's own Java client at the other end of a pipe: the programs of tests/interop/java, one process each.

    with JavaClient("4.9.7", "Producer", folder, "127.0.0.1:9876") as client:
        client.tell("sync", "Topic", "body", 10)
        client.events("sent")

They are compiled by javac against the jars of the version that is asked for, once for each state of their
sources, into the cache folder of these jars.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from testbed import javarocketmq
from testbed.processes import REPOSITORY
from tests.support.clientprogram import ClientProgram

SOURCES = REPOSITORY / "tests" / "interop" / "java"
VERSIONS = ("4.9.7", "5.3.3")
HEAP = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
BINARY = "-Drocketmq.serialize.type=ROCKETMQ"  # headers in RocketMQ's binary form, both ways
COMPILE_SECONDS = 120.0


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


class JavaClient(ClientProgram):
    """One of the programs, by its class. options: more of the JVM's, as BINARY."""

    def __init__(
        self, version: str, main: str, folder: Path, *arguments: str, options: tuple[str, ...] = ()
    ) -> None:
        home = folder / f"{main}-{version}-home"
        command = javarocketmq.java_command(main, home, (*HEAP, *options), version)
        at = command.index("-cp")
        command[at + 1] = f"{compiled(version)}:{command[at + 1]}"
        # The client logs into its home, and nothing of it into our pipe.
        (home / "logback.xml").write_text(javarocketmq.LOGBACK.format(path=home / "client.log"))
        command[at:at] = [f"-Dlogback.configurationFile={home / 'logback.xml'}"]
        super().__init__(f"{main}-{version}", folder, [*command, *arguments])
