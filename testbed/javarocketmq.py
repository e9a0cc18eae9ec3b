"""The real Apache RocketMQ, fetched by Maven, as server processes for interop tests and benchmarks.

Jars are copied once into the user's cache folder by a generated pom and never into the checkout. Name server
and broker are started by their own main classes with a rocketmq.home.dir of ours, which holds logback files
that keep RocketMQ's logs (and its user.home) inside the test's folder. Without Java or Maven, `available()`
says why.

Rejected: the binary release archive (no registry serves it), and one JVM for several servers (kill -9 needs a
pid each, and RocketMQ keeps static state).
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.processes import ServerProcess, Setting, broker_answers, namesrv_answers, write_conf

VERSION = "4.9.7"
ARTIFACTS = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-tools", "rocketmq-client")
FETCH_SECONDS = 300  # the first fetch loads about 40 jars
TEST_HEAP = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxDirectMemorySize=512m",
)
MODULE_OPENS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hatwisted</groupId>
  <artifactId>rocketmq-jars</artifactId>
  <version>{version}</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>org.apache.rocketmq</groupId>"
    "<artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
)
LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{path}</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %-5p %t %logger{{20}} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


class RocketMQMissing(Exception):
    """Java, Maven or the jars can't be had here; the message says which."""


def cache_folder(version: str = VERSION) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hatwisted" / f"rocketmq-{version}"


@functools.cache
def available(version: str = VERSION) -> str | None:
    """None if RocketMQ of that version can run here, else the reason why not. Fetches it the first time."""
    try:
        install(version)
    except RocketMQMissing as reason:
        return str(reason)
    return None


def install(version: str = VERSION) -> Path:
    """The folder with all jars; fetched by Maven unless it is there. Safe to call from several processes."""
    if shutil.which("java") is None:
        raise RocketMQMissing("no java on the PATH")
    folder = cache_folder(version)
    if (folder / "complete").exists():
        return folder
    if shutil.which("mvn") is None:
        raise RocketMQMissing(f"no mvn on the PATH and no RocketMQ {version} in {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "fetch.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _fetch(version, folder)
            (folder / "complete").touch()
    return folder


def _fetch(version: str, folder: Path) -> None:
    print(f"fetching RocketMQ {version} by Maven into {folder}", file=sys.stderr, flush=True)
    dependencies = "\n".join(DEPENDENCY.format(artifact=each, version=version) for each in ARTIFACTS)
    with tempfile.TemporaryDirectory() as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(POM.format(version=version, dependencies=dependencies))
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
        except subprocess.TimeoutExpired:
            raise RocketMQMissing(
                f"Maven took longer than {FETCH_SECONDS} s for RocketMQ {version}"
            ) from None
    if done.returncode:
        told = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise RocketMQMissing(f"Maven can't fetch RocketMQ {version}: {' '.join(told[:2])[:400]}")


def java_command(main: str, home: Path, jvm: Sequence[str] = TEST_HEAP, version: str = VERSION) -> list[str]:
    """argv of a RocketMQ main class with everything it writes kept under `home`."""
    _write_home(home)
    properties = [f"-Drocketmq.home.dir={home}", f"-Duser.home={home}", "-Drocketmq.client.logUseSlf4j=true"]
    return ["java", *jvm, *MODULE_OPENS, *properties, "-cp", f"{install(version)}/*", main]


def _write_home(home: Path) -> None:
    conf = home / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for program in ("namesrv", "broker", "tools"):
        (conf / f"logback_{program}.xml").write_text(LOGBACK.format(path=home / f"{program}.log"))
    # 5.x reads these names, through its own shaded logback
    for program in ("namesrv", "broker", "tools", "client"):
        text = LOGBACK.format(path=home / f"{program}.log").replace(
            "ch.qos.logback", "org.apache.rocketmq.logging.ch.qos.logback"
        )
        (conf / f"rmq.{program}.logback.xml").write_text(text)


def namesrv(
    name: str, folder: Path, port: int, jvm: Sequence[str] = TEST_HEAP, version: str = VERSION
) -> ServerProcess:
    """A Java name server on `port`."""
    conf = write_conf(folder / f"{name}.conf", {"listenPort": port})
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    argv = [*java_command(main, folder / f"{name}-home", jvm, version), "-c", str(conf)]
    return ServerProcess(name, argv, folder, port, namesrv_answers)


def broker(
    name: str,
    folder: Path,
    settings: Mapping[str, Setting],
    jvm: Sequence[str] = TEST_HEAP,
    version: str = VERSION,
) -> ServerProcess:
    """A Java broker with these RocketMQ settings; `listenPort` must be among them."""
    conf = write_conf(folder / f"{name}.conf", settings)
    main = "org.apache.rocketmq.broker.BrokerStartup"
    argv = [*java_command(main, folder / f"{name}-home", jvm, version), "-c", str(conf)]
    return ServerProcess(name, argv, folder, int(str(settings["listenPort"])), broker_answers)
