"""Sparks that start quickly: half of what a start and a first query cost can be done once for all of them.

- Its JVM takes its classes parsed and verified from an archive, as RocketMQ's servers do in
  testbed/javarocketmq.py, and has one quick compiler and one thread that collects.
- Its Python workers import PySpark as it is installed. Spark puts pyspark.zip before that, which holds no compiled
  modules: each of the eight processes of a first landing would compile PySpark again, for a second and more.

Both lie in a folder of the checkout's build/, made once for each Java and each installation of PySpark.

Run as a program it is the start that writes the archive.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

import pyspark

from testbed.processes import REPOSITORY

HOME, OPTIONS = SETTINGS = ("SPARK_HOME", "SPARK_SUBMIT_OPTS")
"""What is set in the environment of such Sparks."""
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LINKED = ("bin", "jars")
"""What Spark needs of its home here: all but python/lib with its pyspark.zip."""
TRAINING_SECONDS = 240.0
"""A start, a few queries and an orderly end take 20 s on an idle machine; one that needs more does without."""


def quick_start(java_home: str) -> dict[str, str]:
    """Environment of Sparks that start so. The first call of a checkout takes a start by itself."""
    home = _home(java_home)
    archive = home / "classes.jsa"
    shared = f' -Xlog:disable "-XX:SharedArchiveFile={archive}"' if archive.exists() else ""
    return {HOME: str(home), OPTIONS: QUICK_JVM + shared}


def _home(java_home: str) -> Path:
    """The folder, made unless it is there. Safe to call from several processes."""
    installed = Path(pyspark.__file__).parent
    java = os.path.realpath(Path(java_home, "bin", "java"))
    # Where and when they were installed: the JVM takes no archive of other files.
    stated = [(str(path), os.stat(path).st_mtime_ns) for path in (java, installed / "jars")]
    home = REPOSITORY / "build" / f"spark-{pyspark.__version__}-{zlib.crc32(repr(stated).encode()):08x}"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            for name in LINKED:
                if not (home / name).exists():
                    (home / name).symlink_to(installed / name)
            _train(home)
            (home / "complete").touch()
    return home


def _train(home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="training", dir=home) as folder:
        made = Path(folder, "classes.jsa")
        options = f'{QUICK_JVM} -Xlog:disable "-XX:ArchiveClassesAtExit={made}"'
        quick = {HOME: str(home), OPTIONS: options, "PYTHONPATH": str(REPOSITORY)}
        try:
            done = subprocess.run(
                [sys.executable, "-m", __name__, folder],
                cwd=folder,
                env=os.environ | quick,
                capture_output=True,
                text=True,
                timeout=TRAINING_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return
        if (
            done.returncode
        ):  # whatever Spark's processes have come to at their end: it's speed alone that is lost
            warnings.warn(f"Sparks start slowly: {done.stderr[-2000:]}", stacklevel=2)
        elif made.exists():  # a runtime that has no archive of its own to build upon writes none
            made.replace(home / "classes.jsa")


def main(folder: str) -> None:
    """What Spark does in most tests: rows from and to files and Python workers, a stream, an aggregate."""
    from hatwisted.pipeline.spark.sparksession import spark_session

    spark = spark_session(app="training")
    schema, rows, copied = "key bigint, value bigint", f"{folder}/rows", f"{folder}/copied"
    spark.range(100).selectExpr("id % 3 as key", "id as value").write.parquet(rows)
    stream = spark.readStream.schema(schema).parquet(rows).mapInArrow(lambda batches: batches, schema)
    written = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    written.trigger(availableNow=True).start(copied).awaitTermination()
    spark.read.parquet(copied).groupBy("key").count().orderBy("key").toArrow()
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()  # its orderly end, which writes the archive
    jvm.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
