"""Spark Connect: a program without a JVM of its own, and Spark's server, which finds the sources by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
pytest.importorskip("grpc", reason="Spark Connect's client isn't installed: pip install 'pyspark[connect]'")

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.spark.javahome import find_java_home
from tests.support import quickspark
from tests.support.goldenlog import MASTER
from tests.support.scriptedgroup import BROKER, TOPIC, GroupsCase
from tests.support.soak import only_in_soak

pytestmark = [
    pytest.mark.timeout(1_800),
    only_in_soak("a server of Spark's of its own"),
]
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

store, names, topic, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
log = spark.read.format("commitlog").option("columns", "topic,queue_id").load(store)
counted = {row["topic"]: row["count"] for row in log.groupBy("topic").count().collect()}
rows = spark.readStream.format("commitlog").option("columns", "physical_offset,body").load(store)
written = rows.writeStream.format("parquet").option("path", f"{folder}/rows")
written = written.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
written.awaitTermination()
streamed = spark.read.parquet(f"{folder}/rows").count()
pulled = spark.read.format("rocketmq").option("namesrvAddr", names).option("topics", topic).load()
offsets = sorted(row["queue_offset"] for row in pulled.select("queue_offset").collect())
print(json.dumps({"counted": counted, "streamed": streamed, "offsets": offsets}))
spark.stop()
"""


class ConnectTests(GroupsCase):
    @pytest.fixture(autouse=True)
    def _folder(self, java: None, tmp_path: Path) -> None:
        self.folder = tmp_path

    def test_both_sources_are_read_and_one_is_streamed(self) -> None:
        self.group(20)
        plain = {name: value for name, value in os.environ.items() if name not in quickspark.SETTINGS}
        own = {
            "JAVA_HOME": find_java_home(os.environ),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        given = [str(MASTER), self.names.address, TOPIC, str(self.folder)]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *given],
            env=plain | own,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        topics = read_arrow(str(MASTER), ["topic"]).read_all().column(0).to_pylist()
        said = json.loads(done.stdout.splitlines()[-1])
        assert said == {
            "counted": dict(Counter(topics)),
            "streamed": len(topics),
            "offsets": list(range(20)),
        }, BROKER
