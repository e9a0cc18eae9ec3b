"""The real Apache RocketMQ, fetched by Maven, as server processes for interop tests and benchmarks.

Name server and broker are started by their own main classes with a rocketmq.home.dir of ours, which holds logback
files that keep RocketMQ's logs (and its user.home) inside the test's folder. Without Java or Maven, `available()`
says why.

Rejected: the binary release archive (no registry serves it), and one JVM for several servers (kill -9 needs a
pid each, and RocketMQ keeps static state).
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from testbed.mavenjars import MavenJars
from testbed.processes import (
    BROKER_PORTS,
    ServerProcess,
    Setting,
    all_stopped,
    broker_answers,
    free_port,
    namesrv_answers,
    write_conf,
)

Probe = Callable[[int], object]

VERSION = "4.9.7"
ARTIFACTS = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-tools", "rocketmq-client")
SHARED_CLASSES = "-Xshare:auto"
TEST_JVM = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    SHARED_CLASSES,
    "-Dtls.server.mode=disabled",  # a server makes itself an RSA key otherwise, half of what its start costs
)
"""For servers that start fast and stay small. With SHARED_CLASSES their classes come parsed and verified from a
file that the first start of each main class writes: half of the other half."""
TRAINING_SECONDS = 120.0  # a first start on a busy machine, and an orderly end
MODULE_OPENS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)

LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{path}</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %-5p %t %logger{{20}} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


def jars(version: str = VERSION) -> MavenJars:
    return MavenJars("RocketMQ", "org.apache.rocketmq", ARTIFACTS, version)


def cache_folder(version: str = VERSION) -> Path:
    return jars(version).folder


@functools.cache
def available(version: str = VERSION) -> str | None:
    """None if RocketMQ of that version can run here, else the reason why not. Fetches it the first time."""
    return jars(version).missing()


def install(version: str = VERSION) -> Path:
    """The folder with all jars; fetched by Maven unless it is there."""
    return jars(version).install()


def java_command(main: str, home: Path, jvm: Sequence[str] = TEST_JVM, version: str = VERSION) -> list[str]:
    """argv of a RocketMQ main class with everything it writes kept under `home`."""
    _write_home(home)
    properties = [f"-Drocketmq.home.dir={home}", f"-Duser.home={home}", "-Drocketmq.client.logUseSlf4j=true"]
    return ["java", *jvm, *MODULE_OPENS, *properties, "-cp", f"{install(version)}/*", main]


def _server(
    name: str, main: str, conf: Path, port: int, probe: Probe, jvm: Sequence[str], version: str
) -> ServerProcess:
    folder = conf.parent
    if SHARED_CLASSES in jvm:
        jvm = [*jvm, f"-XX:SharedArchiveFile={_shared_classes(main, probe, version)}"]
    argv = [*java_command(main, folder / f"{name}-home", jvm, version), "-c", str(conf)]
    return ServerProcess(name, argv, folder, port, probe)


def class_archive(folder: Path, name: str) -> Path:
    """Where a program's classes lie parsed and verified for the `java` there is now, if they do."""
    java = os.stat(os.path.realpath(str(shutil.which("java"))))
    return folder / f"{name}-{java.st_size:x}-{int(java.st_mtime):x}.jsa"


@functools.cache
def _shared_classes(main: str, probe: Probe, version: str) -> Path:
    """The archive of a server's classes, made by a start and an orderly end of it unless it is there. Another
    Java's is made again; one that doesn't fit is ignored by the JVM. Safe to call from several processes."""
    folder = install(version)
    archive = class_archive(folder, main.rpartition(".")[2])
    with open(folder / "classes.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            with tempfile.TemporaryDirectory(prefix="classes", dir=folder) as scratch:
                made = Path(scratch) / archive.name
                _train(main, Path(scratch), probe, version, made)
                made.replace(archive)
    return archive


def _train(main: str, folder: Path, probe: Probe, version: str, archive: Path) -> None:
    port = free_port(BROKER_PORTS)
    settings: dict[str, Setting] = {
        "listenPort": port,
        "brokerIP1": "127.0.0.1",
        "storePathRootDir": folder,
        "storePathCommitLog": folder / "commitlog",
        "mappedFileSizeCommitLog": 1 << 20,
        "mappedFileSizeConsumeQueue": 20_000,
        "maxHashSlotNum": 500,
        "maxIndexNum": 2000,
    }
    conf = write_conf(folder / "training.conf", settings)
    jvm = [option for option in TEST_JVM if option != SHARED_CLASSES]
    jvm.append(f"-XX:ArchiveClassesAtExit={archive}")
    server = _server("training", main, conf, port, probe, jvm, version)
    with all_stopped(server):
        server.start(TRAINING_SECONDS)
        server.stop(TRAINING_SECONDS)


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
    name: str, folder: Path, port: int, jvm: Sequence[str] = TEST_JVM, version: str = VERSION
) -> ServerProcess:
    """A Java name server on `port`."""
    conf = write_conf(folder / f"{name}.conf", {"listenPort": port})
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    return _server(name, main, conf, port, namesrv_answers, jvm, version)


def broker(
    name: str,
    folder: Path,
    settings: Mapping[str, Setting],
    jvm: Sequence[str] = TEST_JVM,
    version: str = VERSION,
) -> ServerProcess:
    """A Java broker with these RocketMQ settings; `listenPort` must be among them."""
    conf = write_conf(folder / f"{name}.conf", settings)
    main = "org.apache.rocketmq.broker.BrokerStartup"
    return _server(name, main, conf, int(str(settings["listenPort"])), broker_answers, jvm, version)
