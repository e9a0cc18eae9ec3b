"""Spark Connect: a program without a JVM of its own, and Spark's server, which finds sources and sinks by itself
or is told of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')
pytest.importorskip("grpc", reason="Spark Connect's client isn't installed: pip install 'pyspark[connect]'")

from hatwisted.pipeline.decode.logreader import read_arrow
from hatwisted.pipeline.spark.javahome import find_java_home
from testbed.brokergroup import OURS, BrokerGroup
from tests.support import quickspark
from tests.support.clustermessages import fill
from tests.support.goldenlog import MASTER
from tests.support.pages import DOCS
from tests.support.soak import only_in_soak

pytestmark = [
    pytest.mark.timeout(1_800),
    only_in_soak("a server of Spark's of its own"),
]
QUEUES, COUNT = 3, 20
PAGES_PROGRAM = re.compile(
    r"<!-- run by tests/pipeline/programs/test_connect.py -->\n\n```python\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
PROGRAM = """
import json, sys

from pyspark.sql import SparkSession

from hatwisted.pipeline.spark.repeats import without_repeats

store, names, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
cluster = {"namesrvAddr": names, "retries": "2", "answerTimeoutMs": "60000"}
said = {}


def bodies(rows):
    return sorted(bytes(row.body).hex() for row in rows.select("body").collect())


def pulled(topic):
    return spark.read.format("rocketmq").options(**cluster, topics=topic).load()


def into_files(rows, name):
    files = rows.writeStream.format("parquet").option("path", f"{folder}/{name}")
    files = files.option("checkpointLocation", f"{folder}/{name}-at").trigger(availableNow=True)
    files.start().awaitTermination()
    return spark.read.parquet(f"{folder}/{name}")


log = spark.read.format("commitlog").option("columns", "topic,queue_id").load(store)
said["counted"] = {row["topic"]: row["count"] for row in log.groupBy("topic").count().collect()}
rows = spark.readStream.format("commitlog").option("columns", "physical_offset,body").load(store)
said["streamed"] = into_files(rows, "rows").count()

said["pulled"] = bodies(pulled("Orders"))
stream = spark.readStream.format("rocketmq").options(**cluster, topics="Orders").load()
said["pulled in a stream"] = bodies(into_files(stream.select("body"), "pulled"))
said["copied by the page's program"] = bodies(without_repeats(pulled("Copies")))
print(json.dumps(said))
spark.stop()
"""


def pages_program(replaced: Mapping[str, str]) -> str:
    """That of the page on clusters, with a test's addresses and folders in place of its own."""
    (code,) = PAGES_PROGRAM.findall((DOCS / "pipeline" / "spark.md").read_text())
    for shown, ours in replaced.items():
        assert shown in code
        code = code.replace(shown, ours)
    return str(code)


def test_sources_and_sinks(java: None, tmp_path: Path) -> None:
    """In batches and streams, from the page's program on, which copies a topic by a stream."""
    log = read_arrow(str(MASTER), ["topic"]).read_all()
    plain = {name: value for name, value in os.environ.items() if name not in quickspark.SETTINGS}
    own = {
        "JAVA_HOME": find_java_home(os.environ),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with BrokerGroup(tmp_path / "cluster", namesrv_kind=OURS) as group:
        group.start()
        sent = fill(group, "Orders", COUNT, queues=QUEUES)
        names = f"127.0.0.1:{group.namesrv_port}"
        shown = pages_program(
            {"sc://10.0.0.9:15002": "local[1]", "10.0.0.1:9876": names, "/lake": str(tmp_path)}
        )
        given = [str(MASTER), names, str(tmp_path)]
        done = subprocess.run(
            [sys.executable, "-c", shown + PROGRAM, *given],
            env=plain | own,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    bodies = sorted(body.hex() for each in sent for body in each.bodies)
    count, last = done.stdout.splitlines()
    assert int(count) == len(bodies)
    said = json.loads(last)
    assert said == {
        "counted": dict(Counter(log.column("topic").to_pylist())),
        "streamed": len(log),
        "pulled": bodies,
        "pulled in a stream": bodies,
        "copied by the page's program": bodies,
    }
