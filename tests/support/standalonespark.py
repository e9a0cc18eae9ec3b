"""A standalone cluster of Spark: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from hatwisted.pipeline.spark.javahome import find_java_home
from testbed.processes import wait_until
from tests.support import quickspark
from tests.support.processgroup import Program, process_group
from tests.support.sparkworkers import PATIENCE

CLASSES = Path(pyspark.__file__).parent / "bin" / "spark-class"
WORKERS = ("one", "two")


@dataclass
class Cluster:
    """master: its address; environment: of programs; workers: their processes by their folders."""

    master: str
    environment: dict[str, str]
    workers: dict[Path, int]

    def command(self, *arguments: object) -> tuple[str, ...]:
        """One of the pipeline's, with a core of the cluster."""
        given = [sys.executable, "-m", "hatwisted", "pipeline", *map(str, arguments), "--master", self.master]
        for setting in ("spark.cores.max=1", "spark.executor.memory=512m", "spark.ui.enabled=false"):
            given += ["--conf", setting]
        return tuple(given)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = self.command(*arguments)
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)


@contextmanager
def server(environment: dict[str, str], says: str, *arguments: str) -> Iterator[tuple[str, int]]:
    """One of Spark's own, as long as it's needed, once it has said this: the rest of that line, and its number."""
    told: list[str] = []

    def listen(process: Program) -> None:
        assert process.stderr is not None
        told.extend(line.partition(says)[2].strip() for line in process.stderr if says in line)

    with process_group(
        str(CLASSES), *arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        thread = threading.Thread(target=listen, args=(process,), daemon=True)
        thread.start()
        wait_until(lambda: bool(told), PATIENCE, f"{arguments[0]} says {says}")
        yield told[0], process.pid


@contextmanager
def standalone_cluster(folder: Path, without: tuple[str, ...] = ()) -> Iterator[Cluster]:
    """As on a user's machine: its Sparks start without what makes them quick for tests.

    - folder: of the workers' folders
    - without: what this process's environment has, and theirs hasn't
    """
    own = {
        "JAVA_HOME": find_java_home(os.environ),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    plain = {
        name: value for name, value in os.environ.items() if name not in {*quickspark.SETTINGS, *without}
    }
    environment, deploy = plain | own, "org.apache.spark.deploy"
    with ExitStack() as servers:
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        master, _ = servers.enter_context(
            server(environment, "Starting Spark master at ", f"{deploy}.master.Master", *where, "--port", "0")
        )
        workers = {}
        for work in (folder / name for name in WORKERS):
            size = ("--cores", "1", "--memory", "600M", "--work-dir", str(work))
            worker = (f"{deploy}.worker.Worker", *where, *size, master)
            registered = server(environment, "Successfully registered with master ", *worker)
            _, workers[work] = servers.enter_context(registered)
        yield Cluster(master, environment, workers)
