"""HDFS of our own: Hadoop's name node and a data node in one JVM, as Maven has them (hadoop-client-minicluster).

with hdfs_cluster(folder) as address:  # hdfs://localhost:PORT
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.mavenjars import MavenJars
from tests.support.processgroup import process_group, when_started

HADOOP = "3.5.0"
JARS = MavenJars(
    "hdfs",
    "org.apache.hadoop",
    ("hadoop-client-minicluster",),
    HADOOP,
    # The cluster's starter is one of Hadoop's tests.
    others=("org.junit.jupiter:junit-jupiter-api:5.13.4",),
)
STARTER = "org.apache.hadoop.test.MiniDFSClusterManager"
START_SECONDS = 120.0


def no_hdfs() -> str | None:
    """None where it can be had, else the reason why not."""
    try:
        import hdfs_native  # noqa: F401
    except ImportError:
        return 'hdfs-native isn\'t installed: pip install "hatwisted[hdfs]"'
    return JARS.missing()


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[str]:
    """The address of a name node whose files, and a data node's, are in this folder."""
    details, log = folder / "details.json", folder / "hdfs.log"
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={folder}/data"]
    command += ["-cp", f"{JARS.install()}/*", STARTER, "-format", "-datanodes", "1", "-nnport", "0"]
    command += ["-writeDetails", str(details)]
    with log.open("w") as output, process_group(*command, stdout=output, stderr=subprocess.STDOUT) as cluster:
        port = when_started(cluster, log, lambda: _port(details), START_SECONDS)
        yield f"hdfs://localhost:{port}"


def _port(details: Path) -> int | None:
    """None while the cluster hasn't written them whole."""
    try:
        return int(json.loads(details.read_text())["namenode_port"])
    except (FileNotFoundError, json.JSONDecodeError):
        return None
